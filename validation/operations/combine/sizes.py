"""Constants of the kernel that combines, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import combine
from validation.core.sizes import TILE, Measured, Side, Size, Sizes
from validation.operations.experts.case import ExpertCase

_TABLE = (Size(("combine.py:THREADS",), combine.THREADS, "combined fours of columns", Side.OVER, "threads of a block"),)

_FIXED = {
    TILE: ("combine.py:_VECTOR",),
}


def _of(case: ExpertCase) -> Measured:
    yield "combined fours of columns", {case.tokens * case.n // 4}


SIZES = Sizes(
    ("combine",),
    ("combine",),
    _TABLE,
    _FIXED,
    _of,
)
