"""What a long command says when it ends before its end: what is finished, and the command that does the rest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path as FilePath

from rich.console import Console

from validation.run.run_file import RunFile

COMPLETE, RUNNING, INTERRUPTED, FAILED = "complete", "running", "interrupted", "failed"


def status(error: BaseException) -> str:
    """How a run ended that `error` ended."""
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED


def command(words: str, options: Mapping[str, object]) -> str:
    """`python -m <words>` with those of its options that are not None, to be pasted into a shell."""
    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return f"python -m {words} {shlex.join(given)}".rstrip()


def beside(directory: FilePath | None, first: int) -> FilePath | None:
    """Where the rest of a run goes whose beginning is kept in a directory."""
    return None if directory is None else directory.parent / f"{directory.name or 'run'}-from-{first}"


def where(file: RunFile | None) -> str:
    """Where what is finished is kept: empty for a run that keeps nothing."""
    if file is None:
        return ""
    return f", in {file.path}" if file.kept else f", and not kept: {file.path} is not written"


def say(console: Console, error: BaseException, finished: str, rest: str = "") -> None:
    """Print a line on what is finished, and on the rest if there is one. Nothing when it is the output that ended the
    command."""
    if not isinstance(error, SystemExit):
        console.print(f"{status(error)}: {finished}{rest and f'; {rest}'}", markup=False, soft_wrap=True)
