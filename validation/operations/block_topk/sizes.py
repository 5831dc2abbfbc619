"""Constants of the kernels that choose, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import topk_kernels
from strata.kernels.selection import BLOCK as CELLS
from validation.core.sizes import AHEAD, BITS, BLOCK, EVERY_ROW, Measured, Side, Size, Sizes
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase

_TABLE = (
    Size(
        ("topk_kernels.py:SHORT_THREADS",),
        topk_kernels.SHORT_THREADS,
        "blocks chosen from",
        Side.EDGE,
        "blocks of a turn of the short kernel",
    ),
    Size(
        ("topk_kernels.py:LONG_THREADS",),
        topk_kernels.LONG_THREADS,
        "blocks chosen from",
        Side.EDGE,
        "blocks of a turn of the long kernel",
    ),
    Size(
        ("topk_kernels.py:SHORT_BLOCKS", "topk_kernels.py:EACH"),
        topk_kernels.SHORT_BLOCKS,
        "blocks chosen from",
        Side.EDGE,
        "scores that are held in registers; beyond, the other kernel reads them again",
    ),
)

_FIXED = {
    EVERY_ROW: ("block_topk.cu:kBlock",),
    BLOCK: ("block_topk.cu:kWarps", "block_topk.cu:kBinsEach"),
    AHEAD: ("block_topk.cu:kAhead",),
    BITS: (
        *(f"block_topk.cu:{name}" for name in ("kBins", "kPasses", "kDigit", "kLastDigit", "kNoBlock", "kNaN")),
        "topk_kernels.py:BINS",
    ),
}


def _of(case: SelectCase) -> Measured:
    yield "blocks chosen from", set((lengths.cells(case) // CELLS).tolist())


SIZES = Sizes(("block_topk",), ("block_topk", "topk_kernels"), _TABLE, _FIXED, _of)
