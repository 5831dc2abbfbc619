"""Holds accepted records against today's verifier: `python -m ci.accepted`, a part of `.ci/run`.

A record that the gate still opens a path by must pass the verifier still, bits included. One of earlier kernels opens
nothing any more, by the gate's own rule; it is named and left alone. Exit status: 0 when all is well, 1 when a record
opens what the verifier refuses, or a file is none, 2 when it could not check.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import validation.host.blas_threads  # noqa: F401  before anything imports NumPy
from strata.arguments import whole
from strata.command import command
from strata.executors.base import StrataError
from strata.gates import records
from strata.gates.record import Record, RecordProblem, of_value
from strata.gates.sources import Sources, of_path
from strata.kernels.paths import PATHS, Path
from validation.host.turns import sample, today
from validation.record import canonical
from validation.record.rules.subject import Subject
from validation.record.verify import Against, cheap, examine

PASSED, FAILED, COULD_NOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class Accepted:
    """An accepted record. value: its JSON; data: its bytes."""

    record: Record
    value: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Standing:
    """in_force: whether its kernels and today's cheap rules still hold; reason: why not."""

    in_force: bool
    reason: str = ""


def accepted(folder: FilePath = records.ACCEPTED) -> Iterator[Accepted]:
    """The records in a directory, in order of their names. Raises RecordError for a file that is none, RecordProblem
    for one that the gate cannot read."""
    for file in sorted(folder.glob("*.json")):
        data = canonical.read(file)
        value = canonical.decode(data)
        name = canonical.name_of(data)
        if file.name != f"{name}.json":
            raise canonical.RecordError("name", f"{file.name!a} is not called by its digest {name}")
        yield Accepted(of_value(value, name, local=False), value, data)


def changed(record: Record) -> list[str]:
    """Files and codebooks that are other ones today, when each of the record's paths is made of one: it opens nothing.

    Empty when a path is still made of what the record names.
    """
    by_path = [set(_made_of(path).changed(record.sources, record.codebooks)) for path in _paths(record)]
    return sorted(set().union(*by_path)) if all(by_path) else []


def standing(one: Accepted) -> Standing:
    """Whether a record is in force: cheap, nothing is computed again."""
    other = changed(one.record)
    if other:
        return Standing(False, f"is of another {', '.join(other)}")
    held = Against()
    found = cheap(Subject(one.value, held.sources, held.planner))
    if found:
        return Standing(False, f"is refused today by {found[0].rule}: {found[0].reason}")
    return Standing(True)


def check(found: Iterable[Accepted]) -> Iterator[tuple[bool, str]]:
    """Whether each record is well, and a line on it."""
    for one in found:
        other = changed(one.record)
        if other:
            yield True, f"earlier  {one.record.name}: of another {', '.join(other)}, and opens nothing"
            continue
        outcome = examine(one.data, f"{one.record.name}.json", Against())
        if outcome.accepted and outcome.with_bits:
            yield True, f"verified {one.record.name}: {outcome.notes[0]}"
        else:
            yield False, f"failed   {one.record.name}: {'; '.join(outcome.lines()[:3])}"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m ci.accepted", description=__doc__)
    top.add_argument("--most", type=whole(1), metavar="N", help="only about N records, others every day (default: all)")
    return top


@command()
def main(arguments: Sequence[str] | None = None, folder: FilePath = records.ACCEPTED) -> int:
    """Check them all, print a line each."""
    most = parser().parse_args(arguments).most
    try:
        found = {one.record.name: one for one in accepted(folder)}
        names = sample(list(found), most, today()) if most else list(found)
        well = True
        for good, line in check(found[name] for name in names):
            print(line, flush=True)
            well &= good
    except StrataError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED if isinstance(error, canonical.RecordError | RecordProblem) else COULD_NOT_RUN
    print(f"{len(names)} of {len(found)} accepted records looked at")
    return PASSED if well else FAILED


def _paths(record: Record) -> list[Path]:
    return [PATHS[name] for name in record.plan_paths if name in PATHS]


@cache
def _made_of(path: Path) -> Sources:
    return of_path(path)


if __name__ == "__main__":
    sys.exit(main())
