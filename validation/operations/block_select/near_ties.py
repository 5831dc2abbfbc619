"""Whether two selections of the same query differ only where rounding may decide.

Let one scorer choose a cell of block x and leave one of block y, and the other do it the other way round. Each of them
computed its score of the block that it preferred as no smaller. So with true scores s and the scorers' bounds B and C

    s(x) - s(y) >= -(B(x) + B(y))    and    s(y) - s(x) >= -(C(x) + C(y)),

for every x that the first chose more of and every y that the second did. A pair for which either does not hold is no
near tie: one of the two chose wrongly. Cells without a score, the tail's, are chosen by both alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from strata.kernels.selection import BLOCK
from validation.core.verdict import Check, holds


class Scored(NamedTuple):
    """Of some blocks of one query: FP64 scores, and for both scorers the largest error of a score from them.

    float64 [blocks] each, bounds infinite where nothing is promised.
    """

    scores: np.ndarray
    new: np.ndarray
    old: np.ndarray


#: Of a row and blocks, int64.
Score = Callable[[int, np.ndarray], Scored]


class Tally(NamedTuple):
    """What the differing selections of a case came to.

    Parameters
    ----------
    queries, cells
        Queries that differ, and cells that the one chose and the other did not.
    pairs, unknown
        Pairs of blocks that were compared, and those of which nothing is promised.
    nearest
        The largest share that a pair used of what the two bounds allow.
    """

    queries: int = 0
    cells: int = 0
    pairs: int = 0
    unknown: int = 0
    nearest: float = 0.0


def differing(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """int64, the rows that differ, of int32 [queries, places]."""
    return np.flatnonzero((new != old).any(axis=1))


def _largest(share: np.ndarray) -> tuple[int, int]:
    found = np.unravel_index(int(np.argmax(share)), share.shape)
    return int(found[0]), int(found[1])


def check(new: np.ndarray, old: np.ndarray, steps: np.ndarray, score: Score) -> Check:
    """EXACT when every pair of blocks that two scorers preferred differently is a near tie.

    Parameters
    ----------
    new, old
        int32 [queries, places], the cells that each chose, -1 behind them.
    steps
        int32 [queries, 4].
    score
        Scores and bounds of blocks of a row.
    """
    queries = cells = pairs = unknown = 0
    nearest, wrong = 0.0, list[str]()
    for row in differing(new, old).tolist():
        gained, lost = np.setdiff1d(new[row], old[row]), np.setdiff1d(old[row], new[row])
        if not len(gained) and not len(lost):  # the same cells in another order, which is no matter of scores
            continue
        queries, cells = queries + 1, cells + max(len(gained), len(lost))
        complete = int(steps[row, 2]) * BLOCK
        strange = [cell for cell in (*gained.tolist(), *lost.tolist()) if not 0 <= cell < complete]
        if strange or len(gained) != len(lost):
            what = f"cell {strange[0]} has no score" if strange else f"{len(gained)} cells for {len(lost)}"
            wrong.append(f"query {row}: {what}, and one scorer alone chose it")
            continue
        x, y = np.unique(gained // BLOCK), np.unique(lost // BLOCK)
        found = _pairs(score(row, np.concatenate([x, y])), len(x))
        known = np.isfinite(found.allowed)
        pairs, unknown = pairs + int(known.sum()), unknown + int((~known).sum())
        share = np.where(known, found.share, 0.0)
        at = _largest(share)
        nearest = max(nearest, float(share[at]))
        if share[at] > 1:
            wrong.append(
                f"query {row}: block {x[at[0]]} for block {y[at[1]]}, whose scores are {found.apart[at]:.4g} apart"
                f" and may be {found.allowed[at]:.4g}"
            )
    figures = Tally(queries, cells, pairs, unknown, nearest)._asdict() | {"compared": len(new)}
    return holds("near ties", not wrong, _said(wrong), figures)


def _said(wrong: Sequence[str]) -> str:
    return "" if not wrong else f"{wrong[0]}" + (f"; {len(wrong) - 1} more queries" if len(wrong) > 1 else "")


class _Pairs(NamedTuple):
    """float64 [x, y] each: how far scores are apart against the scorer that is nearer its bounds, what these allow, and
    the one over the other."""

    apart: np.ndarray
    allowed: np.ndarray
    share: np.ndarray


def _pairs(scored: Scored, count: int) -> _Pairs:
    """Of the first `count` blocks with each of the others."""
    x, y = (Scored(*(part[some] for part in scored)) for some in (slice(count), slice(count, None)))
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = x.scores[:, None] - y.scores[None]
        sides = [(-apart, x.new[:, None] + y.new[None]), (apart, x.old[:, None] + y.old[None])]
        shares = [np.where(gap <= 0, 0.0, gap / allowed) for gap, allowed in sides]
    worse = shares[0] >= shares[1]
    return _Pairs(
        np.where(worse, sides[0][0], sides[1][0]),
        np.where(np.isfinite(sides[0][1] + sides[1][1]), np.where(worse, sides[0][1], sides[1][1]), np.inf),
        np.where(worse, *shares),
    )
