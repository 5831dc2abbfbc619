"""Constants of the kernels of attention, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import decode_attention, pool, prompt_attention
from validation.core.sizes import AHEAD, BITS, BLOCK, EVERY_ROW, TILE, Measured, Side, Size, Sizes
from validation.operations.attention import pools
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import page_table
from validation.operations.kv_pack.recipes import find

_CHUNKS = {prompt_attention.cells_per_chunk(mode, tier) for mode in pool.MODE_FORMATS for tier in (75, 80)}
_TILES = tuple(sorted(_CHUNKS))

_TABLE = (
    Size(("prompt_attention.py:WARPS", "prompt_attention.cu:kWarps"), _TILES, "width", Side.EDGE, "cells of a chunk"),
    Size(
        ("prompt_attention.py:RING", "prompt_attention.cu:kRing"),
        prompt_attention.RING * max(_TILES),
        "width",
        Side.OVER,
        "chunks whose rows are held; then their places are used again",
    ),
    Size(
        ("decode_attention.py:CELLS", "decode_attention.cu:kChunk"),
        decode_attention.CELLS,
        "width",
        Side.EDGE,
        "cells of a chunk",
    ),
    Size(("decode_attention.py:BATCH",), decode_attention.BATCH, "queries", Side.OVER, "queries of a launch"),
    Size(("pool.py:GROUPS",), pool.GROUPS, "query heads of a KV head", Side.EACH, "the kernels are built for each"),
)

_FIXED = {
    EVERY_ROW: (
        "decode_attention.cu:kDim",
        "prompt_attention.cu:kDim",
        "pool.py:HEAD_DIM",
        "decode_attention.cu:kEach",
        "decode_attention.cu:kVScales",
        "prompt_attention.cu:kPerWarp",
        "prompt_attention.cu:kSteps",
        "prompt_attention.cu:kSums",
        "prompt_attention.cu:kWindows",
        "prompt_attention.cu:kVGroups",
        "prompt_attention.cu:kScales",
    ),
    TILE: (
        "prompt_attention.py:ROWS",
        "prompt_attention.cu:kRows",
        "prompt_attention.cu:kScoreRow",
        "prompt_attention.cu:kKRow",
        "prompt_attention.cu:kVRow",
        "prompt_attention.cu:kStages",
    ),
    BLOCK: (
        "decode_attention.py:THREADS",
        "decode_attention.cu:kThreads",
        "decode_attention.cu:kWarps",
        "prompt_attention.py:THREADS",
        "prompt_attention.cu:kThreads",
    ),
    AHEAD: (
        "decode_attention.cu:kAhead",
        "prompt_attention.py:MIN_BLOCKS",
    ),
    BITS: (
        "decode_attention.cu:kMinusInfinity",
        "prompt_attention.cu:kMinusInfinity",
    ),
}


def _of(case: Case) -> Measured:
    recipe = find(case.recipe)
    table, _ = page_table(case.stream("pages"), recipe.pages, case.context, case.page_size)
    yield "width", set(pools.select(case, recipe.widths, len(table))[2].tolist())
    yield "queries", {case.queries}
    yield "query heads of a KV head", {case.group}


SIZES = Sizes(
    ("prompt_attention", "decode_attention"),
    ("prompt_attention", "decode_attention", "pool"),
    _TABLE,
    _FIXED,
    _of,
)
