"""What a command says of an exception that nobody foresaw: one line with its type, its place and its text.

`STRATA_TRACEBACK=1` shows the traceback besides. This module imports no library, and of the project only what imports
none either, because it must work where one of those is what is broken.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from strata.shown import shown

#: Set to 1, it asks for tracebacks on standard error.
VARIABLE = "STRATA_TRACEBACK"
COULD_NOT_RUN = 2
#: What a shell reports for a program that SIGINT ended.
INTERRUPTED = 128 + 2
_ROOT = Path(__file__).resolve().parent.parent
#: Directories of the checkout whose lines are worth naming; below it there may be an environment with other packages.
_OURS = ("strata", "validation", "ci", "fixtures", "examples", "tests")
_LONGEST = 300


def place(error: BaseException) -> str:
    """`file:line` of the innermost frame in the project's own code, or of the innermost one when none is."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "an unknown place"
    for frame in reversed(frames):
        file = Path(frame.filename).absolute()
        if file.is_relative_to(_ROOT) and file.relative_to(_ROOT).parts[0] in _OURS:
            return f"{file.relative_to(_ROOT).as_posix()}:{frame.lineno}"
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"


def unforeseen(error: BaseException) -> str:
    """One line on an exception. Shows its traceback on standard error where `STRATA_TRACEBACK` is 1."""
    if os.environ.get(VARIABLE) == "1":
        traceback.print_exception(error, file=sys.stderr)
    text = shown(" ".join(str(error).split()), _LONGEST)
    return f"unforeseen {type(error).__name__} at {place(error)}{text and f': {text}'}"


def advice() -> str:
    """What to do to learn more; empty where it has been done."""
    return "" if os.environ.get(VARIABLE) == "1" else f" ({VARIABLE}=1 shows the traceback)"


def of_threads(prefix: str, said: list[str]) -> Callable[[threading.ExceptHookArgs], None]:
    """A hook for threads that an exception ends: it prints a line on standard error.

    SystemExit ends a thread without a word.

    Parameters
    ----------
    prefix
        The first word of the line.
    said
        A list that takes each line as well.
    """

    def hook(crash: threading.ExceptHookArgs) -> None:
        if crash.exc_value is None or isinstance(crash.exc_value, SystemExit):
            return
        said.append(f"{prefix}: {unforeseen(crash.exc_value)}{advice()}")
        with suppress(SystemExit):  # standard error that nobody reads: the command says so
            print(said[-1], file=sys.stderr)

    return hook


def from_the_start() -> None:
    """Let what fails while a program's modules are imported, before its `main`, end it with one line and 2 as well, and
    so what fails in a thread, even one that outlives `main`.

    Python's own status for an uncaught exception is 1, which here is a verdict.
    """

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
            raise SystemExit(INTERRUPTED)
        print(f"error: {unforeseen(error.with_traceback(trace))}{advice()}", file=sys.stderr)
        raise SystemExit(COULD_NOT_RUN)

    said: list[str] = []

    def end() -> None:
        """After the last thread: the status of `main` is settled, and only this replaces it."""
        if said:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):  # closed, or none
                    stream.flush()
            os._exit(COULD_NOT_RUN)

    sys.excepthook = hook
    threading.excepthook = of_threads("error", said)
    atexit.register(end)
