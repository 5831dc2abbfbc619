"""What a mutant is, and how it is put into a copy of the sources."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath

from strata.executors.base import StrataError

#: The checkout that mutants are copied from.
ROOT = FilePath(__file__).resolve().parents[2]
#: What a run on lanes is made of.
PACKAGES = ("strata", "validation")


class MutantError(StrataError):
    """A mutant that cannot be judged: it does not apply, does not compile, or is not what ran."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    file: below the checkout; old: text that occurs there exactly once; new: what stands in its place; why: what
    goes wrong with it, in one sentence; paths: shell pattern of the paths that are run; recipes: quick cases of
    these recipes, the likely killers first (none: the whole quick run).
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    paths: str = "prompt_attention/*"
    recipes: tuple[str, ...] = ()

    def text(self, source: str) -> str:
        """The mutated text of a file. Raises MutantError unless the old text occurs exactly once."""
        count = source.count(self.old) if self.old else 0
        if count != 1:
            raise MutantError(f"mutant {self.name}: its text occurs {count} times in {self.file}, expected once")
        if self.new == self.old:
            raise MutantError(f"mutant {self.name}: it changes nothing in {self.file}")
        return source.replace(self.old, self.new)


def copy_sources(to: FilePath, root: FilePath = ROOT) -> None:
    """Copy the packages that a run needs into the directory `to`."""
    for package in PACKAGES:
        shutil.copytree(root / package, to / package, ignore=shutil.ignore_patterns("__pycache__"))


def apply(mutant: Mutant, tree: FilePath) -> None:
    """Change the mutant's file below `tree`. Raises MutantError when it is not there or does not hold the text once."""
    file = tree / mutant.file
    try:
        source = file.read_text()
    except OSError as error:
        raise MutantError(f"mutant {mutant.name}: cannot read {mutant.file}: {error.strerror}") from error
    file.write_text(mutant.text(source))


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
        name = f"{mutant.name}-{number}"
        yield Mutant(
            name, mutant.file, before + mutant.old, before + mutant.new, mutant.why, mutant.paths, mutant.recipes
        )
        at = source.find(mutant.old, end)
