"""Prompt and decode attention on the seam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from strata.executors.base import Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from strata.kernels.pool import GROUPS, MODE_FORMATS
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.operation import Operation, Trial
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.attention import (
    captured,
    conventional,
    far,
    fuzz,
    metamorphic,
    plan,
    random_cases,
    record,
    run,
    sizes,
)
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.kernels import Operation as Kernels
from validation.operations.kv_pack import recipes
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.plan import SMALL_CELLS
from validation.operations.kv_pack.recipes import Recipe

#: Far checks by operation.
_FAR = {"prompt_attention": far.prompt, "decode_attention": far.decode}


class Attention(Operation):
    """One of the two.

    Parameters
    ----------
    name
        `prompt_attention` or `decode_attention`.
    under_test
        The kernels of both, since one is the other's baseline.
    """

    data = "prompt_attention"
    rank = 1
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS

    def __init__(self, name: str, under_test: Mapping[str, Kernels] = ATTENTION) -> None:
        self.name, self.under_test = name, under_test
        if name == "prompt_attention":
            self.record = record.Attention()
            self.soak_turns = 2

    def recipes(self) -> Sequence[Recipe]:
        return recipes.of_operation(self.data)

    def parse(self, text: str) -> Case:
        return Case.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return plan.required(seed)

    def random_recipe(self, turn: int, words: Sequence[int]) -> str:
        known = [recipe.name for recipe in self.recipes() if recipe.name != "captured"]
        return known[turn % len(known)]

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> Case:
        return random_cases.case(recipe, words, checked)

    def takes(self, case: Case, path: Path) -> bool:
        """A case that the `gguf` package packs needs a mode with its format."""
        return case.option("packer", "") != "gguf" or "q4_0" in MODE_FORMATS[path.mode]

    def small(self, case: Case) -> bool:
        return case.context <= SMALL_CELLS

    def far(self, case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return _FAR[self.name](case, path, executor)

    def kernels(self, path: Path, case: Case | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        made = self.under_test[self.name].kernels
        groups = GROUPS if case is None else (case.group,)
        return [kernel for group in groups for kernel in (made(path, group) if made else ())]

    def relation_names(self, path: Path) -> Sequence[str]:
        return metamorphic.of_path(path)

    def captured(self, file: FilePath, seed: int, profile: str) -> Sequence[Planned]:
        """Every captured layer over all its tokens. Raises CaptureError for a file that kernels cannot take."""
        held = captured.load(file)
        facts = held.metadata
        heads = (facts.n_head_kv, facts.n_head // facts.n_head_kv)
        return plan.captured(seed, sorted(held.layers), facts.tokens, heads, profile)

    def judge(self, trial: Trial) -> Findings:
        return run.run(trial.case, trial.path, trial.executor, trial.settings, trial.memo, self.under_test)


def under_test(kernels: Mapping[str, Kernels]) -> dict[str, Operation]:
    """Both operations with other kernels in the place of their own."""
    return {name: Attention(name, kernels) for name in kernels}


OPERATIONS = tuple(Attention(name) for name in ATTENTION)
