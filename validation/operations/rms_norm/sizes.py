"""Constants of RMSNorm's kernel, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import rms_norm
from validation.core.sizes import BITS, FAR, TILE, Measured, Side, Size, Sizes
from validation.operations.rms_norm.case import NormCase

_TABLE = (
    Size(("rms_norm.py:WARPS",), rms_norm.WARPS, "normed rows", Side.EDGE, "rows of a block"),
    Size((), (32, 64), "fours of normed columns", Side.EDGE, "fours of a turn of a warp"),
)

_FIXED = {
    TILE: ("rms_norm.py:_VECTOR",),
    BITS: ("rms_norm.py:LEAST_EPS", "rms_norm.py:LARGEST_EPS"),
    FAR: ("rms_norm.py:MOST_COLUMNS", "rms_norm.py:MOST_ROWS"),
}


def _of(case: NormCase) -> Measured:
    yield "normed rows", {case.rows}
    yield "fours of normed columns", {case.n // 4}


SIZES = Sizes(("rms_norm",), ("rms_norm",), _TABLE, _FIXED, _of)
