"""Elastic memory on a card: real sizes, another process as borrower, graphs, phases, kills, and the time of a reclaim.

Takes about 2 minutes on an H200, 5 GiB of host memory, and for a moment nearly all of the card's; nothing else should
use the card. Exit status 0 when every step passed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path as FilePath

from rich.console import Console

from strata.arguments import file
from strata.executors.base import StrataError, system_reason
from validation.host import whole_file
from validation.memory.bench_world import fake_world, real_world
from validation.memory.card_run import steps

PASSED, FAILED = 0, 1


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation memory card`."""
    command.add_argument("--fake", action="store_true", help="the same steps in miniature on a fake card, untimed")
    command.add_argument("--out", type=file, metavar="FILE", help="write the figures there, as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status. Raises ExecutorUnavailable when there is no card, StrataError when the file cannot be written, which
    is tried first: the run takes minutes."""
    if options.out and _writable(options.out):
        console.print(f"{options.out}: an earlier file is replaced", markup=False, soft_wrap=True)
    world = fake_world() if options.fake else real_world()
    found: dict[str, object] = {}
    status = PASSED
    try:
        for name, step in steps(world, options.fake):
            try:
                figures = step()
            except StrataError as error:
                found[name] = {"failed": str(error)}
                console.print(f"{name}: FAILED: {error}", markup=False)
                status = FAILED
                break  # what comes later stands on what has failed
            found[name] = figures
            console.print(
                f"{name}: {', '.join(f'{key} {value}' for key, value in figures.items()) or 'done'}", markup=False
            )
    finally:  # figures of finished steps are kept, whatever ends the command
        if options.out:
            whole_file.write(options.out, json.dumps(found, indent=1) + "\n")
    return status


def _writable(file: FilePath) -> bool:
    """Whether the file is there already. Raises StrataError unless it can be written; one that is there stays as it is,
    and none is left behind."""
    new = not file.exists()
    try:
        with file.open("a"):
            pass
        if new:
            file.unlink()
        return not new
    except OSError as error:
        raise StrataError(f"--out {str(file)!r} cannot be written: {system_reason(error)}") from error
