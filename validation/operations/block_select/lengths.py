"""How many cells each query of a case has, and what follows from that."""

from __future__ import annotations

import numpy as np

from strata.kernels.block_select import TILES
from strata.kernels.selection import BLOCK
from validation.core.random_streams import Stream
from validation.operations.block_select.case import LENGTHS, SelectCase

#: Recipes whose queries are of any length where the case does not say.
_RAGGED = ("lengths", "sizes")
#: Cells around the edges of blocks.
FEW = (0, 1, 2, 3, 4, 5)
#: Queries of the smallest tile of the scorers, and blocks of each.
TILE_QUERIES = min(queries for queries, _ in TILES.values())
TILE_BLOCKS = tuple(sorted({blocks for _, blocks in TILES.values()}))


def cells(case: SelectCase) -> np.ndarray:
    """int64 [queries]: the cells of each query, at most the context."""
    kind = case.recipe.partition("_")[2]
    said = dict(case.options).get("lengths", "ragged" if kind in _RAGGED else LENGTHS[0])
    if said == "equal":
        return np.full(case.queries, case.context, np.int64)
    if said == "causal":
        return np.maximum(np.arange(case.queries) + case.context - case.queries + 1, 0).astype(np.int64)
    return _ragged(case, case.stream("lengths"))


def edges(case: SelectCase) -> np.ndarray:
    """int64, ascending: the lengths at which something changes, those of the case's sizes."""
    tiles = BLOCK * np.array([*TILE_BLOCKS, 2 * TILE_BLOCKS[-1]])
    around = np.concatenate([FEW, tiles, [case.top, case.top + BLOCK - 1, case.context]])
    found = (around[:, None] + np.arange(-BLOCK, BLOCK + 1)).reshape(-1)
    return np.unique(found[(found >= 0) & (found <= case.context)])


def _ragged(case: SelectCase, stream: Stream) -> np.ndarray:
    """Half of the lengths anything, half an edge; both ends of a tile are short, and one inside it is the longest."""
    known, shape = edges(case), (case.queries,)
    any_length = stream.child("any").below(case.context + 1, shape)
    edge = known[stream.child("edge").below(len(known), shape)]
    out = np.where(stream.child("which").below(2, shape) == 0, any_length, edge).astype(np.int64)
    query = np.arange(case.queries)
    place, count = query % TILE_QUERIES, np.minimum(case.queries - query // TILE_QUERIES * TILE_QUERIES, TILE_QUERIES)
    ends = (place == 0) | (place == count - 1)
    few = np.minimum(np.array(FEW)[stream.child("few").below(len(FEW), shape)], case.context)
    return np.where(place == count // 2, case.context, np.where(ends, few, out))


def steps(n_kv: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """int32 [queries, 4]: position, cells, complete blocks, and width."""
    return np.stack([n_kv - 1, n_kv, n_kv // BLOCK, widths], axis=1).astype(np.int32)


def behind(length: int, written: np.ndarray) -> np.ndarray:
    """bool [rows, length]: the places behind the first `written` of each row."""
    return np.asarray(np.arange(length)[None, :] >= written[:, None])
