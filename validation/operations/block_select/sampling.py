"""What is measured closely of a case too large for all of it."""

from __future__ import annotations

import numpy as np

from strata.kernels.selection import HEADS
from validation.core.random_streams import Stream
from validation.core.row_sampling import of_shares
from validation.operations.block_select.inputs import Inputs

#: Products of a head and a key of which the model tells every bit, and FP64 their error.
MODELLED, MEASURED = 1 << 17, 1 << 21
#: Cases of at most this many queries have all of them measured; of others one of each of so many shares is.
EVERY_QUERY, SAMPLES = 64, 16
#: Rows of a case at least; those that lanes run once more.
_FEWEST, _FEW = 4, 2


def whole(inputs: Inputs) -> bool:
    """Whether the model tells every bit of a case."""
    return modelled(len(inputs.q), inputs.blocks)


def modelled(queries: int, blocks: int) -> bool:
    """Whether the model tells every bit of a case of so many queries, the longest of so many blocks."""
    return queries * HEADS * blocks <= MODELLED


def rows(inputs: Inputs, stream: Stream) -> np.ndarray:
    """int64, ascending: queries that are measured, as many as there is time for, the first and the last among them."""
    count = len(inputs.q)
    found = np.arange(count)
    if count > EVERY_QUERY:
        found = np.union1d([0, count - 1], of_shares(count, SAMPLES, stream))
    most = max(MEASURED // (HEADS * max(inputs.blocks, 1)), _FEWEST)
    if len(found) <= most:
        return found
    return _spread(found, most)


def few(rows: np.ndarray) -> np.ndarray:
    """int64, ascending: some of the rows, where lanes run them once more than they have to."""
    return _spread(rows, min(_FEW, len(rows)))


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(rows[np.unique(np.arange(count) * (len(rows) - 1) // max(count - 1, 1))])


def blocks(inputs: Inputs, count: int, stream: Stream) -> np.ndarray:
    """int64, ascending: blocks of which the model tells every bit for `count` rows."""
    most = max(MODELLED // (HEADS * max(count, 1)), 2)
    if inputs.blocks <= most:
        return np.arange(inputs.blocks)
    ends = [0, inputs.blocks - 1]
    return np.unique(np.concatenate([ends, stream.child("blocks").below(inputs.blocks, most - len(ends))]))
