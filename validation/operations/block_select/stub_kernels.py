"""Stand-ins for the kernels of block selection: the model in their place, with faults to order. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import RULES
from strata.kernels import topk_kernels
from strata.kernels.paths import Path
from strata.kernels.selection import UNWRITTEN, Result
from validation.core.stub_executor import BLOCK as THREADS
from validation.core.stub_executor import ENTRY, witness
from validation.operations.block_select import lengths, model
from validation.operations.block_select.choice import choose
from validation.operations.block_select.scorers import Scorer

#: The rule that stand-ins of tensor cores follow.
RULE = "sm_90"


class Asked(NamedTuple):
    """What a run is of: the steps, how it was told to do its work, and which run of its kernel it is, from 1 on."""

    steps: np.ndarray
    reach: int | None
    topk: str | None
    run: int


#: Changes what a stand-in gives; and, of float32 scores, those that it chooses by.
Fault = Callable[[Result, Asked], Result]
Score = Callable[[np.ndarray], np.ndarray]


def unwritten(result: Result, steps: np.ndarray) -> Result:
    """A result with nothing behind the rows of its outputs."""
    scores, ids = result.scores.copy(), result.ids.copy()
    scores.view(np.uint32)[lengths.behind(scores.shape[1], steps[:, 2])] = UNWRITTEN
    ids.view(np.uint32)[lengths.behind(ids.shape[1], steps[:, 3])] = UNWRITTEN
    return result._replace(scores=scores, ids=ids)


def scorer(fault: Fault | None = None, scored: Score | None = None) -> Scorer:
    """A stand-in. fault: of its result; scored: of its scores, before it chooses."""
    runs = 0

    def run(
        executor: Executor,
        path: Path,
        q: np.ndarray,
        keys: np.ndarray,
        steps: np.ndarray,
        cap: int,
        reach: int | None = None,
        topk: str | None = None,
    ) -> Result:
        nonlocal runs
        runs += 1
        scores = model.scores(path, q, keys, RULES[RULE])
        assert scores is not None
        scores = scores if scored is None else scored(scores)
        made = Result(scores, choose(scores, steps, cap), [witness(executor, (1, 1, 1))], True)
        made = unwritten(made, steps)
        return made if fault is None else fault(made, Asked(steps, reach, topk, runs))

    kernel = Kernel(ENTRY, ENTRY, THREADS)
    return Scorer(run, lambda path: [kernel], lambda path, reach, topk: [kernel])


def chooser(scored: Score | None = None) -> Callable[..., Result]:
    """A stand-in for the choice from given scores. scored: of those, before it chooses."""

    def select(
        executor: Executor,
        scores: np.ndarray,
        steps: np.ndarray,
        cap: int,
        reach: int | None = None,
        kernel: str | None = None,
    ) -> Result:
        ids = choose(scores if scored is None else scored(scores), steps, cap)
        ran = witness(executor, (len(steps), 1, 1), entry=topk_kernels.kernel("long").entry)
        return unwritten(Result(scores, ids, [ran], True), steps)

    return select
