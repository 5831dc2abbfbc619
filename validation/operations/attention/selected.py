"""Queries whose cells block selection chooses: what the indexer is given, and what it must choose of it.

Keys and queries of the indexer are small whole numbers, and a query is drawn again until no other choice than the
definition's is near: so every scorer, whatever its sums, chooses the same cells, and what attention then gives is
known. `certain` proves that of each case by the scorers' own bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as turns_from

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import BLOCK, DIMS, HEADS
from validation.core.outcome import Outcome
from validation.core.random_streams import Stream
from validation.core.verdict import Check, Verdict, holds
from validation.operations.block_select import bound, lawful, reference
from validation.operations.block_select.choice import NOTHING, choose

#: Numbers of the indexer's queries and keys are whole, up to this size: their scores are exact in any order of a sum.
LARGEST = 15
#: Scores of two blocks between which the choice is decided are at least this far apart.
APART = 1
#: Cells of the shortest query: an incomplete block alone.
FEWEST = BLOCK - 1


@dataclass(frozen=True, eq=False)
class Index:
    """What block selection is given.

    Parameters
    ----------
    q
        float32 [queries, HEADS, DIMS].
    keys
        float32 [blocks, DIMS].
    steps
        int32 [queries, 4], those of attention.
    """

    q: np.ndarray
    keys: np.ndarray
    steps: np.ndarray

    def rows(self, order: np.ndarray) -> Index:
        """The same for some queries, in the given order."""
        return replace(self, q=self.q[order], steps=self.steps[order])

    @property
    def reach(self) -> int:
        """The complete blocks of the longest query, at least 1."""
        return max(1, int(self.steps[:, 2].max()))


def lengths(stream: Stream, context: int, queries: int) -> np.ndarray:
    """int64 [queries]: cells that each query sees, in no order: the first all, the second an incomplete block alone and
    the fourth none; of others an incomplete block holds 0, 1, 2 and 3 cells in turn."""
    found = stream.child("cells").below(context + 1, queries).astype(np.int64)
    found = np.minimum(found // BLOCK * BLOCK + np.arange(queries) % BLOCK, context)
    found[0] = context
    found[1:2], found[3:4] = min(FEWEST, context), 0
    return found


def draw(stream: Stream, steps: np.ndarray) -> Index:
    """What block selection is given of queries with these steps, int32 [queries, 4]."""
    keys = _whole(stream.child("keys"), (max(1, int(steps[:, 2].max())), DIMS))
    rows = [_query(stream.child("q", row), keys[: int(step[2])], step) for row, step in enumerate(steps)]
    return Index(np.stack(rows), keys, np.ascontiguousarray(steps))


def _whole(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    return (stream.below(2 * LARGEST + 1, shape).astype(np.int64) - LARGEST).astype(np.float32)


def _query(stream: Stream, keys: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The first of many draws with which the choice is certain, were scores off by less than half of `APART`."""
    for turn in turns_from():
        q = _whole(stream.child(turn), (HEADS, DIMS))
        scores = reference.scores(q[None], keys)[0]
        (ids,) = choose(scores[None], step[None], max(1, int(step[3])))
        if lawful.certain(ids, step, scores, np.full(len(scores), APART / 2)):
            return q
    raise AssertionError("draws never end")


def choice(index: Index, cap: int) -> np.ndarray:
    """int32 [queries, cap]: the cells that the definition chooses by FP64 scores, -1 behind the width of a row."""
    return choose(reference.scores(index.q, index.keys), index.steps, cap)


def canonical(ids: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Ids with -1 behind the width of each row."""
    return np.where(np.arange(ids.shape[1]) < widths[:, None], ids, np.int32(NOTHING)).astype(np.int32)


def scorer_of(path: Path) -> Path:
    """The path of block selection that feeds a path of attention: of its tier, and the baseline's for a baseline."""
    return PATHS[f"block_select/fp32/{path.tier}" if path.baseline else "block_select_warp/fp32/simt"]


def chosen(due: np.ndarray, widths: np.ndarray, outcome: Outcome) -> Check:
    """EXACT when block selection wrote the ids that are due, and nothing behind the width of a row.

    Parameters
    ----------
    due
        int32 [queries, cap], whatever stands behind a width.
    """
    due, ids = canonical(due, widths), outcome.outputs["ids"]
    wrong = np.flatnonzero((ids != due).any(axis=1))
    figures = {"compared": len(due), "differing": len(wrong)}
    if len(wrong):
        row = int(wrong[0])
        place = int(np.flatnonzero(ids[row] != due[row])[0])
        said = f"query {row} place {place} holds cell {ids[row, place]}, the definition chooses {due[row, place]}"
        return holds("selection", False, f"{len(wrong)} of {len(due)} queries; {said}", figures)
    stray = outcome.counts["strayed"]
    return holds("selection", stray == 0, f"{stray} ids behind a width were written, expected none", figures)


def certain(index: Index, path: Path, executor: Executor) -> Check:
    """EXACT where bounds of the scorer prove that it can choose no other cells than FP64, else VOID: the case could not
    tell a wrong choice from a near tie.

    Parameters
    ----------
    path
        Of attention.
    """
    ids, rule = choice(index, max(1, int(index.steps[:, 3].max()))), bound.rule_of(executor)
    for row, step in enumerate(index.steps):
        q, keys = index.q[row : row + 1], index.keys[: int(step[2])]
        scores = reference.scores(q, keys)[0]
        for one in {scorer_of(path), *([scorer_of(PATHS[path.baseline])] if path.baseline else [])}:
            limit = bound.limits(one, q, keys, rule).both[0]
            if not lawful.certain(ids[row], step, scores, limit):
                reason = f"query {row} has scores that {one.name} may order otherwise, within its bounds"
                return Check("gaps", Verdict.VOID, reason)
    return Check("gaps", Verdict.EXACT, "", {"queries": len(ids)})
