"""Constants of the router's kernel, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import router
from validation.core.sizes import BITS, FAR, Measured, Side, Size, Sizes
from validation.operations.experts.case import ExpertCase

_TABLE = (
    Size(("router.py:WARPS",), router.WARPS, "routed tokens", Side.EDGE, "tokens of a block"),
    Size(("router.py:MOST_EXPERTS",), router.MOST_EXPERTS, "routed experts", Side.MOST, "logits of a token"),
    Size(("router.cu:kEach",), 32, "routed experts", Side.EDGE, "experts of a turn of a warp"),
    Size(("router.py:MOST_RANKS",), router.MOST_RANKS, "ranks of the router", Side.MOST, "a lane writes each rank"),
)

_FIXED = {
    BITS: ("router.cu:kLargest",),
    FAR: ("router.py:_MOST_BLOCKS",),
}


def _of(case: ExpertCase) -> Measured:
    yield "routed tokens", {case.tokens}
    yield "routed experts", {case.experts}
    yield "ranks of the router", {case.top}


SIZES = Sizes(
    ("router",),
    ("router",),
    _TABLE,
    _FIXED,
    _of,
)
