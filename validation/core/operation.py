"""The seam: what an operation offers, so that everything else is made for it.

An operation says how its data are made, what its kernels are, what is right and how far off they may be. Plans, the
run of a case, verdicts, fuzzing, soak, the static check, mutants and reports ask it through this class, and tell no
operation apart by its name. `row_operation` has the one order in which a case is run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np

from strata.executors.base import Executor, ExecutorUnavailable, Kernel, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from validation.core.case import AnyCase
from validation.core.conventional import Conventional
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.fuzz_compared import FuzzKind
from validation.core.memo import Memo
from validation.core.outcome import Arrays, Expected, Outcome, Reference, Run
from validation.core.recipe import unknown_recipe
from validation.core.recordable import Recordable
from validation.core.settings import Settings
from validation.core.sizes import Sizes

#: Words that a random case is drawn from.
WORDS = 11


class Recipe(Protocol):
    """What a recipe of every operation has."""

    @property
    def name(self) -> str: ...

    @property
    def motivation(self) -> str: ...

    @property
    def operation(self) -> str:
        """The kind of its data: `Operation.data` of those that take it."""
        ...

    @property
    def edition(self) -> int:
        """Of the plans, its first."""
        ...

    @property
    def far(self) -> bool:
        """Whether lanes are asked the checks of far addresses besides."""
        ...


@dataclass
class Trial:
    """One case on one path while it is run, and what is known of it so far.

    Parameters
    ----------
    found
        Checks, figures and seconds.
    inputs
        Of the operation, once they are made.
    first, again
        The outcome that is judged, and that of the repeat.
    rows
        int64, the rows that are measured closely: those that have a reference, and a prediction of a sample.
    old
        The run of the baseline, None where there is none.
    expected, reference
        Every bit that is due, and FP64, None where the operation has no such thing.
    predicted
        The bits of `rows` that lanes expect of a card, None where they were not asked or are not known.
    """

    operation: Operation
    case: Any
    path: Path
    executor: Executor
    settings: Settings
    memo: Memo
    found: Findings = field(default_factory=Findings)
    inputs: Any = None
    first: Outcome | None = None
    again: Outcome | None = None
    rows: np.ndarray = field(default_factory=lambda: np.arange(0))
    old: Run | None = None
    expected: Expected | None = None
    reference: Reference | None = None
    predicted: Arrays | None = None

    @property
    def outcome(self) -> Outcome:
        """What is judged. Raises AssertionError before the run."""
        assert self.first is not None
        return self.first

    @property
    def repeats_on(self) -> Executor:
        """The executor of the repeat: another schedule of the same kind where there is one."""
        return self.settings.repeat_executor or self.executor


class Operation(ABC):
    """What is computed, and all that proving it needs.

    Attributes
    ----------
    name
        As in paths: `operation/mode/tier`.
    data
        The kind of data that its cases are made of; operations with equal data take each other's cases.
    rank
        Where it stands in lists and plans: those of small ranks come first, equal ones by the name of their folder.
    fuzz
        How its paths are fuzzed; None where they are not.
    ends_a_run
        Exceptions that every case would meet, so that they are no case's verdict and end the run.
    bounds
        Names of the checks of wrong values, which say more of a case than that it changes from run to run.
    record
        What a record and its verifier ask of it; None where no record is of it.
    conventional
        What checks in common use ask of it, which mutants are tried on too; None where it has no mutants.
    every_bit
        Whether a model knows every bit of every case: an error that grew is then a bit that differs, and nothing for
        the ledger.
    sizes
        Constants of its kernels, and what its cases have of each; None where none are in this repository.
    soak_turns
        How often each of its paths comes in a turn of a soak.
    """

    name: str
    data: str
    rank: int = 100
    fuzz: FuzzKind | None = None
    record: Recordable | None = None
    conventional: Conventional | None = None
    every_bit: bool = False
    sizes: Sizes | None = None
    soak_turns: int = 1
    ends_a_run: tuple[type[Exception], ...] = (ExecutorUnavailable,)
    bounds: tuple[str, ...] = ("bound",)

    @staticmethod
    def title(case: AnyCase, path: Path) -> str:
        """What a case is called in the line on why it did not pass."""
        return path.name

    # ---- what there is -------------------------------------------------------------------------------------------

    @abstractmethod
    def recipes(self) -> Sequence[Recipe]:
        """The recipes of its data, in table order."""

    @abstractmethod
    def parse(self, text: str) -> AnyCase:
        """The case of a text form. Raises CaseError."""

    def takes(self, case: Any, path: Path) -> bool:
        """Whether a case of its data says something about one of its paths."""
        return True

    def small(self, case: Any) -> bool:
        """Whether lanes run a case in the checked build where its plan does not say."""
        return False

    @abstractmethod
    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        """The cases of a profile: `quick`, `standard` or `full`."""

    def required(self, seed: int) -> Sequence[Planned]:
        """The cases that a record must hold whatever its profile; none of operations that records are not of."""
        return ()

    def composed(self, name: str) -> Recipe | None:
        """The recipe of a name that is made of parts, None where it is no such name. Raises StrataError for a part
        that does not exist."""
        return None

    def recipe(self, name: str) -> Recipe:
        """The recipe of a name. Raises StrataError for a name that none of its data has."""
        known = {one.name: one for one in self.recipes()}
        found = known.get(name) or self.composed(name)
        if found is None:
            raise unknown_recipe(name, known)
        return found

    def random_recipe(self, turn: int, words: Sequence[int]) -> str:
        """The recipe of turn `turn` of a soak: every one in as many turns as there are recipes."""
        known = self.recipes()
        return known[turn % len(known)].name

    @abstractmethod
    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> AnyCase:
        """A small case of a recipe, for soak.

        Parameters
        ----------
        words
            `WORDS` random words, the first of which is its seed; the others choose its sizes.
        checked
            Whether it is run in the checked build, of which few kernels are built.
        """

    def mutant_cases(self, seed: int) -> Sequence[AnyCase] | None:
        """The cases that judge mutants of its kernels, None for those of the quick profile."""
        return None

    def far(self, case: Any, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        """The checks of far addresses of a case whose recipe is marked `far`. Raises StrataError where there are
        none."""
        raise StrataError(f"{path.name} has no far checks")

    @abstractmethod
    def kernels(self, path: Path, case: Any = None) -> Sequence[Kernel]:
        """What a path launches for a case, of None what it may launch. Raises UnknownOperationError for another
        operation's path."""

    def relation_names(self, path: Path) -> Sequence[str]:
        """The metamorphic relations that cases on a path are asked, by name; none where there are none."""
        return ()

    def captured(self, file: FilePath, seed: int, profile: str) -> Sequence[Planned]:
        """Cases of values that were captured to a file; none where they are no data of the operation."""
        return ()

    @abstractmethod
    def judge(self, trial: Trial) -> Findings:
        """Run and judge one case. Raises StrataError when something cannot run."""
