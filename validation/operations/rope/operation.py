"""Rope on the seam: every bit is known, NaN and infinities among them, and FP64 bounds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import rope
from strata.kernels.paths import Path
from strata.kernels.rope import Roped
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds
from validation.numerics.fma import plain
from validation.operations.rope import bound, conventional, far, fuzz, inputs, plan, random_cases, reference, sizes
from validation.operations.rope.case import RopeCase
from validation.operations.rope.inputs import Inputs
from validation.operations.rope.recipes import RECIPES

OUTPUTS = {"out": Output(("row", "head", "dim"))}


class Rope(RowOperation):
    """Parameters: what turns, and its kernels, for tests that put another in their place."""

    name = data = "rope"
    rank = 30
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(self, turn: Callable[..., Roped] = rope.run, kernel: Callable[[], Kernel] = rope.kernel) -> None:
        self.turn, self._kernel = turn, kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> RopeCase:
        return RopeCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> RopeCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: RopeCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, executor)

    def kernels(self, path: Path, case: RopeCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel()]

    def inputs(self, trial: Trial) -> Inputs:
        return inputs.build(trial.case)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._run(executor, path, inputs)

    def _run(self, executor: Executor, path: Path, given: Inputs, in_place: bool = False) -> Outcome:
        got = self.turn(executor, given.x, given.steps, given.cos, given.sin, in_place)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok)

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.x)

    def shapes(self, trial: Trial) -> dict[str, tuple[int, ...]]:
        return {"out": trial.inputs.x.shape}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def blocks(self, case: RopeCase, run: Run) -> int:
        return rope.blocks(*run.inputs.x.shape)

    def again(self, trial: Trial) -> list[Check]:
        """With the output in the place of the input."""
        outcome = handed(self._run)(trial.executor, trial.path, trial.inputs, True)
        run = Run(trial.executor, trial.path, trial.inputs, outcome, True)
        checks = self.compared(trial, "in place", outcome.outputs, trial.outcome.outputs)
        checks.append(holds("guards", outcome.guards_ok, "memory around a buffer was overwritten"))
        return [
            *checks[:1],
            *(replace(one, name=f"{one.name} in place") for one in (*checks[1:], *self.witnessed(trial.case, run))),
        ]

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return plain(output)

    def expected(self, trial: Trial) -> Expected:
        return Expected({"out": _due(trial.inputs)})

    def reference(self, trial: Trial) -> Reference:
        """Of the rows that are finite throughout: FP64 says nothing of the others."""
        assert trial.expected is not None
        rows = np.flatnonzero(np.isfinite(trial.expected.outputs["out"]).all(axis=(1, 2)))
        sound = trial.inputs.rows(rows)
        rounded, half = sound.base > 0, sound.x.shape[2] // 2
        at = sound.positions
        cos, sin = reference.angles(at, half, sound.base) if rounded else (sound.cos[at], sound.sin[at])
        due, limit = reference.turn(sound.x, cos, sin), bound.turned(sound.x, cos, sin, rounded)
        return Reference(rows, {"out": due}, {"out": limit})


def _due(given: Inputs) -> np.ndarray:
    at = given.positions
    return reference.turn_bits(given.x, given.cos[at], given.sin[at])


OPERATIONS = (Rope(),)
