"""Operations on elements on the seam: every bit is known, in a buffer of its own and over each operand, and FP64 bounds
the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from strata.kernels.pointwise import Made
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds
from validation.operations.gated import conventional, far, fuzz, plan, random_cases, recipes
from validation.operations.gated.case import ElementCase
from validation.operations.gated.inputs import Inputs, build
from validation.operations.gated.launched import ELEMENTS
from validation.operations.gated.sizes import SIZES

OUTPUTS = {"out": Output(("row", "column"))}


class OfElements(RowOperation):
    """Parameters: the operation's name and rank, what runs it, and its kernel, for tests that put another in their
    place."""

    fuzz = fuzz.KIND
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(
        self,
        name: str,
        rank: int,
        run: Callable[[Executor, Path, Inputs, str | None], Made] | None = None,
        kernel: Callable[[Path], Kernel] | None = None,
    ) -> None:
        self.name = self.data = name
        self.rank, self.sizes, self.elements = rank, SIZES[name], ELEMENTS[name]
        self.made, self._kernel = run or self.elements.run, kernel or self.elements.kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return recipes.of(self.name)

    def parse(self, text: str) -> ElementCase:
        return ElementCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(self.name, seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> ElementCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: ElementCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: ElementCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel(path)]

    def inputs(self, trial: Trial) -> Inputs:
        return build(trial.case)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._run(executor, path, inputs)

    def _run(self, executor: Executor, path: Path, given: Inputs, over: str | None = None) -> Outcome:
        got = self.made(executor, path, given, over)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok)

    def again(self, trial: Trial) -> list[Check]:
        """Over each operand in turn, as an engine has it: the same bits, and nothing beside them."""
        checks: list[Check] = []
        for over in self.elements.operands:
            outcome = handed(self._run)(trial.repeats_on, trial.path, trial.inputs, over)
            run = Run(trial.repeats_on, trial.path, trial.inputs, outcome)
            checks += self.compared(trial, f"over {over}", outcome.outputs, trial.outcome.outputs)
            guards = holds("guards", outcome.guards_ok, "memory around a buffer was overwritten")
            asked = [*self.witnessed(trial.case, run), guards]
            checks += [replace(one, name=f"{one.name} over {over}") for one in asked]
        return checks

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.arrays[self.elements.operands[0]])

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def expected(self, trial: Trial) -> Expected:
        return Expected({"out": self.elements.bits(trial.path.mode, trial.inputs)})

    def reference(self, trial: Trial) -> Reference:
        """Of the rows that are finite throughout: FP64 says nothing of the others. Where every output may be zero
        by its bound, as behind a few gates that are shut, it cannot tell right from wrong, and bits alone judge."""
        assert trial.expected is not None
        rows = np.flatnonzero(np.isfinite(trial.expected.outputs["out"]).all(axis=1))
        some, mode = trial.inputs.rows(rows), trial.path.mode
        due, limit = self.elements.reference(mode, some), self.elements.bound(mode, some)
        if (np.abs(due) <= limit).all():
            rows, due, limit = rows[:0], due[:0], limit[:0]
        return Reference(rows, {"out": due}, {"out": limit})


OPERATIONS = (OfElements("gated", 9), OfElements("softcap", 10), OfElements("residual", 11))
