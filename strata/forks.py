"""Forked processes: locks that a child finds free, and things that stay with the process that made them.

A child has one thread, the one that forked, and a copy of everything else: of a lock that another thread held, which
nobody will ever release, and of results that another thread was to bring. So what waits for a thread says here which
process it belongs to. Standard library only.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType

_hooks: list[weakref.WeakMethod[Callable[[], None]]] = []


def in_child(method: Callable[[], None]) -> None:
    """Call `method`, which is bound to an object, in every forked child, for as long as the object lives."""
    _hooks[:] = [hook for hook in _hooks if hook() is not None]
    _hooks.append(weakref.WeakMethod(method))


def _forked() -> None:
    for hook in list(_hooks):
        method = hook()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)


class Home:
    """The process that made a thing."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def left(self) -> bool:
        """Whether this is another process: a child that was forked from it."""
        return os.getpid() != self._pid


class ForkLock:
    """A lock that a forked child finds free, whoever held it in the parent; use as a context manager."""

    def __init__(self) -> None:
        self._renew()
        in_child(self._renew)

    def _renew(self) -> None:
        # A thread that forks while it holds the lock releases in the child the one it took.
        self._lock = threading.Lock()
        self._taken: threading.Lock | None = getattr(self, "_taken", None)

    def acquire(self, blocking: bool = True) -> bool:
        """As `threading.Lock.acquire`, without a time limit."""
        lock = self._lock
        if not lock.acquire(blocking):
            return False
        self._taken = lock
        return True

    def release(self) -> None:
        """As `threading.Lock.release`. Raises RuntimeError when it is not held."""
        taken, self._taken = self._taken, None
        if taken is None:
            raise RuntimeError("release of a lock that nobody holds")
        taken.release()

    def __enter__(self) -> ForkLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
