"""Outputs of which each row is written in part: what must be untouched, and one form for comparisons."""

from __future__ import annotations

import numpy as np

from strata.kernels.selection import UNWRITTEN, Result, strayed
from validation.core.outcome import Outcome, Output
from validation.core.verdict import Check, holds
from validation.numerics.fma import plain
from validation.operations.block_select.choice import NOTHING, choose
from validation.operations.block_select.lengths import behind

IDS = Output(("query", "place"), np.int32)
SCORES = Output(("query", "block"))


def ids_of(result: Result, steps: np.ndarray) -> np.ndarray:
    """int32 [queries, cap], `NOTHING` behind each row's width."""
    return np.where(behind(result.ids.shape[1], steps[:, 3]), np.int32(NOTHING), result.ids)


def scores_of(result: Result, steps: np.ndarray) -> np.ndarray:
    """float32 [queries, capacity], +0 behind each row's complete blocks."""
    return np.where(behind(result.scores.shape[1], steps[:, 2]), np.float32(0), result.scores)


def untouched(outcome: Outcome) -> Check:
    """EXACT when nothing was written behind the rows of any output."""
    count = outcome.counts["strayed"]
    return holds("strayed", count == 0, f"{count} places behind the last of a row were written to, expected none")


def strays(result: Result, steps: np.ndarray, scored: bool) -> int:
    """Places behind rows that something was written to. scored: whether scores are an output."""
    return strayed(result.ids, steps[:, 3]) + (strayed(result.scores, steps[:, 2]) if scored else 0)


def chosen(ids: np.ndarray, scores: np.ndarray, steps: np.ndarray) -> Check:
    """EXACT when the cells of every row are those that the definition chooses by the scores.

    Parameters
    ----------
    ids
        int32 [queries, cap], `NOTHING` behind each row's width.
    scores
        float32 [queries, blocks], the path's own.
    """
    due = choose(scores, steps, ids.shape[1])
    wrong = np.flatnonzero((ids != due).any(axis=1))
    figures = {"compared": len(ids), "differing": len(wrong)}
    if not len(wrong):
        return holds("choice", True, "", figures)
    row = int(wrong[0])
    place = int(np.flatnonzero(ids[row] != due[row])[0])
    reason = f"{len(wrong)} of {len(ids)} queries; query {row} place {place} is cell {ids[row, place]}"
    return holds("choice", False, f"{reason}, by its own scores {due[row, place]}", figures)


def comparable(output: np.ndarray) -> np.ndarray:
    """Scores with one NaN for all, ids with one value for places that nothing was written to."""
    if output.dtype == np.float32:
        return plain(output)
    return np.where(output.view(np.uint32) == UNWRITTEN, np.int32(NOTHING), output)
