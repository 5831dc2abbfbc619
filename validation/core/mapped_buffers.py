"""Buffers larger than a machine's memory, of which a few rows are touched, and that lie across a multiple of 4 GiB.

An offset that lost its upper bits points into the zeros of the same buffer. An address whose lower 32 bits were added
without a carry points in front of the buffer or behind it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Timer
from typing import Any

import numpy as np

from strata.executors.base import GUARD_BYTE, GUARD_BYTES, LaunchError, StrataError
from strata.executors.lanes.executor import HostBuffer

#: What 32 bits of an address count.
WINDOW = 1 << 32
#: Bytes that the addresses of buffers are multiples of, as of every executor.
ALIGN = 256
#: PROT_NONE, for which `mmap` has no name.
_NO_ACCESS = 0


class Mapped(HostBuffer):
    """A buffer of zeros between guards, of which only what is touched takes memory.

    before: bytes of it, a multiple of 256, that lie in front of an address that is a multiple of 4 GiB.
    Raises StrataError where the system does not promise so much memory.
    """

    def __init__(self, shape: Sequence[int], dtype: Any, name: str, before: int = ALIGN) -> None:
        self.shape, self.dtype, self.name = tuple(int(n) for n in shape), np.dtype(dtype), name
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        if before % ALIGN or before < 0:
            raise StrataError(f"{name}: {before} bytes before the boundary, expected a multiple of {ALIGN}")
        self._raw = _promised(self.nbytes + before + 2 * (WINDOW + GUARD_BYTES))
        start = int(self._raw.ctypes.data)
        self._first = -(start + GUARD_BYTES + before) % WINDOW + GUARD_BYTES
        self.bytes = self._raw[self._first : self._first + self.nbytes]
        for guard in self._guards():
            guard[:] = GUARD_BYTE

    @classmethod
    def holding(cls, host: np.ndarray, name: str, before: int) -> Mapped:
        """A buffer with a copy of an array."""
        made = cls(host.shape, host.dtype, name, before)
        made.write(host)
        return made

    def view(self) -> np.ndarray:
        """The values themselves, no copy."""
        values: np.ndarray = self.bytes.view(self.dtype).reshape(self.shape)
        return values

    @contextmanager
    def readable_for(self, seconds: float) -> Iterator[None]:
        """The buffer to a launch that may not end: after so many seconds none of it can be read, which stops a lane.

        Raises LaunchError for a launch that lasted as long, and StrataError where memory cannot be shut.
        """
        shut = Event()

        def end() -> None:
            shut.set()
            self._protect(_NO_ACCESS)

        timer = Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if shut.is_set():
                self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
                raise LaunchError(f"{self.name}: still being read after {seconds:g} s, as by a loop without an end")

    def _protect(self, allowed: int) -> None:
        start = int(self._raw.ctypes.data)
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(self._raw.nbytes), allowed):
            raise StrataError(f"{self.name}: mprotect of its memory to {allowed} failed")

    def guards_intact(self) -> bool:
        return all(bool((guard == GUARD_BYTE).all()) for guard in self._guards())

    def _guards(self) -> tuple[np.ndarray, np.ndarray]:
        end = self._first + self.nbytes
        return self._raw[self._first - GUARD_BYTES : self._first], self._raw[end : end + GUARD_BYTES]


def _promised(nbytes: int) -> np.ndarray:
    """uint8 [nbytes] of zeros that are not set aside. Raises StrataError where there are none to have."""
    try:
        # Of Linux, where older Pythons have no name for it: memory that is promised and not set aside.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)
    except (AttributeError, OSError, ValueError) as error:
        raise StrataError(
            f"{nbytes} bytes of address space, which a check of far addresses needs, are not to be had: {error}"
        ) from error
