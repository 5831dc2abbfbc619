"""The operations on experts, on the seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from strata.executors.base import Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.operation import Operation, Trial
from validation.core.recordable import Recordable
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts import (
    conventional,
    far,
    far_baseline,
    fuzz,
    mutant_cases,
    plan,
    random_cases,
    recipes,
    record,
    required,
    run,
    sizes,
)
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.kernels import OPERATIONS as KERNELS
from validation.operations.experts.recipes import RECIPES, ExpertRecipe
from validation.operations.experts.under_test import ExpertOperation

#: Far checks by operation.
_FAR: Mapping[str, Callable[[ExpertCase, Path, LanesExecutor], Sequence[Part]]] = {
    "expert_fused": far.parts,
    "expert_mmq": far_baseline.mmq,
    "expert_decode": far_baseline.decode,
}

#: What records are of: the fused path, since the others are what is served without one.
_RECORDS: Mapping[str, Recordable] = {"expert_fused": record.FusedExperts()}


class ExpertsOperation(Operation):
    """One of them.

    Parameters
    ----------
    name
        `expert_fused`, `expert_mmq` or `expert_decode`.
    under_test
        The kernels of all, since one is another's baseline.
    """

    data = "expert"
    rank = 3
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    every_bit = True

    def __init__(self, name: str, under_test: Mapping[str, ExpertOperation] = KERNELS) -> None:
        self.name, self.under_test = name, under_test
        self.record = _RECORDS.get(name)
        self.conventional = conventional.of(name)

    def recipes(self) -> Sequence[ExpertRecipe]:
        return list(RECIPES.values())

    def composed(self, name: str) -> ExpertRecipe | None:
        return recipes.find(name) if ":" in name else None

    def parse(self, text: str) -> ExpertCase:
        return ExpertCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.expert(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return [Planned(case) for case in required.cases(seed)]

    def random_recipe(self, turn: int, words: Sequence[int]) -> str:
        """A recipe of the table, and in every second turn one of drawn parts."""
        known = self.recipes()
        at, drawn_parts = divmod(turn, 2)
        return random_cases.recipe(words[-3:]).name if drawn_parts else known[at % len(known)].name

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> ExpertCase:
        return random_cases.case(recipe, words[0], words[1:])

    def mutant_cases(self, seed: int) -> Sequence[ExpertCase]:
        return mutant_cases.cases(seed)

    def far(self, case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return _FAR[self.name](case, path, executor)

    def kernels(self, path: Path, case: ExpertCase | None = None) -> Sequence[Kernel]:
        """All that the path may launch: which of them a case does depends on its data."""
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return self.under_test[self.name].kernels(path, None, None)

    def judge(self, trial: Trial) -> Findings:
        return run.run(trial.case, trial.path, trial.executor, trial.settings, trial.memo, self.under_test)


OPERATIONS = tuple(ExpertsOperation(name) for name in KERNELS)
