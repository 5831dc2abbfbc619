"""Constants of the kernels that choose, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import topk_kernels
from strata.kernels.selection import BLOCK as CELLS
from validation.core.sizes import AHEAD, BITS, BLOCK, EVERY_ROW, TILE, Measured, Side, Size, Sizes
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase

_TABLE = (
    Size(
        ("topk_kernels.py:THREADS",),
        topk_kernels.THREADS,
        "blocks chosen from",
        Side.EDGE,
        "blocks of a turn",
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
    TILE: ("topk_kernels.py:SHARED_BYTES",),
    BLOCK: ("block_topk.cu:kWarps",),
    AHEAD: ("block_topk.cu:kAhead",),
    BITS: ("block_topk.cu:kBins", "block_topk.cu:kPasses"),
}


def _of(case: SelectCase) -> Measured:
    yield "blocks chosen from", set((lengths.cells(case) // CELLS).tolist())


SIZES = Sizes(("block_topk",), ("block_topk", "topk_kernels"), _TABLE, _FIXED, _of)
