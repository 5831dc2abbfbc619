"""A record under examination, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from strata.executors.base import StrataError
from strata.executors.lanes import RULES, parse_rule
from strata.executors.lanes.rules import Rule as Arithmetic
from strata.kernels.paths import PATHS, Path
from validation import profiles
from validation.cases import Case
from validation.predict import readings

Pairs = list[tuple[Path, Case]]
#: (paths, profile, seed) to the path and case of every run, in order.
Planner = Callable[[Sequence[Path], str, int], Pairs]

#: Reasons shown of one rule; the rest are counted.
SHOWN = 3


def standard_plan(paths: Sequence[Path], profile: str, seed: int) -> Pairs:
    """What every record must hold. Raises StrataError where nothing fits the paths."""
    planned = profiles.record_plan(paths, profile, seed)
    return [(job.path, job.case) for job in planned if isinstance(job.case, Case)]


@dataclass(frozen=True)
class Origin:
    """Stands for the executor that a record says it comes from, where only its arithmetic is asked for.

    rule: that of lanes; None on a card, where the capability decides.
    """

    name: str
    capability: int | None
    rule: Arithmetic | None


@dataclass(frozen=True)
class Subject:
    """record: parsed, and of the schema's shape; sources: SHA-256 of every kernel source of this checkout."""

    record: Mapping[str, Any]
    sources: Mapping[str, str]
    planner: Planner = standard_plan

    @property
    def card(self) -> bool:
        """Whether it says that a card ran it."""
        return bool(self.record["provenance"]["executor"] == "cuda")

    @property
    def capability(self) -> int | None:
        return self.record["provenance"]["capability"] if self.card else None

    @cached_property
    def paths(self) -> list[Path]:
        """The known prompt-attention paths of its plan, in its order."""
        known = (PATHS.get(name) for name in self.record["plan"]["paths"])
        return [path for path in known if path is not None and path.operation == "prompt_attention"]

    @cached_property
    def pairs(self) -> Pairs:
        """Path and case of every run that its plan asks for; empty when there is no such plan."""
        plan = self.record["plan"]
        if len(self.paths) != len(plan["paths"]):
            return []
        try:
            return self.planner(self.paths, plan["profile"], plan["seed"])
        except StrataError:
            return []

    @property
    def cases(self) -> list[dict[str, Any]]:
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


def short(text: object, most: int = 90) -> str:
    """Untrusted text for a line: printable ASCII (`decode` refused the rest), cut."""
    said = str(text)
    return said if len(said) <= most else said[:most] + "..."
