"""One living run at a time has a directory or a file for its results: the operating system's lock on it.

Nothing is left behind, and a run that was killed holds nothing: the next one goes on. Where the system knows no such
locks (Windows, some network file systems) nobody is refused.
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from types import TracebackType
from typing import Self

from strata.executors.base import StrataError


class Claim:
    """The right to a directory or file that exists, from now until `release`. Raises StrataError while another run has
    it, OSError when it cannot be opened."""

    def __init__(self, place: FilePath) -> None:
        self._lock: int | None = None
        if os.name == "nt":
            return
        import fcntl

        self._lock = os.open(place, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise StrataError(
                f"--out {str(place)!r}: another run is writing there now, expected one at a time"
            ) from None
        except OSError:  # no locks here
            self.release()

    def release(self) -> None:
        """Give it up; a second time does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
