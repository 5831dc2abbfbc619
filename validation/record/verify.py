"""Checks a record without a card; `verify_command` is the command.

The bytes are untrusted. The file is read once, up to a limit; nothing that it names is opened; nothing is written but
compiled kernels of this checkout into the build cache. First come the cheap rules (`rules.TABLE`), which report
together; then, if they all hold, the rows that the record shows are computed again (`rules.rows`). At last the gate
says what the record would open. What a record can and cannot prove: docs/record.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema
import numpy as np
from rich.console import Console

from strata.executors.base import KERNELS, Executor, source_digests
from strata.executors.lanes import LanesExecutor
from strata.gates.record import RecordProblem
from validation.core.editions import Edition
from validation.core.recordable import Predictor
from validation.record import canonical
from validation.record.canonical import RecordError
from validation.record.opens import Opens, opens
from validation.record.recompute import Total, recompute
from validation.record.rules import TABLE
from validation.record.rules.rows import Refusal
from validation.record.rules.subject import EARLIER, SHOWN, Planner, Subject, short, standard_plan

SCHEMA_FILE = KERNELS.parent / "gates" / "record.schema.json"


@dataclass(frozen=True)
class Outcome:
    """What a verifier says of a record.

    Parameters
    ----------
    name
        SHA-256 of the bytes, 64 hex digits.
    refusals
        What is broken, nothing when the record is accepted.
    notes
        What was and what was not checked.
    gate
        What the gate makes of each path.
    with_bits
        Whether the bits of its rows were predicted.
    """

    name: str
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    gate: tuple[Opens, ...] = ()
    with_bits: bool = True

    @property
    def accepted(self) -> bool:
        """Whether nothing is broken."""
        return not self.refusals

    @property
    def rules(self) -> list[str]:
        """Names of the broken rules, each once, in the order in which they were asked."""
        return list(dict.fromkeys(refusal.rule for refusal in self.refusals))

    @property
    def title(self) -> str:
        """One word, and what it is worth without bits."""
        if not self.accepted:
            return "REFUSED"
        return "ACCEPTED" if self.with_bits else "ACCEPTED without bits"

    def lines(self) -> list[str]:
        """The verdict, one line a reason, and what the gate makes of it."""
        if not self.accepted:
            return [f"REFUSED {refusal.rule}: {refusal.reason}" for refusal in self.refusals]
        said = [f"{self.title} {self.name}", *self.notes]
        return said + [f"{item.path}: {item.kind}; {item.reason}" for item in self.gate]


@cache
def lanes(rule: str) -> Executor:
    """Lanes under a rule, opened once."""
    return LanesExecutor(rule=rule)


@dataclass
class Against:
    """What a record is held against.

    Parameters
    ----------
    planner
        What a record of the newest edition must hold, as of `Subject`.
    predictor
        What predicts bits; None leaves them unchecked.
    sources
        SHA-256 of every kernel source of this checkout, by name.
    every
        Whether all rows of all cases are predicted, so that none can be wrong and unasked; it takes minutes.
    earlier
        The other editions and what they must hold, as of `Subject`.
    """

    planner: Planner = standard_plan
    predictor: Predictor | None = lanes
    sources: Mapping[str, str] = field(default_factory=source_digests)
    every: bool = False
    earlier: Sequence[tuple[Edition, Planner]] = EARLIER


def examine(data: bytes, file_name: str | None, against: Against, console: Console | None = None) -> Outcome:
    """The outcome for untrusted bytes.

    Nothing is raised for what the bytes hold.

    Parameters
    ----------
    data
        The bytes.
    file_name
        What the file is called, None to leave that unchecked.
    against
        What they are held against.
    console
        Where progress is shown, None for nowhere.

    Raises
    ------
    CannotCheckError
        When the verifier is at fault, or lacks something, which says nothing of the record.
    ExecutorUnavailable
        Without a compiler, where bits are predicted.
    """
    name = canonical.name_of(data)
    try:
        value = canonical.decode(data)
    except RecordError as error:
        return Outcome(name, (Refusal(error.rule, str(error)),))
    early = _named(name, file_name) + shape(value)
    if early:
        return Outcome(name, tuple(early))
    subject = Subject(value, against.sources, against.planner, against.earlier)
    found = cheap(subject)
    if found:
        return Outcome(name, tuple(found))
    return _recompute(name, subject, against, console or Console(quiet=True))


def cheap(subject: Subject) -> list[Refusal]:
    """What the cheap rules refuse, in their order. A rule that stands on a broken one is not asked."""
    found: list[Refusal] = []
    broken: set[str] = set()
    for rule in TABLE:
        if broken & set(rule.needs):
            broken.add(rule.name)
            continue
        reasons = list(rule.broken(subject))
        if reasons:
            broken.add(rule.name)
            found += [Refusal(rule.name, reason) for reason in reasons[:SHOWN]]
            if len(reasons) > SHOWN:
                found.append(Refusal(rule.name, f"and {len(reasons) - SHOWN} more"))
    return found


def _recompute(name: str, subject: Subject, against: Against, console: Console) -> Outcome:
    known = bool(subject.operation.readings(subject))
    total = recompute(subject, against.predictor if known else None, console, against.every)
    if total.refusals:
        return Outcome(name, total.refusals[:SHOWN])
    try:
        made = opens(name, subject)
    except RecordProblem as problem:
        return Outcome(name, (Refusal("gate", str(problem)),))
    notes = [_rows(subject, total)]
    if not known:
        notes.append("their bits were not predicted: no rule is established for this card")
    elif total.followed is None:
        notes.append("their bits were not predicted: the verifier was told not to")
    else:
        rule = " and ".join(sorted(total.followed))
        whose = _predicted(subject) if against.every else "their bits"
        notes.append(f"{whose} are those of {rule}")
    notes.append(f"attested and not proved: {_attested(subject)}")
    notes.append(_edition(subject))
    return Outcome(name, (), tuple(notes), tuple(made), total.followed is not None)


def _rows(subject: Subject, total: Total) -> str:
    """Which rows were held against FP64, and against what else."""
    of = f"{total.bounded} rows of {len(subject.pairs)} cases"
    if np.issubdtype(subject.operation.dtype, np.integer):
        return f"{of} are choices that the bounds of their FP64 scores allow"
    said = f"{of} are within their bounds of FP64,"
    if subject.operation.on_lanes:
        return f"{said} {total.enclosed} outputs within those of their true value"
    return f"{said} {total.rows - total.bounded} more are shown by their bits or proofs alone"


def _edition(subject: Subject) -> str:
    """Which edition of its profile's plan it holds."""
    held, newest = subject.edition.number, subject.editions[-1].number
    said = "the newest" if held == newest else f"the newest is {newest}"
    return f"it holds edition {held} of the plan of profile {subject.record['plan']['profile']}; {said}"


def _predicted(subject: Subject) -> str:
    """Which bits were predicted, where all were asked for."""
    pairs = list(zip(subject.pairs, subject.cases, strict=True))
    whole = [item["rows"] for (_, case), item in pairs if subject.operation.affordable(case)]
    said = f"the bits of all {sum(whole):,} rows"
    left = len(pairs) - len(whole)
    return f"{said} of {len(whole)} cases, and of the rows shown of {left} larger ones," if left else said


def _attested(subject: Subject) -> str:
    told = subject.record["provenance"]
    names = ("device", "driver", "cuda_runtime", "nvrtc", "system", "made")
    return ", ".join(f"{name} {short(told[name])}" for name in names if told[name] is not None)


def _named(name: str, file_name: str | None) -> list[Refusal]:
    if file_name is None or file_name == f"{name}.json":
        return []
    return [Refusal("name", f"the file is called {short(ascii(file_name)[1:-1])}, expected {name}.json")]


def shape(value: Any) -> list[Refusal]:
    """What breaks the schema; the first places, since the rest says little."""
    found = []
    for error in _validator().iter_errors(value):
        where = "/".join(str(part)[:60] for part in error.absolute_path)
        found.append(
            Refusal("schema", short(f"/{where} breaks {error.validator} {_brief(error.validator_value)}", 200))
        )
        if len(found) == SHOWN:
            break
    return found


def _brief(value: Any) -> str:
    return "" if isinstance(value, dict | list) else repr(value)


@cache
def _validator() -> Any:
    """The schema of this checkout; it refers to nothing, here or elsewhere."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
