"""Constants of rope's kernel, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import rope
from validation.core.sizes import EVERY_ROW, FAR, TILE, Measured, Side, Size, Sizes
from validation.operations.rope.case import RopeCase

_TABLE = (
    Size(("rope.py:THREADS",), rope.THREADS, "turned fours of pairs", Side.EDGE, "threads of a block"),
)  # fmt: skip
_FIXED = {
    TILE: ("rope.py:FOUR",),
    EVERY_ROW: ("rope.py:WORDS",),
    FAR: ("rope.py:_MOST_BLOCKS",),
}


def _of(case: RopeCase) -> Measured:
    yield "turned fours of pairs", {case.rows * case.heads * case.d // (2 * rope.FOUR)}


SIZES = Sizes(("rope",), ("rope",), _TABLE, _FIXED, _of)
