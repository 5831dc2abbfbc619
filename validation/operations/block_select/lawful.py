"""Whether a selection is one that the definition may make of scores within their bounds.

A scorer's score of block b lies in [s(b) - B(b), s(b) + B(b)], s being the FP64 score and B the bound. The definition
chooses cells of complete blocks in the order of scores, so that of two blocks the one that more was chosen of had no
smaller score: s(x) + B(x) >= s(y) - B(y) for every such x and y. Where nothing is promised of a score, B is infinite
and any place is lawful. All else is exact: how many cells, their order, the cells without a score, and which of a cut
block's.
"""

from __future__ import annotations

import numpy as np

from strata.kernels.selection import BLOCK
from validation.operations.block_select.choice import NOTHING


def refusal(ids: np.ndarray, step: np.ndarray, scores: np.ndarray, bounds: np.ndarray) -> str:
    """Why a query cannot have chosen these cells; "" when it can.

    Parameters
    ----------
    ids
        int32 [cap], ascending, `NOTHING` behind the width.
    step
        int32 [4]: position, cells, complete blocks, width.
    scores, bounds
        float64 [complete blocks]: FP64, and the largest error of a scorer from it, infinite where nothing is promised.
    """
    _, cells, blocks, width = step.tolist()
    chosen = ids[:width].astype(np.int64)
    if (ids[width:] != NOTHING).any():
        place = width + int(np.argmax(ids[width:] != NOTHING))
        return f"place {place} holds {ids[place]}, expected {NOTHING} behind a width of {width}"
    wrong = (chosen < 0) | (chosen >= cells)
    if wrong.any():
        place = int(np.argmax(wrong))
        return f"place {place} holds cell {ids[place]}, expected 0 to {cells - 1}"
    if (np.diff(chosen) <= 0).any():
        place = int(np.argmax(np.diff(chosen) <= 0)) + 1
        return f"place {place} holds cell {ids[place]} behind {ids[place - 1]}, expected them to ascend"
    behind = chosen[chosen >= blocks * BLOCK]
    due = blocks * BLOCK + np.arange(min(cells - blocks * BLOCK, width))
    if not np.array_equal(behind, due):
        return f"{len(behind)} cells behind the last complete block, expected {due.tolist()} before all others"
    counts = np.bincount(chosen[: len(chosen) - len(behind)] // BLOCK, minlength=blocks)
    return _cut(chosen, counts) or _order(counts, scores, bounds)


def certain(ids: np.ndarray, step: np.ndarray, scores: np.ndarray, bounds: np.ndarray) -> bool:
    """Whether a choice is the only lawful one: each score may be off by its bound, and none other is chosen.

    Parameters
    ----------
    ids, step, scores, bounds
        As of `refusal`, the ids being a lawful choice.
    """
    blocks, width = int(step[2]), int(step[3])
    cells = ids[:width][ids[:width] < blocks * BLOCK]
    counts = np.bincount(cells.astype(np.int64) // BLOCK, minlength=blocks)
    low, high = scores - bounds, scores + bounds
    return all(
        low[counts >= least].min() > high[counts < least].max()
        for least in np.unique(counts[counts > 0]).tolist()
        if (counts < least).any()
    )


def _cut(chosen: np.ndarray, counts: np.ndarray) -> str:
    """At most one block is cut, and its first cells are those that are chosen."""
    cut = np.flatnonzero((counts > 0) & (counts < BLOCK))
    if len(cut) > 1:
        return f"blocks {cut[0]} and {cut[1]} are chosen in part, expected one at most"
    for block in cut.tolist():
        own = chosen[chosen // BLOCK == block] % BLOCK
        if not np.array_equal(own, np.arange(counts[block])):
            return f"cells {own.tolist()} of block {block} are chosen, expected its first {counts[block]}"
    return ""


def _order(counts: np.ndarray, scores: np.ndarray, bounds: np.ndarray) -> str:
    """No block of which less was chosen has a score that must be above that of one of which more was."""
    known = np.isfinite(bounds)
    low, high = (np.where(known, scores + side * np.where(known, bounds, 0), side * np.inf) for side in (-1, 1))
    for least in np.unique(counts[counts > 0]).tolist():
        more, less = np.flatnonzero(counts >= least), np.flatnonzero(counts < least)
        if not len(less):
            continue
        x, y = int(more[np.argmin(high[more])]), int(less[np.argmax(low[less])])
        if high[x] < low[y]:
            return (
                f"block {x} with a score of {scores[x]:.9g} is chosen before block {y} with {scores[y]:.9g},"
                f" and the bounds {bounds[x]:.3g} and {bounds[y]:.3g} tell them apart"
            )
    return ""
