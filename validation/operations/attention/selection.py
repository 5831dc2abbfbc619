"""Which cells each query attends to: widths, id lists and step records (spec: QSA selection).

A query at position `pos` sees `n_kv = pos + 1` cells and selects `width = min(n_kv, top)` of them.
Up to `top` cells the list is the identity; past that it is a window of the newest cells plus older
cells drawn without replacement, which drift by about 3 % from one query to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.core.random_streams import Stream
from validation.operations.kv_pack.case import BLOCK

#: Newest cells that every sparse list holds, and the share of older cells replaced per query.
WINDOW = 512
DRIFT = 32
#: Words of a step record; a kernel reads entry `WIDTH` and no other.
STEP_WORDS = 4
WIDTH = 3
#: Columns past the widest row. They, and every row's tail, point at cells that hold poison.
TAIL = 5


def window(top: int) -> int:
    """Newest cells in a sparse list of `top` ids: 512 at the real width, a quarter of a smaller one."""
    return min(WINDOW, top // 4)


def causal_widths(context: int, queries: int, top: int) -> np.ndarray:
    """int64 [queries]: widths of queries at positions context-queries .. context-1."""
    n_kv = np.arange(context - queries + 1, context + 1, dtype=np.int64)
    return np.minimum(n_kv, top)


def step_records(n_kv: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """int32 [queries, 4]: position, cells, completed blocks, width."""
    steps = np.empty((len(widths), STEP_WORDS), dtype=np.int32)
    steps[:, 0] = n_kv - 1
    steps[:, 1] = n_kv
    steps[:, 2] = n_kv // BLOCK
    steps[:, WIDTH] = widths
    return steps


class _Older:
    """The drifting set of older cells of a sparse list."""

    def __init__(self, stream: Stream, reach: int, count: int) -> None:
        self._stream = stream
        self.cells = np.sort(stream.child("first").permutation(reach)[:count])
        self._used = set(self.cells.tolist())

    def drift(self, query: int, reach: int) -> None:
        """Try count // DRIFT times to replace a random member by a random cell below `reach`.

        An attempt that draws a cell already used is dropped, as in the published program.
        """
        count = len(self.cells)
        attempts = count // DRIFT
        if attempts == 0:
            return
        draws = self._stream.child("drift", query)
        places = draws.child("place").below(count, attempts).tolist()
        chosen = draws.child("cell").below(reach, attempts).tolist()
        for place, cell in zip(places, chosen, strict=True):
            if cell not in self._used:
                self._used.discard(int(self.cells[place]))
                self._used.add(cell)
                self.cells[place] = cell
        self.cells.sort()


def id_lists(stream: Stream, n_kv: np.ndarray, widths: Sequence[int] | np.ndarray, top: int, beyond: int) -> np.ndarray:
    """int32 [queries, cap]: the logical cells of each query, ascending and unique.

    n_kv: int64 [queries], not decreasing; widths: ids per query, at most n_kv each. A width below
    min(n_kv, top) takes the first `width` entries of the list of that query. Entries past a row's
    width hold `beyond`, a cell whose page exists and is poisoned; nothing may read them.
    """
    longest = max((int(width) for width in widths), default=0)
    ids = np.full((len(n_kv), longest + TAIL), beyond, dtype=np.int32)
    newest = window(top)
    older: _Older | None = None
    for query, (cells, width) in enumerate(zip(n_kv.tolist(), (int(width) for width in widths), strict=True)):
        if not 0 <= width <= cells:
            raise ValueError(f"query {query} has width {width}, expected 0..{cells}")
        if cells <= top:
            ids[query, :width] = np.arange(width)
            continue
        reach = cells - newest
        if older is None:
            older = _Older(stream, reach, top - newest)
        else:
            older.drift(query, reach)
        row = np.concatenate([older.cells, np.arange(reach, cells)])
        ids[query, :width] = row[:width]
    return ids


def spread_lists(stream: Stream, context: int, widths: np.ndarray, beyond: int) -> np.ndarray:
    """int32 [queries, cap]: `widths[i]` cells of 0..context-1 drawn without replacement, ascending."""
    longest = int(widths.max(initial=0))
    ids = np.full((len(widths), longest + TAIL), beyond, dtype=np.int32)
    for query, width in enumerate(widths.tolist()):
        if not 0 <= width <= context:
            raise ValueError(f"query {query} has width {width}, expected 0..{context}")
        ids[query, :width] = np.sort(stream.child(query).permutation(context)[:width])
    return ids
