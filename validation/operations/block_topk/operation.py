"""The top of block selection on the seam: integers without an error, from scores that no scorer would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import block_topk, topk_kernels
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK, Result
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check
from validation.operations.block_select import lengths, written
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.choice import choose
from validation.operations.block_topk import conventional, far, fuzz, inputs, plan, random_cases, sizes
from validation.operations.block_topk.inputs import Inputs
from validation.operations.block_topk.recipes import RECIPES


class BlockTopk(RowOperation):
    """Parameters: what chooses, for tests that put another in its place."""

    name = data = "block_topk"
    rank = 7
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = {"ids": written.IDS}  # noqa: RUF012

    def __init__(self, select: Callable[..., Result] = block_topk.run) -> None:
        self.select = select

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> SelectCase:
        return SelectCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> SelectCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: SelectCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, executor)

    def kernels(self, path: Path, case: SelectCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        if case is None:
            return topk_kernels.kernels()
        return [_kernel(max(1, int(lengths.cells(case).max()) // BLOCK), None)]

    def inputs(self, trial: Trial) -> Inputs:
        return inputs.build(trial.case)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._run(executor, path, inputs)

    def _run(
        self, executor: Executor, path: Path, given: Inputs, reach: int | None = None, kernel: str | None = None
    ) -> Outcome:
        got = self.select(executor, given.scores, given.steps, given.cap, reach=reach, kernel=kernel)
        counts = {"strayed": written.strays(got, given.steps, False)}
        return Outcome({"ids": written.ids_of(got, given.steps)}, got.witnesses, got.guards_ok, counts)

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.steps)

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]]:
        return {"ids": (len(trial.inputs.steps), trial.inputs.cap)}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def blocks(self, case: SelectCase, run: Run) -> int:
        return len(run.inputs.steps)

    def launched(self, case: SelectCase, run: Run) -> Sequence[Kernel]:
        return [_kernel(*(run.variant or (max(run.inputs.blocks, 1), None)))]

    def again(self, trial: Trial) -> list[Check]:
        """With a reach of all that there is room for, by the kernel that takes any reach."""
        given, variant = trial.inputs, (trial.inputs.scores.shape[1], "long")
        outcome = handed(self._run)(trial.executor, trial.path, given, *variant)
        run = Run(trial.executor, trial.path, given, outcome, variant)
        checks = self.compared(trial, "reach", outcome.outputs, trial.outcome.outputs)
        asked = [*self.witnessed(trial.case, run), written.untouched(outcome)]
        return [*checks, *(replace(one, name=f"{one.name} of reach") for one in asked)]

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return written.comparable(output)

    def expected(self, trial: Trial) -> Expected:
        given = trial.inputs
        return Expected({"ids": choose(given.scores, given.steps, given.cap)}, {"strayed": 0})


def _kernel(reach: int, asked: str | None) -> Kernel:
    return topk_kernels.kernel(topk_kernels.choose(reach, asked))


OPERATIONS = (BlockTopk(),)
