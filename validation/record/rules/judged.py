"""Whether the verdicts are what the checks come to, and whether all checks were asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from validation import laws
from validation.bounds.prompt_attention import PUBLISHED_QUERIES
from validation.cases import Case
from validation.predict import readings
from validation.recipes import find
from validation.record.canonical import float_of
from validation.record.rules.subject import Subject, short
from validation.runner import settle
from validation.verdict import Check, Verdict

#: Checks that compare with a bound: they pass as WITHIN_BOUND, and the share of the bound is their slack.
BOUNDED = ("bound", "agreement", "gate 1", "gate 2", "baseline bound", "certificate", "certified")
PREDICTIONS = ("prediction", "baseline prediction")
TIMED = ("timed new", "timed old")


def asked(path: Path, case: Case) -> set[str]:
    """The checks that every run of a case on a path is asked."""
    names = {"data", "written", "guards", "witness", "repeat", "certificate", "bound", "certified", "self"}
    if path.baseline:
        names |= {"baseline guards", "baseline witness", "baseline bound"}
        names |= {"gate 1", "gate 2"} if case.queries >= PUBLISHED_QUERIES else {"agreement"}
    if find(case.recipe).laws:
        names |= {f"law {name}" for name in laws.of_path(path)}
    return names


def checks(subject: Subject) -> Iterator[str]:
    """Each case was asked all its checks, once, and its verdict is what they come to."""
    for index, ((path, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        names = [name for name, _ in item["checks"]]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield f"case {index} was asked {twice} twice"
            continue
        wanted = asked(path, case)
        optional = set(TIMED) | (set(PREDICTIONS) if subject.card else set())
        missing, extra = sorted(wanted - set(names)), sorted(set(names) - wanted - optional)
        halves = [pair for pair in (PREDICTIONS, TIMED) if len(set(pair) & set(names)) == 1]
        if missing or extra or halves:
            odd = f"{missing[0]} was not asked" if missing else f"{extra[0]} is no check of it" if extra else ""
            yield f"case {index}: {odd or 'one of ' + ' and '.join(halves[0]) + ' is missing'}"
            continue
        for name, verdict in item["checks"]:
            if Verdict(verdict).passes and verdict != _passes_as(name).value:
                yield f"case {index}: {name} is {verdict}, it can pass as {_passes_as(name).value} alone"
        due = settle([_check(item, name, Verdict(verdict)) for name, verdict in item["checks"]])
        if due.value != item["verdict"]:
            yield f"case {index} says {item['verdict']}, its checks come to {due.value}"


def passed(subject: Subject) -> Iterator[str]:
    """Every case passed: a record of a run that failed proves nothing."""
    failed = [
        (index, item["verdict"]) for index, item in enumerate(subject.cases) if not Verdict(item["verdict"]).passes
    ]
    for index, verdict in failed:
        yield f"case {index} did not pass: {verdict}"


def _passes_as(name: str) -> Verdict:
    return Verdict.WITHIN_BOUND if name in BOUNDED else Verdict.EXACT


def _check(item: dict[str, Any], name: str, verdict: Verdict) -> Check:
    claim = item["prediction"]
    whole = name == "prediction" and claim is not None and claim["compared"] == item["rows"] * HEAD_DIM
    return Check(name, verdict, "", {"all_bits": whole})


def slack(subject: Subject) -> Iterator[str]:
    """Every comparison with a bound has its share of it, finite, and no larger than 1."""
    for index, item in enumerate(subject.cases):
        verdicts = dict(item["checks"])  # all of them pass
        for name, bits in item["slack"].items():
            share = float_of(bits)
            if name not in BOUNDED or name not in verdicts:
                yield f"case {index} has a slack of {short(name)}, which is no comparison it was asked"
            elif not (math.isfinite(share) and 0 <= share <= 1):
                yield f"case {index}: {name} passed with a slack of {share!r}, expected 0 to 1"
        missing = [name for name in BOUNDED if name in verdicts and name not in item["slack"]]
        if missing:
            yield f"case {index}: {missing[0]} passed without a slack"


def prediction(subject: Subject) -> Iterator[str]:
    """What is said of predicted bits fits the check, the rows and the readings of the card."""
    known = readings(subject.executor)  # type: ignore[arg-type]
    common: set[str] | None = None
    for index, ((_, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        claim = item["prediction"]
        verdict = dict(item["checks"]).get("prediction")
        if claim is None:
            if verdict in ("EXACT", "EXCEEDS"):
                yield f"case {index}: prediction is {verdict}, and how many bits were compared is not said"
            continue
        if not subject.card:
            yield f"case {index} claims a prediction, lanes predict nothing"
            continue
        compared, differing = claim["compared"], claim["differing"]
        per_query = case.n_head * HEAD_DIM
        if compared % per_query or not 0 < compared <= case.queries * per_query:
            yield f"case {index} compared {compared} outputs, expected 1 to {case.queries} queries of {per_query}"
        if verdict is None or (verdict == "EXACT") != (differing == 0) or differing > compared:
            said = f"{differing} of {compared} outputs differ"
            yield f"case {index} says that {said}, and its prediction is {verdict or 'not asked'}"
        followed = set(claim["readings"])
        if not followed <= set(known):
            odd = short(", ".join(sorted(followed - set(known))))
            yield f"case {index} followed {odd}, which is no reading of this card"
        elif len(known) > 1 and differing == 0:
            if not followed:
                yield f"case {index} has all bits as predicted, and by which reading is not said"
            common = followed if common is None else common & followed
    if common is not None and not common:
        yield "no one reading of the card explains all cases"


def timings(subject: Subject) -> Iterator[str]:
    """Times are of cases that are there. How long they are is advisory, and nobody judges it."""
    held = {(case["path"], case["case"]) for case in subject.cases}
    seen = set()
    for index, item in enumerate(subject.record["timings"]):
        pair = (item["path"], item["case"])
        if pair not in held or pair in seen:
            yield f"timing {index} is of a case that {'has one already' if pair in seen else 'is not there'}"
        seen.add(pair)
