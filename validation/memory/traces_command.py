"""Random traces of LEND, RECLAIM, swaps, prompts in every way, STOP, resizing and a borrower, held against a model.

No card, no compiler: a fake driver. Needs hypothesis (the dependency group `test`). A trace that goes wrong is
printed as short as it was found to go wrong. Exit status 0 when none did, and, from 5,000 steps on, when each request
was really carried out as often as `machine.FLOORS` says and loans began in many places.
"""

from __future__ import annotations

import argparse
import time

from rich.console import Console

from strata.arguments import whole
from strata.executors.base import StrataError
from strata.imports import NotImportedError, optional
from validation.run import unfinished

PASSED, FAILED = 0, 1
#: Steps of a trace at most.
LENGTH = 50
#: Traces of one round of hypothesis; between rounds the progress is told.
ROUND = 100
#: Steps from which on it is judged what they did.
JUDGED = 5000


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation memory traces`."""
    command.add_argument(
        "--steps", type=whole(1), default=100_000, metavar="N", help="at least so many (default: %(default)s)"
    )
    command.add_argument(
        "--first", type=whole(), default=0, metavar="I", help="round to begin with (default: %(default)s)"
    )
    command.add_argument("--seed", type=whole(), default=1, metavar="N", help="of all traces (default: %(default)s)")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status. Raises StrataError when hypothesis is not installed."""
    try:
        optional("hypothesis.stateful")
    except NotImportedError as error:
        what = "is not installed" if error.absent else f"does not import ({error})"
        raise StrataError(f"hypothesis {what}: python -m pip install hypothesis") from None
    from validation.memory import machine

    began, done, turn = time.perf_counter(), 0, options.first
    while done < options.steps:
        try:
            done += machine.run(ROUND, LENGTH, options.seed * 1_000_003 + turn)
        except Exception as error:  # whatever a trace raises is what it found
            console.print(f"after {done} steps: {type(error).__name__}: {error}", markup=False)
            for note in getattr(error, "__notes__", ()):
                console.print(note, markup=False)
            return FAILED
        except KeyboardInterrupt as error:
            rest = {"steps": options.steps - done, "first": turn, "seed": options.seed}
            finished = f"{done} of {options.steps} steps are finished without a violation"
            unfinished.say(
                console, error, finished, f"the rest: {unfinished.command('validation memory traces', rest)}"
            )
            return FAILED
        turn += 1
        if turn % 10 == 0:
            console.print(f"{done} steps, {time.perf_counter() - began:.0f} s")
    console.print(
        f"{done} steps of {(turn - options.first) * ROUND} traces, {time.perf_counter() - began:.0f} s: no violation"
    )
    for name, (carried_out, refused) in sorted(machine.tally.items()):
        console.print(f"  {name}: {carried_out} carried out, {refused} refused")
    console.print(f"  LEND began in {len(machine.boundaries)} places")
    short = machine.shortfalls() if machine.steps >= JUDGED else []
    for line in short:
        console.print(line, markup=False)
    return FAILED if short else PASSED
