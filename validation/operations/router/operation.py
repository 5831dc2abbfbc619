"""The router on the seam: its choice has no error, its weights have one, and every bit of both is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import router
from strata.kernels.paths import Path
from strata.kernels.router import Routing
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts.case import ExpertCase
from validation.operations.router import bound, conventional, far, fuzz, plan, random_cases, reference, sizes
from validation.operations.router.inputs import logits
from validation.operations.router.recipes import RECIPES

OUTPUTS = {"weights": Output(("token", "rank")), "ids": Output(("token", "rank"), np.int32)}


@dataclass(frozen=True, eq=False)
class Inputs:
    """logits: float32 [tokens, experts]; ranks: how many experts a token chooses."""

    logits: np.ndarray
    ranks: int


class Router(RowOperation):
    """Parameters: what routes, and its kernels, for tests that put another in their place."""

    name = data = "router"
    rank = 4
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(
        self,
        route: Callable[[Executor, np.ndarray, int], Routing] = router.run,
        kernel: Callable[[], Kernel] = router.kernel,
    ) -> None:
        self.route, self._kernel = route, kernel

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

    def inputs(self, trial: Trial) -> Inputs:
        return Inputs(logits(trial.case), trial.case.top)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        got = self.route(executor, inputs.logits, inputs.ranks)
        counts = {"nans": got.nans, "infinities": got.infinities}
        return Outcome({"weights": got.weights, "ids": got.ids}, got.witnesses, got.guards_ok, counts)

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.logits)

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return Inputs(np.ascontiguousarray(inputs.logits[order]), inputs.ranks)

    def expected(self, trial: Trial) -> Expected:
        x, ranks = trial.inputs.logits, trial.inputs.ranks
        outputs = {"weights": reference.weight_bits(x, ranks), "ids": reference.route(x, ranks).ids}
        return Expected(outputs, {"nans": int(np.isnan(x).sum()), "infinities": int(np.isinf(x).sum())})

    def reference(self, trial: Trial) -> Reference:
        routed = reference.route(trial.inputs.logits, trial.inputs.ranks)
        limit = bound.weights(routed, trial.case.experts)
        return Reference(np.arange(len(routed.ids)), {"weights": routed.weights}, {"weights": limit})


OPERATIONS = (Router(),)
