"""How large a record will be, before hours are spent on it."""

from __future__ import annotations

from collections.abc import Iterable

from strata.executors.base import StrataError
from validation.operations import registry
from validation.record.canonical import LARGEST
from validation.run.runner import Job

#: Bytes of a case beside its rows: digests, some 40 checks by name, slacks, launches; and of a row beside its bits and
#: proof. Measured on records, rounded up.
_CASE, _ROW = 3000, 48
#: Characters of a sibling in a proof, quotes and comma included.
_SIBLING = 67
#: Rows that the schema lets a record show.
MOST_ROWS = 20_000
#: Which rows a root asks for changes their number a little; their sizes hardly.
_ANY_ROOT = "0" * 64


def estimated(jobs: Iterable[Job]) -> tuple[int, int]:
    """About how many bytes and how many shown rows the record of these jobs has."""
    size = rows = 0
    for index, job in enumerate(jobs):
        operation = registry.recordable(job.path.operation)
        depth = max(operation.rows(job.case) - 1, 0).bit_length()
        asked = operation.asked(job.case, _ANY_ROOT, index)
        digits = 8 * operation.width(job.case) * sum(each.bits for each in asked)
        rows += len(asked)
        size += _CASE + digits + len(asked) * (_ROW + _SIBLING * depth)
    return size, rows


def refuse_too_large(jobs: Iterable[Job]) -> None:
    """Refuse a plan whose record nobody could read.

    Parameters
    ----------
    jobs
        What is to run.

    Raises
    ------
    StrataError
        When its record would be too large.
    """
    size, rows = estimated(jobs)
    if size > LARGEST or rows > MOST_ROWS:
        raise StrataError(
            f"a record of these paths would show {rows:,} rows in about {size / 2**20:.0f} MiB, expected at most"
            f" {MOST_ROWS:,} in {LARGEST >> 20}: select fewer by --paths, or a smaller --profile"
        )
