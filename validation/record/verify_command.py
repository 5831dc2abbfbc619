"""Checks a parity record without a card: `python -m validation verify FILE`.

Exit status: 0 accepted, 1 refused, 2 could not check. What a record can and cannot prove: docs/record.md.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from rich.console import Console

from strata.arguments import file
from strata.executors.base import BuildError, ExecutorUnavailable
from validation.core.recordable import CannotCheckError
from validation.record import canonical
from validation.record.canonical import RecordError
from validation.record.rules.rows import Refusal
from validation.record.verify import Against, Outcome, examine, lanes

ACCEPTED, REFUSED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m validation verify` to a parser."""
    parser.add_argument("file", type=file, metavar="FILE", help="the record, called <its SHA-256>.json")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON, and no progress")
    bits = parser.add_mutually_exclusive_group()
    bits.add_argument(
        "--all-bits",
        action="store_true",
        help="predict every row of every case and not those alone that the record shows; minutes in place of one",
    )
    bits.add_argument(
        "--without-bits", action="store_true", help="leave out the prediction of bits, which needs a C++ compiler"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Check one file and print the outcome.

    Parameters
    ----------
    options
        The options as they were typed.
    console
        Where the outcome goes.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    StrataError
        When it could not check.
    """
    began = time.perf_counter()
    outcome = _outcome(options, Console(quiet=True) if options.json else console)
    if options.json:
        console.file.write(text(outcome) + "\n")
    else:
        for line in outcome.lines():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        left = "" if outcome.accepted else "a refused record opens nothing; "
        console.print(f"{left}{time.perf_counter() - began:.0f} s", markup=False)
    return ACCEPTED if outcome.accepted else REFUSED


def text(outcome: Outcome) -> str:
    """One JSON object, indented."""
    value = {"outcome": outcome.title, "accepted": outcome.accepted, **asdict(outcome)}
    return json.dumps(value, indent=1)


def _outcome(options: argparse.Namespace, console: Console) -> Outcome:
    try:
        data = canonical.read(options.file)
    except RecordError as error:
        if error.rule == "file":
            raise
        return Outcome("", (Refusal(error.rule, str(error)),))
    try:
        against = Against(predictor=None if options.without_bits else lanes, every=options.all_bits)
        return examine(data, options.file.name, against, console)
    except (ExecutorUnavailable, BuildError) as error:
        raise CannotCheckError(f"bits cannot be predicted here, and --without-bits leaves them out: {error}") from error
