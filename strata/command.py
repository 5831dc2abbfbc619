"""What every command has in common: how it ends.

Its exit status is a verdict or 2: what it raises becomes one line and 2, and so does what a thread of it raises.
SIGTERM, and SIGHUP unless somebody chose to ignore it, interrupt it as Ctrl-C does. What becomes of output that nobody
reads is in `output`.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec

from strata.executors.base import StrataError
from strata.output import ends_unread
from strata.shown import shown
from strata.unforeseen import COULD_NOT_RUN, INTERRUPTED, advice, of_threads, unforeseen

#: By name, because Windows has no SIGHUP.
_SIGNALS = ("SIGTERM", "SIGHUP")

P = ParamSpec("P")


def command(prefix: str = "error", interrupted: int = INTERRUPTED) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """A decorator of a command's `main`, which then returns an exit status whatever happens in it.

    SystemExit of argparse goes on.

    Parameters
    ----------
    prefix
        The first word of the line on an error.
    interrupted
        The status after Ctrl-C or a signal that `main` itself has not answered.
    """

    def ending(main: Callable[P, int]) -> Callable[P, int]:
        @wraps(main)
        def verdict(*args: P.args, **words: P.kwargs) -> int:
            try:
                with as_ctrl_c():
                    return main(*args, **words)
            except StrataError as error:
                said = shown(error)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                return interrupted
            except Exception as error:  # a fault of this project, or of what it stands on: no verdict
                said = unforeseen(error) + advice()
            print(f"{prefix}: {said}", file=sys.stderr)
            return COULD_NOT_RUN

        @ends_unread
        @wraps(main)
        def run(*args: P.args, **words: P.kwargs) -> int:
            with _hearing_threads(prefix) as crashed:
                status = verdict(*args, **words)
            return COULD_NOT_RUN if crashed else status

        return run

    return ending


@contextmanager
def _hearing_threads(prefix: str) -> Iterator[list[str]]:
    """Inside, what a thread raises is a line on standard error, and in the list."""
    said: list[str] = []
    before = threading.excepthook
    if threading.current_thread() is threading.main_thread():
        threading.excepthook = of_threads(prefix, said)
    try:
        yield said
    finally:
        if threading.current_thread() is threading.main_thread():
            threading.excepthook = before


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Inside, signals that would end the process raise KeyboardInterrupt in the main thread, once: a process that has
    begun to end is left to it. `timeout` sends its signal twice."""
    taken: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in taken:
            # No SIG_IGN, which programs started from here would inherit.
            signal.signal(one, lambda *_: None)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for name in _SIGNALS:
            number: Any = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                taken.append(number)
                signal.signal(number, interrupt)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)
