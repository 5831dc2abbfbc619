"""Every driver call of every operation on lent memory fails, before and after its effect, with each code.

No card, no compiler: a fake driver. Exit status 0 when each failure led to the outcome laid down for it and nothing
was wrong afterwards.
"""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial

from rich.console import Console
from rich.table import Table

from strata.arguments import MOST_JOBS, whole
from strata.executors.base import StrataError
from strata.memory.driver.driver import Code
from validation.host.workers import in_order, workers
from validation.memory.exhaustive import CODES, Findings, examine
from validation.memory.operations import DONE, FATAL, OPERATIONS, REFUSED
from validation.memory.world import KINDS
from validation.memory.wrong_bytes import compared
from validation.memory.wrong_bytes import examine as wrong_bytes
from validation.run import unfinished

PASSED, FAILED = 0, 1
#: Problems that are shown.
SHOWN = 20
#: Enough for a change: one code that a context survives and one that it does not.
FEW = (Code.UNKNOWN, Code.ILLEGAL_ADDRESS)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation memory faults`."""
    command.add_argument(
        "--operations", nargs="+", default=["*"], metavar="GLOB", help="which operations, one or more (default: all)"
    )
    command.add_argument("--few-codes", action="store_true", help="two of the codes: a lost context, and another")
    command.add_argument(
        "--jobs", type=whole(1, MOST_JOBS), default=1, metavar="N", help="processes (default: %(default)s)"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status. Raises StrataError for options that fit nothing."""
    parts = [
        (operation.name, kind)
        for operation in OPERATIONS
        for kind in KINDS
        if _matches(operation.name, options.operations)
    ]
    for glob in options.operations:
        if not any(fnmatchcase(name, glob) for name, _ in parts):
            names = ", ".join(operation.name for operation in OPERATIONS)
            raise StrataError(f"--operations {glob!r}: expected some of {names}, in these letters")
    codes = FEW if options.few_codes else CODES
    total = Findings()
    table = Table(box=None, pad_edge=False)
    for heading in ("operation", "slots", "calls", "trials", DONE, REFUSED, FATAL, "problems"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("operation", "slots") else "right")
    try:
        for (name, kind), findings in zip(parts, _all(parts, codes, options.jobs), strict=True):
            total.add(findings)
            counts = Counter(outcome for _, _, outcome in findings.outcomes.elements())
            figures = (sum(findings.calls.values()), findings.trials, counts[DONE], counts[REFUSED], counts[FATAL])
            table.add_row(name, kind, *map(str, figures), str(len(findings.problems)))
    except BaseException as error:
        _show(table, total, console)
        finished = f"{table.row_count} of {len(parts)} rows are finished, {len(total.problems)} problems"
        left = list(dict.fromkeys(name for name, _ in parts[table.row_count :]))
        rest = f"the rest: --operations {shlex.join(left)}" if left else ""
        unfinished.say(console, error, finished, rest)
        if not isinstance(error, KeyboardInterrupt):
            raise
        return FAILED
    _show(table, total, console)
    calls = sum(total.calls.values())
    words = (
        f"{total.trials - total.pairs} failures over {calls} driver calls, {len(codes)} codes, before and after their "
        f"effect, and {total.pairs} pairs, of which the second came about in {total.both}"
    )
    console.print(f"{words}: {'no problem' if not total.problems else f'{len(total.problems)} problems'}")
    silent = _wrong_bytes(options.operations, console)
    return FAILED if total.problems or silent else PASSED


def _show(table: Table, total: Findings, console: Console) -> None:
    console.print(table)
    for line in total.problems[:SHOWN]:
        console.print(line, markup=False)
    if len(total.problems) > SHOWN:
        console.print(f"and {len(total.problems) - SHOWN} more")


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _wrong_bytes(globs: Sequence[str], console: Console) -> int:
    """Copies with a wrong byte; how many of them something was wrong after."""
    tried = [
        wrong
        for operation in compared()
        for kind in KINDS
        if _matches(operation.name, globs)
        for wrong in wrong_bytes(operation, kind)
    ]
    silent = [wrong for wrong in tried if wrong.problems]
    for wrong in silent[:SHOWN]:
        where = f"{wrong.operation} ({wrong.kind}), copy {wrong.copy} with a wrong byte"
        console.print(f"{where}: {wrong.outcome}, {wrong.problems[0]}", markup=False)
    if tried:
        console.print(f"{len(tried)} copies with a wrong byte: {len(silent)} were not seen")
    return len(silent)


def _one(part: tuple[str, str], codes: Sequence[int]) -> Findings:
    operation = next(operation for operation in OPERATIONS if operation.name == part[0])
    return examine(operation, part[1], codes)


def _all(parts: Sequence[tuple[str, str]], codes: Sequence[int], jobs: int) -> Iterator[Findings]:
    if jobs == 1:
        yield from (_one(part, codes) for part in parts)
        return
    with workers(jobs) as pool:
        yield from in_order(pool, partial(_one, codes=codes), parts)
