"""Keeps the author's file from ending the process, whose exit status would then be the file's own and no verdict."""

from __future__ import annotations

import os
import posix
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

#: Functions that end a process, or make another program of it, in a way that no `except` sees.
_ENDING = ("_exit", "execv", "execve")
_OURS = Path(__file__).resolve().parents[2]


class EndsTheProcess(SystemExit):
    """What such a function raises instead."""


def _refusing(name: str, own: Callable[..., Any], process: int) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        caller = Path(sys._getframe(1).f_code.co_filename)
        ours = any(caller.is_relative_to(_OURS / part) for part in ("strata", "validation"))
        if ours or os.getpid() != process:  # a child that was forked ends as it likes
            own(*arguments, **named)
        raise EndsTheProcess(f"os.{name} would end the process without a verdict")

    return refuse


@contextmanager
def refused() -> Iterator[None]:
    """Inside, a function that would end this process raises at the line that calls it."""
    before = {name: getattr(os, name) for name in _ENDING}
    for name, own in before.items():
        for module in (os, posix):
            setattr(module, name, _refusing(name, own, os.getpid()))
    try:
        yield
    finally:
        for name, own in before.items():
            for module in (os, posix):
                setattr(module, name, own)
