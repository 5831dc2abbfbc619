"""The floor: what plans, controls and the ledger must have, and raising it; lowering it takes a reason."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.executors.base import StrataError
from validation.controls import self_test
from validation.host.checkout import need_checkout
from validation.ledger import floor


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation floor`."""
    command.add_argument("--update", action="store_true", help="raise the floor to what there is")
    command.add_argument("--reason", metavar="TEXT", help="why something went, kept in the file; with --update")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print what is missing, or update the file. Exit status: 0, or 1 when something is missing. Raises StrataError
    when it refuses."""
    reason = (options.reason or "").strip()
    if options.reason is not None and not (options.update and reason):
        raise StrataError("--reason is why something went, expected a text and --update")
    if options.update:
        need_checkout("floor --update")
    held, now = floor.load(), floor.present(self_test.names())
    if options.update:
        floor.save(floor.updated(held, now, reason, datetime.now(UTC).date().isoformat()))
        console.print(f"{floor.FILE}: {sum(map(_count, now.values()))} names", markup=False, soft_wrap=True)
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (("section", "left"), ("floor", "right"), ("now", "right"), ("missing", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    gone = []
    for section in sorted({*held.sections, *now}):
        then, own = held.sections.get(section, {}), now.get(section, {})
        lines = floor.missing(then, own)
        gone += [f"{section}: {line}" for line in lines]
        table.add_row(section, str(_count(then)), str(_count(own)), str(len(lines) or ""))
    console.print(table)
    for line in gone:
        console.print(f"missing from {line}", markup=False, style="red", soft_wrap=True)
    return 1 if gone else 0


def _count(names: floor.Names) -> int:
    return sum(map(len, names.values()))
