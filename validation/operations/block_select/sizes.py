"""Constants of the scorers, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import block_select, block_select_warp, selection
from validation.core.sizes import BITS, BLOCK, EVERY_ROW, FAR, TILE, Measured, Side, Size, Sizes
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase

_QUERIES, _BLOCKS = (tuple(sorted(set(sizes))) for sizes in zip(*block_select.TILES.values(), strict=True))

_TABLE = (
    Size(
        ("block_select_warp.py:WARPS",),
        block_select_warp.WARPS,
        "blocks of a query",
        Side.EDGE,
        "blocks of a thread block",
    ),
    Size(("block_select.py:TILES",), _BLOCKS, "blocks of a query", Side.EDGE, "blocks of a tile"),
    Size((), _QUERIES, "selecting queries", Side.EDGE, "queries of a tile"),
    Size(("selection.py:BLOCK",), selection.BLOCK, "cells of a query", Side.EDGE, "cells of a block"),
    Size(
        ("selection.py:TOP",),
        selection.usual_width(1 << 20),
        "cells of a query",
        Side.EDGE,
        "a query no longer chooses all its cells",
    ),
)

_FIXED = {
    EVERY_ROW: ("selection.py:HEADS", "selection.py:DIMS"),
    TILE: (
        *("block_select.py:SLICE", "block_select.cu:kSlice", "block_select.cu:kRows", "block_select.cu:kPieces"),
        *("block_select.cu:kAtOnce", "block_select.cu:kQRows", "block_select.cu:kKeyRows", "block_select.cu:kParts"),
        *("block_select.cu:kPartBytes", "block_select.cu:kPieceBytes", "block_select.cu:kSlices"),
        *("block_select.cu:kSliceBytes", "block_select.cu:kSlicePieces", "block_select.cu:kStages"),
        *("block_select.cu:kQueryWarps", "block_select.cu:kBlockWarps", "block_select.cu:kTiles"),
    ),
    BLOCK: ("block_select.py:THREADS",),
    BITS: ("block_select.cu:kUsual", "selection.py:UNWRITTEN"),
    FAR: (
        *("selection.py:MOST_QUERIES", "selection.py:MOST_BLOCKS"),
        *("block_select.py:_MOST_TILES", "block_select.py:_ENOUGH"),
    ),
}


def _of(case: SelectCase) -> Measured:
    cells = lengths.cells(case)
    yield "cells of a query", set(cells.tolist())
    yield "blocks of a query", set((cells // selection.BLOCK).tolist())
    yield "selecting queries", {case.queries}


SIZES = Sizes(
    ("block_select", "block_select_warp", "block_split"),
    ("selection", "block_select", "block_select_warp"),
    _TABLE,
    _FIXED,
    _of,
)
