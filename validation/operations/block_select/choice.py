"""Which cells are chosen: the definition, by sorting.

First the cells behind the last complete block, the tail; then those of complete blocks by score, the largest first,
those of equal scores and of one block by index. -0 equals +0, and a NaN comes after every number. The first `width`
of that order are chosen and told in ascending order.
"""

from __future__ import annotations

import numpy as np

from strata.kernels.selection import BLOCK

#: What stands where nothing is chosen.
NOTHING = -1


def order(scores: np.ndarray, n_kv: int) -> np.ndarray:
    """int64 [n_kv]: the cells of a query in the order in which they are chosen. scores: float32 [n_kv // BLOCK]."""
    # A stable sort of the negated scores: equal ones stay in order, -0 equals +0, and NumPy puts every NaN last.
    blocks = np.argsort(-scores, kind="stable")
    cells = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
    return np.concatenate([np.arange(len(scores) * BLOCK, n_kv), cells])


def choose(scores: np.ndarray, steps: np.ndarray, cap: int) -> np.ndarray:
    """The cells that each query chooses.

    Parameters
    ----------
    scores
        float32 [queries, blocks], of which those of complete blocks count.
    steps
        int32 [queries, 4]: position, cells, complete blocks, width.
    cap
        Places of a row.

    Returns
    -------
    int32 [queries, cap], ascending, `NOTHING` behind the width of a row.
    """
    out = np.full((len(steps), cap), NOTHING, np.int32)
    for row, (_, n_kv, n_bid, width) in enumerate(steps.tolist()):
        out[row, :width] = np.sort(order(scores[row, :n_bid], n_kv)[:width])
    return out
