"""Whether the verdicts are what the checks come to, and whether all checks were asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from validation.core.float_bits import float_of
from validation.core.recordable import Checks
from validation.core.verdict import Check, Verdict
from validation.record.rules.subject import Subject, short
from validation.run.runner import settle


def checks(subject: Subject) -> Iterator[str]:
    """Each case was asked all its checks, once, and its verdict is what they come to."""
    for index, ((path, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        names = [name for name, _ in item["checks"]]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield f"case {index} was asked {twice} twice"
            continue
        asked = subject.operation.checks(path, case, subject.card)
        optional = {name for group in asked.together for name in group}
        missing, extra = sorted(asked.needed - set(names)), sorted(set(names) - asked.needed - optional)
        halves = [group for group in asked.together if 0 < len(set(group) & set(names)) < len(group)]
        if missing or extra or halves:
            odd = f"{missing[0]} was not asked" if missing else f"{extra[0]} is no check of it" if extra else ""
            yield f"case {index}: {odd or 'one of ' + ' and '.join(halves[0]) + ' is missing'}"
            continue
        for name, verdict in item["checks"]:
            only = _passes_as(asked, name)
            if Verdict(verdict).passes and verdict != only.value:
                yield f"case {index}: {name} is {verdict}, it can pass as {only.value} alone"
        due = settle([_check(asked, item, name, Verdict(verdict)) for name, verdict in item["checks"]])
        if due.value != item["verdict"]:
            yield f"case {index} says {item['verdict']}, its checks come to {due.value}"


def passed(subject: Subject) -> Iterator[str]:
    """Every case passed: a record of a run that failed proves nothing."""
    failed = [
        (index, item["verdict"]) for index, item in enumerate(subject.cases) if not Verdict(item["verdict"]).passes
    ]
    for index, verdict in failed:
        yield f"case {index} did not pass: {verdict}"


def _passes_as(asked: Checks, name: str) -> Verdict:
    return Verdict.WITHIN_BOUND if name in asked.bounded else Verdict.EXACT


def _check(asked: Checks, item: dict[str, Any], name: str, verdict: Verdict) -> Check:
    claim = item["prediction"]
    whole = name in asked.bits and claim is not None and claim["compared"] == asked.whole
    return Check(name, verdict, "", {"all_bits": whole})


def slack(subject: Subject) -> Iterator[str]:
    """Every comparison with a bound has its share of it, finite, and no larger than 1."""
    for index, ((path, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        bounded = subject.operation.checks(path, case, subject.card).bounded
        verdicts = dict(item["checks"])  # all of them pass
        for name, bits in item["slack"].items():
            share = float_of(bits)
            if name not in bounded or name not in verdicts:
                yield f"case {index} has a slack of {short(name)}, which is no comparison it was asked"
            elif not (math.isfinite(share) and 0 <= share <= 1):
                yield f"case {index}: {name} passed with a slack of {share!r}, expected 0 to 1"
        missing = sorted(name for name in bounded if name in verdicts and name not in item["slack"])
        if missing:
            yield f"case {index}: {missing[0]} passed without a slack"


def prediction(subject: Subject) -> Iterator[str]:
    """What is said of predicted bits fits the checks, the rows and the card."""
    yield from subject.operation.claims(subject)


def timings(subject: Subject) -> Iterator[str]:
    """Times are of cases that are there. How long they are is advisory, and nobody judges it."""
    held = {(case["path"], case["case"]) for case in subject.cases}
    seen = set()
    for index, item in enumerate(subject.record["timings"]):
        pair = (item["path"], item["case"])
        if pair not in held or pair in seen:
            yield f"timing {index} is of a case that {'has one already' if pair in seen else 'is not there'}"
        seen.add(pair)
