"""Whether the record holds exactly the cases that its profile, seed and paths ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from strata.kernels.paths import PATHS
from validation.operations import registry
from validation.record.canonical import encode
from validation.record.rules.subject import Subject, short


def plan(subject: Subject) -> Iterator[str]:
    """The plan is that of an accepted edition of its profile, and every case of it is there, once, in order, and no
    other."""
    named = subject.record["plan"]
    for name in named["paths"]:
        if name not in PATHS:
            yield f"{short(name)} is no path"
            return
        if PATHS[name].operation not in registry.recorded():
            proved = " or ".join(f"{of}/*" for of in registry.recorded())
            yield f"{name} is no path that a record proves, expected {proved}"
            return
    operations = list(dict.fromkeys(PATHS[name].operation for name in named["paths"]))
    if len(operations) > 1:
        yield f"its paths are of {' and '.join(operations)}, a record is of one operation"
        return
    if named["paths"] != [name for name in PATHS if name in named["paths"]]:
        yield "the paths do not stand in the order of `python -m validation paths`"
        return
    wanted = [(path.name, case.text()) for path, case in subject.pairs]
    if not wanted:
        yield f"profile {named['profile']} has no case for these paths"
        return
    if named["planned"] != len(wanted):
        yield f"it planned {named['planned']} cases, profile {named['profile']} has {len(wanted)} for these paths"
    if named["digest"] != digest(wanted):
        yield f"its plan is another than that of profile {named['profile']} at seed {named['seed']}, in any edition"
    elif not subject.edition.accepted:
        yield (
            f"it holds edition {subject.edition.number} of profile {named['profile']}, which is not accepted any more:"
            f" expected edition {' or '.join(str(edition.number) for edition in subject.editions if edition.accepted)}"
        )
    difference = _difference(wanted, [(case["path"], case["case"]) for case in subject.cases])
    if difference:
        yield difference


def _difference(wanted: Sequence[tuple[str, str]], found: Sequence[tuple[str, str]]) -> str:
    """The first difference between the cases that must be there and those that are; "" when there is none."""
    if list(wanted) == list(found):
        return ""
    due, seen = set(wanted), set()
    for index, pair in enumerate(found):
        if pair in seen:
            return f"case {index} ({_said(pair)}) is there twice"
        seen.add(pair)
        if pair not in due:
            return f"case {index} ({_said(pair)}) was not planned"
    missing = next((pair for pair in wanted if pair not in seen), None)
    if missing is not None:
        return f"{_said(missing)} was planned and is not there"
    index = next(i for i, (one, two) in enumerate(zip(wanted, found, strict=True)) if one != two)
    return f"case {index} is {_said(found[index])}, expected {_said(wanted[index])}: the order is another"


def _said(pair: tuple[str, str]) -> str:
    return short(f"{pair[0]} {pair[1]}", 160)


def rows(subject: Subject) -> Iterator[str]:
    """A case has as many rows as its sizes say."""
    for index, ((_, case), held) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        if held["rows"] != subject.operation.rows(case):
            yield f"case {index} has {held['rows']} rows, expected {subject.operation.rows_said(case)}"


def digest(pairs: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the canonical JSON of [[path, case], ...]."""
    return hashlib.sha256(encode([list(pair) for pair in pairs])).hexdigest()
