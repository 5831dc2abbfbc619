"""Which cases a run plans: the lists of the profiles, and the sizes asked for by --context and --queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from strata.executors.base import StrataError
from strata.kernels.paths import Path
from validation.core import editions
from validation.core.case import AnyCase
from validation.core.entry import Planned
from validation.operations import registry
from validation.run.runner import Job

PROFILES = ("quick", "standard", "full")
#: The seed of all cases unless another is asked for; the one whose figures the ledger keeps.
SEED = 1


class Entry(Planned):
    """A case of a profile, and what it says of editions and paths."""

    __slots__ = ()

    @property
    def since(self) -> int:
        """The first edition that plans it."""
        return max(self.edition, registry.find(self.case.recipe).edition)

    def takes(self, path: Path) -> bool:
        """Whether the case is one of a path's."""
        chosen = self.operations is None or path.operation in self.operations
        return chosen and (self.modes is None or path.mode in self.modes) and fits(self.case, path)


def required(seed: int) -> list[Entry]:
    """The cases that a record must hold whatever its profile, of every operation that records are of."""
    return [Entry(*one) for operation in registry.kinds() for one in operation.required(seed)]


def entries(seed: int, profile: str, paths: Sequence[Path], edition: int = editions.NEWEST) -> list[Entry]:
    """The cases that an edition of a profile has for some paths, by the kinds of data that they take.

    Those of an earlier edition come first, in the order that they had in it. Raises StrataError for an unknown one.
    """
    newest = editions.find(edition).number
    kinds = {registry.of_path(path) for path in paths}
    planned = [
        Entry(*one)
        for operation in registry.kinds()
        if operation.data in kinds
        for one in operation.planned(seed, profile)
    ]
    return sorted((one for one in planned if one.since <= newest), key=lambda one: one.since)


def fits(case: AnyCase, path: Path) -> bool:
    """Whether a case says something about a path: data of its kind, and formats that it has."""
    if registry.of_path(path) != registry.find(case.recipe).operation:
        return False
    return registry.of(path).takes(case, path)


def plan(paths: Sequence[Path], entries: Sequence[Entry], lanes: bool) -> list[Job]:
    """Jobs of every entry on every path of its operation, tiers of a mode next to one another.

    On lanes small cases run in the checked build, and every second case under a permuted schedule.
    """
    jobs = []
    for index, entry in enumerate(entries):
        for path in sorted(paths, key=lambda path: (path.operation, path.mode)):
            if entry.takes(path):
                flavor = entry.flavor or ("checked" if registry.of(path).small(entry.case) else "fast")
                jobs.append(Job(entry.case, path, flavor, index if lanes and index % 2 else None))
    if not jobs:
        made = dict.fromkeys(registry.find(entry.case.recipe).operation for entry in entries)
        taken = dict.fromkeys(map(registry.of_path, paths))
        if made and not made.keys() & taken.keys():
            said = f"the cases are of {', '.join(made)}, expected recipes of {', '.join(taken)}"
        else:
            said = (
                f"expected recipes of {', '.join(taken)}, and a profile that plans some: a larger one, or other formats"
            )
        raise StrataError(f"no planned case fits the selected paths: {said}")
    return jobs


def record_plan(
    paths: Sequence[Path], profile: str, seed: int, lanes: bool = False, edition: int = editions.NEWEST
) -> list[Job]:
    """The jobs of a record: those of its profile and the required sizes, each case once on a path.

    A profile may plan a case twice on lanes, in two builds; the first stands for both. Which cases there are, and
    their order, does not depend on `lanes`.
    """
    found: dict[tuple[str, str], Job] = {}
    for job in plan(paths, entries(seed, profile, paths, edition) + required(seed), lanes):
        found.setdefault((job.path.name, job.case.text()), job)
    return list(found.values())


def with_recipe(entries: Sequence[Entry], name: str) -> list[Entry]:
    """The entries of one recipe; where a profile has none, its first case made with that recipe."""
    recipe = registry.find(name)
    own = [entry for entry in entries if entry.case.recipe == name]
    alike = [entry for entry in entries if registry.find(entry.case.recipe).operation == recipe.operation]
    return own or [entry._replace(case=_made_by(name, entry.case)) for entry in alike[:1]]


def _made_by(recipe: str, case: Any) -> AnyCase:
    """A case of the same sizes and seed by another recipe."""
    made: AnyCase = replace(case, recipe=recipe)
    return made
