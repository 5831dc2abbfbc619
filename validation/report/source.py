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
    """Device times of one side in milliseconds.

    Parameters
    ----------
    median
        The median of the repetitions.
    least, most
        Both ends of them.
    """

    median: float
    least: float
    most: float


#: Whole numbers of `NearTies`.
COUNTS = ("compared", "queries", "cells", "pairs", "unknown")


@dataclass(frozen=True)
class NearTies:
    """What differs between the cells that a path and its baseline chose.

    Parameters
    ----------
    compared, queries
        Queries, and those that differ.
    cells
        That the one chose and the other did not.
    pairs, unknown
        Pairs of blocks that were proved near, and those of which nothing is promised.
    nearest
        The largest share that a pair used of what bounds allow.
    """

    compared: int
    queries: int
    cells: int
    pairs: int
    unknown: int
    nearest: float


@dataclass(frozen=True)
class CaseView:
    """One case, as a page shows it.

    Parameters
    ----------
    path, text
        The path's name and the case's text.
    verdict
        What became of it.
    explain
        Why it did not pass, empty when it did.
    rerun
        The command that runs it again.
    slack
        Observed over bound, by check.
    compared, differing
        Bits held against a prediction, and those that differ; None where none was made.
    new, old
        Times of path and baseline, None where they were not timed.
    ulps_new, ulps_old
        Outputs by bucket of `validation.numerics.ulps`, of path and baseline.
    ties
        Of a selection, None of any other output.
    """

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
        """Whether its verdict is one that passes."""
        return self.verdict in _PASSES

    @property
    def words(self) -> dict[str, str]:
        """The case's text by key."""
        return dict(word.split("=", 1) for word in self.text.split() if "=" in word)

    @property
    def recipe(self) -> str:
        """Its recipe, `?` where its text has none."""
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
    """One file, as a page shows it.

    Parameters
    ----------
    kind
        `run` or `record`.
    name
        The name of the file.
    device
        Where it ran, in words.
    executor
        What ran it.
    capability
        The compute capability of the card, times ten; None on the CPU.
    status
        What the file says of the run, such as `complete` or `running`; `interrupted` when its process is no more.
    planned
        How many cases were to run.
    cases
        Those that ran.
    said
        What the file itself says besides its cases that keeps it from passing, a line each.
    missing
        Path and case of those that were to run and did not.
    facts
        Label and value of what is attested.
    code
        Entry and architecture of what was loaded.
    digests
        SHA-256 of the kernels' sources, by name.
    profile
        The profile of its plan.
    command
        That made it.
    when
        When it was started, or the day on which the record was made.
    record
        For the gate, None of runs.
    verified
        What a verifier said, None when none was asked.
    vectors, special
        Bits of the identification.
    twin
        The name of a run in this report that a record was made of.
    own
        What a run of check tells besides; None for the kernels of this repository.
    """

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
        """Whether no card ran it."""
        return self.executor != "cuda"

    @property
    def where(self) -> str:
        """Where it ran, for people. Nobody but the file's author says which card that was."""
        return f"a simulation on the CPU ({self.device})" if self.simulated else f"what its author calls {self.device}"


@dataclass(frozen=True)
class Verified:
    """What `python -m validation verify --json` said, as a file tells it.

    Parameters
    ----------
    name
        SHA-256 of the record.
    accepted
        Whether nothing is broken.
    outcome
        Its title.
    reasons
        Why it refused.
    notes
        What it checked.
    file
        What the file is called.
    """

    name: str
    accepted: bool
    outcome: str
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    file: str = "a file"
