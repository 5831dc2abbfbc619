"""Constants of the kernels that pack, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import kv_pack
from validation.core.sizes import EVERY_ROW, PATH, Measured, Side, Size, Sizes
from validation.operations.kv_pack.case import Case

_TABLE = (
    Size(
        ("kv_pack.py:THREADS", "kv_pack.py:_ROWS", "kv_pack.cu:kWarps"),
        kv_pack.THREADS // 32,
        "packed rows",
        Side.EDGE,
        "rows of a block",
    ),
)

_FIXED = {
    EVERY_ROW: ("kv_pack.cu:kDim",),
    PATH: ("kv_pack.py:_DEFINES",),
}


def _of(case: Case) -> Measured:
    yield "packed rows", {case.context * case.n_head_kv}


SIZES = Sizes(
    ("kv_pack",),
    ("kv_pack",),
    _TABLE,
    _FIXED,
    _of,
)
