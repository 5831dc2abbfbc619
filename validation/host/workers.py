"""Processes that work for a command and end when it ends, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Ctrl-C and the end of a terminal reach every process of the command; they are for the one that keeps the results.
_FOR_THE_PARENT = ("SIGINT", "SIGHUP")


@contextmanager
def workers(jobs: int, start: Callable[..., None] | None = None, *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` new processes, in each of which `start(*arguments)` is called first.

    At the end of the block nobody waits for a result that nobody takes: what still runs is ended, and with it the
    pool's thread, which has no word to say after the command's last. Cancel no future of it: up to Python 3.11 that
    thread falls over one when a process ends.
    """
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (start, arguments))
    try:
        yield pool
    finally:
        # Its thread gives every future that is left an exception; one that was cancelled would not take it.
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown()


def in_order(pool: ProcessPoolExecutor, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """What `work` makes of each item. `pool.map` would cancel the rest when nobody takes it."""
    for future in [pool.submit(work, item) for item in items]:
        yield future.result()


def _begin(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    for name in _FOR_THE_PARENT:
        number: Any = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    if start is not None:
        start(*arguments)
