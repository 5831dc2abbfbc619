"""Fuzzed choices: random configurations, each run by both kernels, and every cell compared with the definition.

Sizes are those of fuzzed block selection. Scores may be any bits.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Executor
from strata.kernels import block_topk
from strata.kernels.paths import Path
from strata.kernels.selection import Result
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.block_select.choice import choose
from validation.operations.block_select.fuzz import Configuration, compared, configuration, levelled, steps_of


def draw(seed: int, what: Configuration) -> tuple[np.ndarray, np.ndarray]:
    """float32 scores [queries, blocks] and int32 steps [queries, 4] of a configuration."""
    stream = Stream.of(seed, "fuzz block select", what.index)
    scores = floats(stream.child("scores"), (what.queries, what.blocks), what.numbers)
    scores = np.ascontiguousarray(levelled(stream.child("levels"), scores.T).T) if what.levels else scores
    return scores, steps_of(stream, what)


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """The choice, by each kernel. Raises UnknownOperationError for another operation's path."""
    if path.operation != "block_topk":
        raise UnknownOperationError(path, "configuration", ("block_topk",))
    scores, steps = draw(seed, what)
    cap = max(what.context, 1)

    def run(on: Executor, rows: np.ndarray, reach: int | None, kernel: str | None) -> Result:
        return handed(block_topk.run)(on, scores[rows], steps[rows], cap, reach, kernel)

    due = choose(scores, steps, cap), scores
    return compared(executor, seed, what, path, run, due, False)


KIND = FuzzKind(configuration, compare)
