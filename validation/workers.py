"""Processes that work for a command and end when it ends, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

#: Ctrl-C and the end of a terminal reach every process of the command; they are for the one that keeps the results.
_FOR_THE_PARENT = ("SIGINT", "SIGHUP")


@contextmanager
def workers(jobs: int, start: Callable[..., None] | None = None, *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` new processes, in each of which `start(*arguments)` is called first.

    At the end of the block nobody waits for a result that nobody takes: what still runs is ended.
    """
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (start, arguments))
    try:
        yield pool
    finally:
        # The pool forgets its processes when it is shut down.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _begin(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    for name in _FOR_THE_PARENT:
        number: Any = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    if start is not None:
        start(*arguments)
