"""Locks and things of one process, seen from a forked child."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable

import pytest

from strata.forks import ForkLock, Home, in_child

#: What a child that hangs is ended after.
LIMIT_S = 30


def child_says(question: Callable[[], bool]) -> bool:
    """The answer of a forked child; one that hangs says no."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        answer = False
        try:
            answer = question()
        finally:
            os._exit(0 if answer else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    lock = ForkLock()
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert child_says(lambda: lock.acquire(blocking=False) and not lock.acquire(blocking=False))
        assert not lock.acquire(blocking=False)
    finally:
        leave.set()
        thread.join()
    assert lock.acquire(blocking=False)


def test_a_thread_that_forks_while_it_holds_a_lock_releases_it_on_both_sides() -> None:
    lock = ForkLock()

    def released() -> bool:
        lock.release()
        return lock.acquire(blocking=False)

    with lock:
        assert child_says(released)
        assert not lock.acquire(blocking=False)
    assert lock.acquire(blocking=False)


def test_a_lock_is_a_lock() -> None:
    lock = ForkLock()
    with pytest.raises(RuntimeError, match="nobody holds"):
        lock.release()
    count = 0

    def add() -> None:
        nonlocal count
        for _ in range(1000):
            with lock:
                before = count
                count = before + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == 4000


def test_a_child_knows_that_it_is_not_the_home() -> None:
    home = Home()
    assert not home.left
    assert child_says(lambda: home.left and not Home().left)


def test_only_what_still_lives_is_told_of_a_fork() -> None:
    class Told:
        def __init__(self) -> None:
            self.times = 0
            in_child(self.tell)

        def tell(self) -> None:
            self.times += 1

    kept, gone = Told(), Told()
    del gone
    gc.collect()
    assert child_says(lambda: kept.times == 1)
    assert kept.times == 0
