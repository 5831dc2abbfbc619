"""Writes one page about runs and records: `python -m validation report FILE...`.

The page is a single HTML file without scripts, which any browser shows. Exit status: 0 when everything on it passed,
1 when the page was written and something on it did not pass or is not verified, 2 when no page could be written.
"""

from __future__ import annotations

import argparse
from pathlib import Path as FilePath

from rich.console import Console

from strata.arguments import file
from validation.host import whole_file
from validation.report.html import page
from validation.report.read import read
from validation.report.sentence import Tone, of_evidence

PASSED, FAILED = 0, 1
NAME = FilePath("report.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m validation report` to a parser."""
    parser.add_argument("files", type=file, nargs="+", metavar="FILE", help="a run.json, or a record")
    parser.add_argument("--out", type=file, default=NAME, metavar="FILE", help="the page (default: %(default)s)")
    parser.add_argument(
        "--verified",
        type=file,
        action="append",
        default=[],
        metavar="FILE",
        help="what `verify --json` printed of a record; may be given more than once",
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Write the page.

    Parameters
    ----------
    options
        The options as they were typed.
    console
        Where its sentence goes.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    StrataError
        When the page cannot be written, and when no file can be read.
    """
    evidence = read(options.files, options.verified)
    text = page(evidence)
    whole_file.write(options.out, text)
    sentence = of_evidence(evidence)
    for line in (sentence.text, *sentence.more):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{options.out}: {len(text.encode()):,} bytes", markup=False, soft_wrap=True)
    return PASSED if sentence.tone is Tone.PASSED else FAILED
