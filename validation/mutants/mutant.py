"""What a mutant is, and how it is put into a copy of the sources."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from strata.executors.base import StrataError
from strata.kernels.registry import first_gated

#: The checkout that mutants are copied from.
ROOT = FilePath(__file__).resolve().parents[2]
#: What a mutant may be called: one word, which a table, a file's name and a command line take as it is.
NAME = re.compile(r"[a-z0-9._^-]+")
#: What a run on lanes is made of, and what the tests need besides.
PACKAGES = ("strata", "validation", "fixtures")
TESTS = ("tests", "examples", "ci", "docs", "pyproject.toml", "noxfile.py", "README.md", "LICENSE")


#: Paths that judge a mutant which does not say.
USUAL_PATHS = f"{first_gated()}/q4_0/sm75"


class MutantError(StrataError):
    """A mutant that cannot be judged: it does not apply, does not compile, or is not what ran."""


@dataclass(frozen=True)
class Edit:
    """One change. file: below the checkout; old: text that occurs there exactly once; new: what stands in its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """One fault.

    file, old, new: the change, as of an Edit; why: what goes wrong with it, in one sentence; paths: shell pattern
    of the paths whose quick cases judge it; recipes: the likely killers, whose cases go first (all others follow);
    also: further changes, where one fault takes several; tests: test files that judge it in place of cases, for
    code of the host that no case runs through; controls: whether the harness's own controls are asked before any
    case, for faults of the harness; device: why it needs a card, empty when it does not; shown: what
    killed it there, for one that needs a card.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    paths: str = USUAL_PATHS
    recipes: tuple[str, ...] = ()
    also: tuple[Edit, ...] = ()
    tests: tuple[str, ...] = ()
    controls: bool = False
    device: str = ""
    shown: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise MutantError(f"mutant {self.name!r}: expected a name of small letters, digits and any of . _ ^ -")

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(self.file, self.old, self.new), *self.also)


def copy_sources(to: FilePath, root: FilePath = ROOT, tests: bool = False) -> None:
    """Copy the packages that a run needs into the directory `to`; with `tests`, what a test run needs as well.

    Bytecode comes along, and is as good there: a copy has its file's time. Without it each process of a trial compiles
    all of it.
    """
    for name in PACKAGES + TESTS if tests else PACKAGES:
        if (root / name).is_dir():
            # Bytecode that a process is just writing has a number behind its name, and may be gone the next moment.
            shutil.copytree(root / name, to / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy(root / name, to / name)


def apply(mutant: Mutant, tree: FilePath) -> None:
    """Change the mutant's files below `tree`. Raises MutantError when one is not there or lacks its text."""
    for edit in mutant.edits:
        file = tree / edit.file
        try:
            source = file.read_text()
        except OSError as error:
            raise MutantError(f"mutant {mutant.name}: cannot read {edit.file}: {error.strerror}") from error
        file.write_text(changed(mutant.name, edit, source))
        # Bytecode is told apart by the second and the size of its source, which an edit may both keep.
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()


def changed(name: str, edit: Edit, source: str) -> str:
    """The text of a file after an edit. Raises MutantError unless the old text occurs exactly once."""
    count = source.count(edit.old) if edit.old else 0
    if count != 1:
        raise MutantError(f"mutant {name}: its text occurs {count} times in {edit.file}, expected once")
    if edit.new == edit.old:
        raise MutantError(f"mutant {name}: it changes nothing in {edit.file}")
    return source.replace(edit.old, edit.new)


def removals(mutant: Mutant, source: str) -> Iterator[Mutant]:
    """One mutant for each occurrence of `mutant.old`, which takes the place of that one alone.

    `mutant` is the pattern: its old text may occur any number of times in `source`. Names get a number, counted
    from 1, and as many of the lines before as make the text unique.
    """
    at = source.find(mutant.old)
    number = 0
    while at >= 0:
        number += 1
        end = at + len(mutant.old)
        start = at
        while source.count(source[start:end]) > 1 and start > 0:
            start = source.rfind("\n", 0, start - 1) + 1 if start > 1 else 0
        before = source[start:at]
        yield replace(mutant, name=f"{mutant.name}-{number}", old=before + mutant.old, new=before + mutant.new)
        at = source.find(mutant.old, end)
