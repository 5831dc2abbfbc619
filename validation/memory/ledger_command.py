"""The byte ledger: digests of every slot before a loan, while another process has the memory, and after RECLAIM.

Makes one on the card, or in miniature with `--fake`, checks it, and writes it with `--out`; `--check FILE` checks one
that was made elsewhere, without a card. Exit status 0 when every slot is what it must be.
"""

from __future__ import annotations

import argparse

from rich.console import Console

from strata.arguments import file
from validation.memory import byte_ledger
from validation.memory.bench_world import fake_world, real_world
from validation.memory.ledger_check import misnamed
from validation.record import canonical

PASSED, FAILED = 0, 1


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation memory ledger`."""
    command.add_argument("--fake", action="store_true", help="on a fake card")
    command.add_argument("--check", type=file, metavar="FILE", help="check this ledger in place of making one")
    command.add_argument("--out", type=file, metavar="DIR", help="write DIR/<sha256>.json")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status. Raises StrataError when there is no card, or the file is no ledger."""
    problems: list[str] = []
    if options.check:
        data = canonical.read(options.check)
        ledger = canonical.decode(data)
        problems += misnamed(options.check.stem, data)
    else:
        world = fake_world() if options.fake else real_world()
        world.open()
        facts = {} if options.fake else world.driver.bindings.card.facts
        name = facts.get("name", b"a fake card")
        provenance = {"device": name.decode(errors="replace") if isinstance(name, bytes) else str(name)}
        ledger = byte_ledger.make(world.cache, world.lending, world.sizes.lend, world.borrow, provenance)
        world.close()
    problems += byte_ledger.check(ledger)
    for line in problems:
        console.print(line, markup=False)
    resident = sum(1 for entry in ledger["slots"] if entry["row"] >= 0)
    console.print(
        f"{resident} experts in {len(ledger['slots'])} slots, {ledger['lent']['experts']} of them lent "
        f"({ledger['lent']['mib']} MiB), {ledger['reclaimed']['compared']} bytes compared: "
        f"{'every slot as before' if not problems else f'{len(problems)} problems'}"
    )
    if options.out and not options.check:
        console.print(str(byte_ledger.write(ledger, options.out)), markup=False)
    return FAILED if problems else PASSED
