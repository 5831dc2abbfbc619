"""RMSNorm on the seam: every bit is known, in a buffer of its own and over each input, and FP64 bounds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import rms_norm
from strata.kernels.paths import Path
from strata.kernels.rms_norm import Normed
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds
from validation.operations.rms_norm import bound, conventional, far, fuzz, plan, random_cases, reference, sizes
from validation.operations.rms_norm.case import NormCase
from validation.operations.rms_norm.inputs import Inputs, build
from validation.operations.rms_norm.recipes import RECIPES

OUTPUTS = {"out": Output(("row", "column"))}


class RmsNorm(RowOperation):
    """Parameters: what norms, and its kernel, for tests that put another in their place."""

    name = data = "rms_norm"
    rank = 8
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(
        self, norm: Callable[..., Normed] = rms_norm.run, kernel: Callable[[], Kernel] = rms_norm.kernel
    ) -> None:
        self.norm, self._kernel = norm, kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> NormCase:
        return NormCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> NormCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: NormCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: NormCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel()]

    def inputs(self, trial: Trial) -> Inputs:
        return build(trial.case, trial.path.mode)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._run(executor, path, inputs)

    def _run(self, executor: Executor, path: Path, given: Inputs, over: str | None = None) -> Outcome:
        got = self.norm(executor, path, given.x, given.weight, given.eps, given.residual, over)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok, {"lost": got.lost})

    def again(self, trial: Trial) -> list[Check]:
        """Over each input in turn, as an engine has it: the same bits, and nothing beside them."""
        checks: list[Check] = []
        for over in ("x", *["residual"] * (trial.inputs.residual is not None)):
            outcome = handed(self._run)(trial.repeats_on, trial.path, trial.inputs, over)
            run = Run(trial.repeats_on, trial.path, trial.inputs, outcome)
            checks += self.compared(trial, f"over {over}", outcome.outputs, trial.outcome.outputs)
            asked = [
                *self.witnessed(trial.case, run),
                holds("guards", outcome.guards_ok, "memory around a buffer was overwritten"),
                holds("lost", outcome.counts == trial.outcome.counts, f"{outcome.counts['lost']} reported as lost"),
            ]
            checks += [replace(one, name=f"{one.name} over {over}") for one in asked]
        return checks

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.x)

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def expected(self, trial: Trial) -> Expected:
        given = trial.inputs
        out = reference.norm_bits(given.x, given.weight, given.residual, given.eps)
        return Expected({"out": out}, {"lost": reference.lost(given.x)})

    def reference(self, trial: Trial) -> Reference:
        """Of the rows that are finite throughout: FP64 says nothing of the others. Where every output may be zero
        by its bound, as of a row of the smallest floats, it cannot tell right from wrong, and bits alone judge."""
        assert trial.expected is not None
        rows = np.flatnonzero(np.isfinite(trial.expected.outputs["out"]).all(axis=1))
        some = trial.inputs.rows(rows)
        parts = (some.x, some.weight, some.residual, some.eps)
        due, limit = reference.norm(*parts), bound.norm(*parts)
        if (np.abs(due) <= limit).all():
            rows, due, limit = rows[:0], due[:0], limit[:0]
        return Reference(rows, {"out": due}, {"out": limit})


OPERATIONS = (RmsNorm(),)
