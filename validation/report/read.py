"""Reads the files of a report, whatever they hold and however they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from strata.executors.base import StrataError
from strata.shown import shown
from validation.host import json_file
from validation.host.json_file import JsonError
from validation.report.from_check import of_check
from validation.report.from_record import of_outcome, of_record
from validation.report.from_run import of_run
from validation.report.source import Source, Verified
from validation.run.run_file import CHECK_SCHEMA, QUALITY_SCHEMA, SCHEMA

#: Bytes a run may have: one of the full profile over all paths has below 20 MiB.
LARGEST_RUN = 64 << 20


@dataclass(frozen=True)
class Evidence:
    """The files of a report.

    Parameters
    ----------
    sources
        In the order of the files.
    unreadable
        File and reason of those that are no runs or records.
    """

    sources: Sequence[Source]
    unreadable: Sequence[tuple[str, str]] = ()

    @property
    def shown(self) -> list[Source]:
        """Sources whose cases count: a record of a run that is here too would count the same cases twice."""
        return [source for source in self.sources if not source.twin]


def read(files: Sequence[FilePath], verified: Sequence[FilePath] = ()) -> Evidence:
    """The evidence of files.

    Parameters
    ----------
    files
        Runs and records.
    verified
        What `verify --json` printed of records.

    Raises
    ------
    StrataError
        When none of the files can be read, or an outcome cannot.
    """
    outcomes = [of_outcome(_bytes(file), shown(file.name)) for file in verified]
    sources: list[Source] = []
    unreadable: list[tuple[str, str]] = []
    for file in files:
        try:
            sources.append(of_file(file))
        except StrataError as error:
            unreadable.append((shown(file.name), str(error)))
    if not sources and unreadable:
        raise StrataError(f"{unreadable[0][0]} cannot be shown: {unreadable[0][1]}")
    return Evidence(paired([_with_outcome(source, outcomes) for source in sources]), unreadable)


def of_file(file: FilePath) -> Source:
    """The source of one file. Raises StrataError when it is neither a run nor a record."""
    data, name = _bytes(file), shown(file.name)
    try:
        value = json_file.parse(data)
    except JsonError as error:
        raise StrataError(f"{name} cannot be read: {str(error)[:120]}") from None
    if isinstance(value, dict) and value.get("schema") == SCHEMA:
        return of_run(value, name)
    if isinstance(value, dict) and value.get("schema") == CHECK_SCHEMA:
        return of_check(value, name)
    if isinstance(value, dict) and value.get("schema") == QUALITY_SCHEMA:
        raise StrataError(f"{name} is of python -m validation quality, which writes its page, quality.html, beside it")
    return of_record(data, name)


def paired(sources: Sequence[Source]) -> list[Source]:
    """Sources, with each record of a run among them marked as such: same device, same cases, same shares of bounds."""
    runs = {_key(source): source.name for source in sources if source.kind == "run"}
    return [
        replace(source, twin=runs.get(_key(source), "")) if source.kind == "record" else source for source in sources
    ]


def _key(source: Source) -> tuple[object, ...]:
    cases = tuple((case.path, case.text, case.verdict, case.slack.get("bound")) for case in source.cases)
    return source.capability, source.planned, cases


def _with_outcome(source: Source, outcomes: Sequence[Verified]) -> Source:
    own = [outcome for outcome in outcomes if source.kind == "record" and outcome.name == source.name]
    refusing = [outcome for outcome in own if not outcome.accepted]
    return replace(source, verified=(refusing or own)[0]) if own else source


def _bytes(file: FilePath) -> bytes:
    """The bytes of a plain file of at most LARGEST_RUN. Raises StrataError."""
    try:
        if not file.is_file():
            raise StrataError(f"there is no plain file {str(file)!a}")
        with file.open("rb") as opened:
            data = opened.read(LARGEST_RUN + 1)
    except OSError as error:
        raise StrataError(f"{str(file)!a} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST_RUN:
        raise StrataError(f"{str(file)!a} has more than {LARGEST_RUN:,} bytes")
    return data
