"""Combining on the seam: every bit of the sum is known, NaN and infinities among them, and FP64 bounds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine
from strata.kernels.combine import Combined
from strata.kernels.paths import Path
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds
from validation.numerics.fma import plain
from validation.operations.combine import bound, conventional, far, fuzz, plan, random_cases, reference, sizes
from validation.operations.combine.inputs import Sums, sums
from validation.operations.combine.recipes import RECIPES
from validation.operations.experts.case import ExpertCase

OUTPUTS = {"out": Output(("token", "column"))}


class Combine(RowOperation):
    """Parameters: what combines, and its kernels, for tests that put another in their place."""

    name = data = "combine"
    rank = 5
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(
        self,
        combine: Callable[..., Combined] = combine.run,
        kernel: Callable[[], Kernel] = combine.kernel,
    ) -> None:
        self.combine, self._kernel = combine, kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> ExpertCase:
        return ExpertCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> ExpertCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, executor)

    def kernels(self, path: Path, case: ExpertCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel()]

    def inputs(self, trial: Trial) -> Sums:
        return sums(trial.case)

    def run(self, executor: Executor, path: Path, inputs: Sums) -> Outcome:
        got = self.combine(executor, inputs.rows, inputs.weights, inputs.shared, inputs.gate)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok, {"lost": got.lost})

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.rows)

    def permuted(self, inputs: Sums, order: np.ndarray) -> Sums:
        return inputs.tokens(order)

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return plain(output)

    def expected(self, trial: Trial) -> Expected:
        data = trial.inputs
        with np.errstate(invalid="ignore", over="ignore"):
            out = reference.combine_bits(data.rows, data.weights, data.shared, data.gate)
        return Expected({"out": out}, {"lost": int((~np.isfinite(out)).sum())})

    def reference(self, trial: Trial) -> Reference:
        """Of the tokens that are finite throughout: FP64 says nothing of the others."""
        rows = np.flatnonzero(_kept(trial).all(axis=1))
        sound = trial.inputs.tokens(rows)
        parts = (sound.rows, sound.weights, sound.shared, sound.gate)
        return Reference(rows, {"out": reference.combine(*parts)}, {"out": bound.rows(*parts)})

    def judged(self, trial: Trial) -> list[Check]:
        strange = int((np.isfinite(trial.outcome.outputs["out"]) != _kept(trial)).sum())
        return [
            holds("broken", strange == 0, f"{strange} outputs are finite where they cannot be, or the other way round")
        ]


def _kept(trial: Trial) -> np.ndarray:
    """Which outputs are finite, by the bits that are expected of them, which the order of a case makes first."""
    assert trial.expected is not None
    return np.isfinite(trial.expected.outputs["out"])


OPERATIONS = (Combine(),)
