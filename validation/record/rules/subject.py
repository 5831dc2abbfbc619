"""A record under examination, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from strata.executors.base import StrataError
from strata.executors.lanes import RULES, parse_rule
from strata.executors.lanes.rules import Rule as Arithmetic
from strata.gates.evidence import plan_digest
from strata.kernels.paths import PATHS, Path
from validation.core.editions import EDITIONS, NEWEST, Edition
from validation.core.recordable import Recordable
from validation.core.untrusted import short as short
from validation.numerics.tensorcore_rules import readings
from validation.operations import registry
from validation.run import plan as profiles

Pairs = list[tuple[Path, Any]]
#: (paths, profile, seed) to the path and case of every run, in order.
Planner = Callable[[Sequence[Path], str, int], Pairs]

#: Reasons shown of one rule; the rest are counted.
SHOWN = 3


def standard_plan(paths: Sequence[Path], profile: str, seed: int, edition: int = NEWEST) -> Pairs:
    """What every record of an edition must hold.

    Parameters
    ----------
    paths
        The paths of the record.
    profile, seed
        The profile and the seed of its plan.
    edition
        The edition of the plans.

    Raises
    ------
    StrataError
        Where nothing fits the paths.
    """
    return [(job.path, job.case) for job in profiles.record_plan(paths, profile, seed, edition=edition)]


#: What records of earlier editions hold, in order.
EARLIER: tuple[tuple[Edition, Planner], ...] = tuple(
    (edition, partial(standard_plan, edition=edition.number)) for edition in EDITIONS[:-1]
)


@dataclass(frozen=True)
class Origin:
    """Stands for the executor that a record says it comes from, where only its arithmetic is asked for.

    Parameters
    ----------
    name
        `cuda` or `lanes`.
    capability
        The compute capability of the card, times ten; None on lanes.
    rule
        That of lanes; None on a card, where the capability decides.
    """

    name: str
    capability: int | None
    rule: Arithmetic | None


@dataclass(frozen=True)
class Subject:
    """A record that is examined, and what it is held against.

    Parameters
    ----------
    record
        Parsed, and of the schema's shape.
    sources
        SHA-256 of every kernel source of this checkout, by name.
    planner
        What a record of the newest edition must hold.
    earlier
        The other editions and what they must hold, in order.
    """

    record: Mapping[str, Any]
    sources: Mapping[str, str]
    planner: Planner = standard_plan
    earlier: Sequence[tuple[Edition, Planner]] = EARLIER

    @property
    def card(self) -> bool:
        """Whether it says that a card ran it."""
        return bool(self.record["provenance"]["executor"] == "cuda")

    @property
    def capability(self) -> int | None:
        """The compute capability of the card that it says it is of, times ten; None for none."""
        return self.record["provenance"]["capability"] if self.card else None

    @cached_property
    def paths(self) -> list[Path]:
        """The known paths of its plan, in its order; all of the first one's operation, which records are of."""
        known = [PATHS[name] for name in self.record["plan"]["paths"] if name in PATHS]
        of = known[0].operation if known else ""
        return [path for path in known if path.operation == of and of in registry.recorded()]

    @cached_property
    def operation(self) -> Recordable:
        """The operation that it is of; asked only of a record whose plan holds."""
        return registry.recordable(self.paths[0].operation)

    @cached_property
    def edition(self) -> Edition:
        """The newest edition whose plan has the record's digest; the newest of all where none has."""
        return self._planned[0]

    @property
    def pairs(self) -> Pairs:
        """Path and case of every run that the plan of its edition asks for; empty when there is no such plan."""
        return self._planned[1]

    @property
    def editions(self) -> list[Edition]:
        """All editions, in order."""
        return [*(edition for edition, _ in self.earlier), EDITIONS[-1]]

    @cached_property
    def _planned(self) -> tuple[Edition, Pairs]:
        pairs = self._plan_by(self.planner)
        if not self._named(pairs):
            for edition, planner in reversed(self.earlier):
                held = self._plan_by(planner)
                if self._named(held):
                    return edition, held
        return EDITIONS[-1], pairs

    def _plan_by(self, planner: Planner) -> Pairs:
        plan = self.record["plan"]
        if len(self.paths) != len(plan["paths"]):
            return []
        try:
            return planner(self.paths, plan["profile"], plan["seed"])
        except StrataError:
            return []

    def _named(self, pairs: Pairs) -> bool:
        """Whether the record names this plan by its digest."""
        pairs_said = [(path.name, case.text()) for path, case in pairs]
        return bool(self.record["plan"].get("digest") == plan_digest(pairs_said))

    @property
    def cases(self) -> list[dict[str, Any]]:
        """The cases as it has them."""
        return list(self.record["cases"])

    @cached_property
    def lanes_rule(self) -> Arithmetic | None:
        """The rule that lanes say they followed; None on a card, or when there is no such rule."""
        named = self.record["provenance"]["rule"]
        if self.card or named is None:
            return None
        try:
            return parse_rule(named)
        except StrataError:
            return None

    @cached_property
    def executor(self) -> Origin:
        """What bounds ask of an executor."""
        return Origin("cuda" if self.card else "lanes", self.capability, self.lanes_rule)

    @cached_property
    def arithmetic(self) -> tuple[tuple[str, Arithmetic], ...]:
        """The rules that its bits may follow, by name; none where nothing is known of the card."""
        if self.card:
            return tuple((name, RULES[name]) for name in readings(self.executor))  # type: ignore[arg-type]
        return ((str(self.record["provenance"]["rule"]), self.lanes_rule),) if self.lanes_rule else ()
