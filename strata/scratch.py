"""Directories for what is being made. They go when it is done; those whose maker was killed are swept by the next one.

A directory is alive while its maker holds the lock of a file in it, which the system lets go of when the process ends,
however it ends. One without such a file, of an older version or where there are no locks, counts as abandoned a day
after it was made.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MARK = ".maker"
#: Seconds after which a directory without a mark has no maker any more: what is made takes minutes at most.
ABANDONED_S = 86_400.0


class Scratch:
    """A new directory, removed with all that is in it at the end of its `with` block.

    Its attribute `path` is the directory. Abandoned directories of the same prefix are swept first.

    Parameters
    ----------
    root
        The directory in which it is made.
    prefix
        What its name begins with.

    Raises
    ------
    OSError
        When no directory can be made.
    """

    def __init__(self, root: Path, prefix: str) -> None:
        sweep(root, prefix)
        self._lock: int | None = None
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
            try:
                self._lock = os.open(self.path / _MARK, os.O_RDWR | os.O_CREAT, 0o600)
                if _held(self._lock):
                    return
            except OSError:  # a file system without locks, or full: the directory is left without a mark
                self._unlock()
                with suppress(OSError):
                    (self.path / _MARK).unlink()
                return
            self._unlock()  # somebody swept it before it was marked

    def close(self) -> None:
        """Remove it. What cannot be removed is left to a later sweep."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep(root: Path, prefix: str) -> None:
    """Remove directories whose maker is no more.

    What cannot be removed stays.

    Parameters
    ----------
    root
        The directory in which they lie.
    prefix
        What their names begin with.
    """
    with suppress(OSError):
        for found in root.glob(f"{prefix}*"):
            with suppress(OSError):
                _sweep_one(found)


def _sweep_one(found: Path) -> None:
    try:
        lock = os.open(found / _MARK, os.O_RDWR)
    except FileNotFoundError:
        if time.time() - found.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(found, ignore_errors=True)
        return
    try:
        if _held(lock):
            shutil.rmtree(found, ignore_errors=True)
    finally:
        os.close(lock)


def _held(lock: int) -> bool:
    """Whether this process has the lock of an open file now, and the file is still there. Raises OSError where there
    are no locks."""
    if fcntl is None:
        raise OSError("no locks on this system")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(lock).st_nlink > 0
