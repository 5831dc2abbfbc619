"""Which queries of a case get a reference, and a case cut down to some of its queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from validation.pools import EDGE_WIDTHS, Inputs

#: Cases of at most this many queries get a reference for each of them.
ALL_QUERIES = 32
#: Otherwise one query in this part of them, as in the published program, and the edges.
SAMPLES = 16


def sampled(widths: np.ndarray) -> np.ndarray:
    """int64: the queries that get a reference: 0, s, 2s, ..., the last, and the first of each edge width."""
    count = len(widths)
    if count <= ALL_QUERIES:
        return np.arange(count)
    chosen = set(range(0, count, max(1, count // SAMPLES))) | {count - 1}
    for edge in EDGE_WIDTHS:
        chosen.update(np.flatnonzero(widths == edge)[:1].tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def rows_of(inputs: Inputs, rows: np.ndarray) -> Inputs:
    """The same inputs for some queries only."""
    return replace(inputs, q=inputs.q[rows], ids=inputs.ids[rows], steps=inputs.steps[rows], widths=inputs.widths[rows])
