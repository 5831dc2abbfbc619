"""Which queries of a case get a reference, and a case cut down to some of its queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from validation.core.random_streams import Stream
from validation.core.row_sampling import of_shares
from validation.operations.attention.pools import EDGE_WIDTHS, Inputs

#: Cases of at most this many queries have all of them sampled.
ALL_QUERIES = 32
#: Cases of at most this many queries have a reference for each of them.
EVERY_QUERY = 64
#: Otherwise one query in this part of them, as in the published program, and the edges.
SAMPLES = 16


def sampled(widths: np.ndarray) -> np.ndarray:
    """int64: 0, s, 2s, ..., the last, and the first of each edge width: queries that every run measures."""
    count = len(widths)
    if count <= ALL_QUERIES:
        return np.arange(count)
    chosen = set(range(0, count, max(1, count // SAMPLES))) | {count - 1}
    for edge in EDGE_WIDTHS:
        chosen.update(np.flatnonzero(widths == edge)[:1].tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def referenced(widths: np.ndarray, stream: Stream) -> np.ndarray:
    """int64, ascending: the queries of a case that get a reference.

    All of them up to EVERY_QUERY; else the sampled ones, and besides one at random of each share of SAMPLES.
    """
    count = len(widths)
    if count <= EVERY_QUERY:
        return np.arange(count)
    return np.union1d(sampled(widths), of_shares(count, SAMPLES, stream))


def rows_of(inputs: Inputs, rows: np.ndarray) -> Inputs:
    """The same inputs for some queries only."""
    index = None if inputs.index is None else inputs.index.rows(rows)
    own = {"q": inputs.q[rows], "ids": inputs.ids[rows], "steps": inputs.steps[rows], "widths": inputs.widths[rows]}
    return replace(inputs, **own, index=index)
