"""Packing on the seam."""

from __future__ import annotations

from collections.abc import Sequence

from strata.executors.base import Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import kv_pack
from strata.kernels.paths import Path
from strata.kernels.pool import MODE_FORMATS
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.operation import Operation, Trial
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.kv_pack import conventional, far, plan, recipes, run, sizes
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.plan import SMALL_CELLS
from validation.operations.kv_pack.random_cases import pool
from validation.operations.kv_pack.recipes import Recipe
from validation.operations.kv_pack.run import ROTATED, Packing


class KvPack(Operation):
    """Parameters: the kernels, for tests that put others in their place."""

    name = data = "kv_pack"
    rank = 2
    sizes = sizes.SIZES
    conventional = conventional.CHECKS

    def __init__(self, packing: Packing | None = None) -> None:
        self.packing = packing

    def recipes(self) -> Sequence[Recipe]:
        return recipes.of_operation(self.data)

    def parse(self, text: str) -> Case:
        return Case.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> Case:
        context, page, heads = pool(words)
        return Case(recipe, words[0], context, 0, page, heads, group=1)

    def small(self, case: Case) -> bool:
        return case.context <= SMALL_CELLS

    def far(self, case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: Case | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        entries = sorted({f"kv_pack_{form}" for form in MODE_FORMATS[path.mode]})
        entries += ["hadamard_256"] if any(ROTATED[path.mode]) else []
        return [kv_pack.kernel(entry) for entry in entries]

    def judge(self, trial: Trial) -> Findings:
        return run.run(trial.case, trial.path, trial.executor, trial.settings, self.packing)


OPERATIONS = (KvPack(),)
