"""Scenes of forking during a launch, run by test_fork.py in a process of their own, which they may hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from strata.executors.base import LaunchError
from strata.executors.lanes import LanesExecutor, precompiled
from tests.strata.executors.lanes.test_faults import run

#: What a child that hangs is ended after.
LIMIT_S = 30


def launches() -> None:
    """A launch works, and a fault in a kernel is caught."""
    assert run(LanesExecutor(threads=2), "kNothing").shape == (3, 64)
    with pytest.raises(LaunchError, match="memory fault"):
        run(LanesExecutor(threads=2), "kNull")


def passes(child: Callable[[], None]) -> bool:
    """Whether `child`, in a forked process, ends without an exception, and at all."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        try:
            child()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def another_thread_launches() -> bool:
    return passes(launches)


def multiprocessing_forks() -> bool:
    def child() -> None:
        signal.alarm(LIMIT_S)
        launches()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    return process.exitcode == 0


def a_grandchild_launches() -> bool:
    def child() -> None:
        launches()
        assert passes(launches)

    return passes(child)


def forking(seen: list[int], leave: bool) -> Callable[[int], None]:
    """Progress of a launch that forks once: the parent takes the child's status and stops the launch as Ctrl-C does,
    the child goes on, or leaves with status 7."""
    forked: list[bool] = []

    def fork(blocks: int) -> None:
        if forked:  # a child that is called again must not go on forking
            return
        forked.append(True)
        pid = os.fork()
        if pid:
            seen.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            raise KeyboardInterrupt
        signal.alarm(LIMIT_S)
        if leave:
            sys.exit(7)

    return fork


def this_thread_launches() -> bool:
    """The launch's own threads are not in the child: it says so at once, and another launch works."""
    seen: list[int] = []
    try:
        run(LanesExecutor(threads=2, progress=forking(seen, leave=False)), "kEndless")
    except LaunchError as error:
        launches()
        os._exit(0 if "this process was forked during the launch" in str(error) else 1)
    except KeyboardInterrupt:
        return seen == [0]
    return False


def this_thread_launches_and_leaves() -> bool:
    """A child that ends by an exception out of the launch does not wait for its threads either."""
    seen: list[int] = []
    try:
        run(LanesExecutor(threads=2, progress=forking(seen, leave=True)), "kEndless")
    except KeyboardInterrupt:
        return seen == [7]
    return False


def headers_are_compiled_ahead() -> bool:
    """Another thread makes the precompiled headers: a child builds without them, or makes its own."""
    assert precompiled._making.acquire()
    taken: list[bool] = []

    def child() -> None:
        taken.append(precompiled._making.acquire(blocking=False))
        assert taken == [True]

    return passes(child)


ALONE = (this_thread_launches, this_thread_launches_and_leaves, headers_are_compiled_ahead)
#: While another thread launches a kernel that never ends.
BESIDE = (another_thread_launches, multiprocessing_forks, a_grandchild_launches)


def main() -> None:
    """Print a line for each scene: its name and whether it went right."""
    for scene in ALONE:
        print(scene.__name__, scene(), flush=True)
    runs = threading.Event()
    executor = LanesExecutor(threads=2, progress=lambda blocks: runs.set())
    threading.Thread(target=run, args=(executor, "kEndless"), daemon=True).start()
    runs.wait()
    for scene in BESIDE:
        print(scene.__name__, scene(), flush=True)
    os._exit(0)  # the kernel that never ends is not waited for


if __name__ == "__main__":
    main()
