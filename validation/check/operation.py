"""An author's kernel on the seam, so that everything that is made for operations is made for it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strata.executors.base import (
    BuildError,
    ContextLostError,
    Executor,
    ExecutorUnavailable,
    Kernel,
    LaunchError,
    LaunchLimitError,
)
from strata.kernels.path import Path
from validation.check import plan
from validation.check.author import AuthorError
from validation.check.case import OwnCase, parse
from validation.check.judging import findings, prefix_of
from validation.check.load import Loaded
from validation.check.recipes import RECIPES
from validation.core.case import AnyCase
from validation.core.entry import Planned
from validation.core.findings import Findings
from validation.core.operation import Operation, Trial
from validation.core.recipe import NamedRecipe
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, Verdict

#: The check of a kernel that broke a rule of the machine: a race, an access out of range, a barrier that some miss.
RULES_CHECK = "rules"


class OwnOperation(Operation):
    """The operation of one author's kernel.

    Parameters
    ----------
    loaded : Loaded
        The kernel, of which its name is the operation's and its only path's.
    other : function, optional
        Opens lanes of another build, for the cases of the checked one.
    """

    ends_a_run = (AuthorError, BuildError, ExecutorUnavailable)

    def __init__(self, loaded: Loaded, other: Callable[[], Executor] | None = None) -> None:
        self.loaded = loaded
        self.other = other
        self._endless = ""
        self.name = self.data = loaded.kernel.name
        self.bounds = tuple(f"{prefix_of(loaded, name)}bound" for name in loaded.kernel.outputs)

    @staticmethod
    def title(case: AnyCase, path: Path) -> str:
        return f"{path.name} {case.recipe}"

    def recipes(self) -> Sequence[NamedRecipe]:
        usual = plan.usual(self.loaded.kernel)
        return [NamedRecipe(name, RECIPES[name].motivation, self.data) for name in RECIPES if name in usual]

    def recipe(self, name: str) -> NamedRecipe:
        """Of all recipes: a case may be asked for by one that the author leaves out of plans."""
        return NamedRecipe(name, RECIPES[name].motivation, self.data)

    def parse(self, text: str) -> OwnCase:
        return parse(text, self.loaded.kernel)

    def small(self, case: OwnCase) -> bool:
        return plan.small(self.loaded, case)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return [Planned(case) for case in plan.cases(self.loaded, profile, seed)]

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> OwnCase:
        return plan.random_case(self.loaded, recipe, words)

    def kernels(self, path: Path, case: Any = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        if self.loaded.kernel.raw is not None:  # CuPy compiles it, on the card
            return []
        if case is None:
            return [self.loaded.image()]
        return list(dict.fromkeys(image for image, _ in self.loaded.launches(case.by_name)))

    def judge(self, trial: Trial) -> Findings:
        if self._endless:  # every case might take as long
            return Findings([Check("run", Verdict.NOT_RUN, self._endless)])
        try:
            return findings(self.loaded, trial, self.other)
        except ContextLostError:  # the card is gone, whatever the kernel is
            raise
        except LaunchLimitError as error:
            self._endless = f"a launch of an earlier case took too long: {error}"
            said = f"{error}, of which --limit gives another number: does it end?"
            return Findings([Check(RULES_CHECK, Verdict.EXCEEDS, said)])
        except LaunchError as error:
            fast = getattr(trial.executor, "flavor", "") == "fast"
            more = "; the build that --flavor checked asks for names the line" if fast else ""
            return Findings([Check(RULES_CHECK, Verdict.EXCEEDS, f"{error}{more}")])


def operations(loaded: Loaded, other: Callable[[], Executor] | None = None) -> Mapping[str, Operation]:
    """The author's kernel as what a runner may be given. other: as of `OwnOperation`."""
    one = OwnOperation(loaded, other)
    return {one.name: one}
