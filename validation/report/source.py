"""What the report needs of a run or a record, in one form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strata.gates.record import Record
from validation.core.verdict import Verdict
from validation.report.own import Own

_PASSES = frozenset(verdict.value for verdict in Verdict if verdict.passes)


@dataclass(frozen=True)
class Timing:
    """Device times of one side in milliseconds: the median and both ends of the repetitions."""

    median: float
    least: float
    most: float


#: Whole numbers of `NearTies`.
COUNTS = ("compared", "queries", "cells", "pairs", "unknown")


@dataclass(frozen=True)
class NearTies:
    """What differs between the cells that a path and its baseline chose. compared, queries: of which so many differ;
    cells: that the one chose and the other did not; pairs: of blocks, proved near; unknown: those of which nothing is
    promised; nearest: the largest share that a pair used of what bounds allow."""

    compared: int
    queries: int
    cells: int
    pairs: int
    unknown: int
    nearest: float


@dataclass(frozen=True)
class CaseView:
    """One case. slack: observed over bound by check; compared, differing: bits held against a prediction, None where
    none was; ulps_new, ulps_old: outputs by bucket of `validation.numerics.ulps`, of path and baseline; ties: of a
    selection, None of any other output."""

    path: str
    text: str
    verdict: str
    explain: str = ""
    rerun: str = ""
    slack: Mapping[str, float] = field(default_factory=dict)
    compared: int | None = None
    differing: int | None = None
    new: Timing | None = None
    old: Timing | None = None
    ulps_new: Sequence[int] = ()
    ulps_old: Sequence[int] = ()
    ties: NearTies | None = None

    @property
    def passes(self) -> bool:
        return self.verdict in _PASSES

    @property
    def words(self) -> dict[str, str]:
        """The case's text by key."""
        return dict(word.split("=", 1) for word in self.text.split() if "=" in word)

    @property
    def recipe(self) -> str:
        return self.words.get("recipe", "?")

    @property
    def size(self) -> str:
        """Queries of cells, as `512 of 4096`."""
        return f"{self.words.get('queries', '?')} of {self.words.get('context', '?')}"

    @property
    def ratio(self) -> float | None:
        """Device time of the baseline over that of the path."""
        if self.new is None or self.old is None or not (self.new.median > 0 and self.old.median > 0):
            return None
        return self.old.median / self.new.median

    @property
    def worst(self) -> float:
        """Share of the bound that the path used; -1 where it is held to none, infinity for a NaN."""
        share = self.slack.get("bound", -1.0)
        return math.inf if math.isnan(share) else share


@dataclass(frozen=True)
class Source:
    """One file. kind: `run` or `record`; name: of the file; device: where it ran, in words; capability: times ten,
    None on the CPU; native: whether a card ran it; said: what the file itself says besides its cases that keeps it
    from passing, a line each; facts: label and value of what is attested; record: for the gate; verified: what a
    verifier said, None when none was asked; vectors, special: bits of the identification; twin: the name of a run in
    this report that a record was made of; own: of a run of check, None for the kernels of this repository."""

    kind: str
    name: str
    device: str
    executor: str
    capability: int | None
    status: str
    planned: int
    cases: Sequence[CaseView]
    said: Sequence[str] = ()
    missing: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    code: Sequence[tuple[str, str]] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    command: str = ""
    when: str = ""
    record: Record | None = None
    verified: Verified | None = None
    vectors: Mapping[str, str] | None = None
    special: Mapping[str, str] | None = None
    twin: str = ""
    own: Own | None = None

    @property
    def failed(self) -> list[CaseView]:
        """Cases that did not pass, in their order."""
        return [case for case in self.cases if not case.passes]

    @property
    def simulated(self) -> bool:
        return self.executor != "cuda"

    @property
    def where(self) -> str:
        """Where it ran, for people. Nobody but the file's author says which card that was."""
        return f"a simulation on the CPU ({self.device})" if self.simulated else f"what its author calls {self.device}"


@dataclass(frozen=True)
class Verified:
    """What `python -m validation verify --json` said, as a file tells it. reasons: why it refused; notes: what it
    checked; file: its name."""

    name: str
    accepted: bool
    outcome: str
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    file: str = "a file"
