"""Buffers larger than a machine's memory, of which a test touches a few rows."""

from __future__ import annotations

import mmap

import numpy as np

from strata.executors.base import GUARD_BYTE, GUARD_BYTES
from strata.executors.lanes.executor import HostBuffer

#: Of Linux, where Python has no name for it: memory that is promised and not set aside.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class Mapped(HostBuffer):
    """A buffer of zeros between guards, of which only what is touched takes memory."""

    def __init__(self, shape: tuple[int, ...], dtype: type, name: str) -> None:
        self.shape, self.dtype, self.name = shape, np.dtype(dtype), name
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        self._raw = np.frombuffer(mmap.mmap(-1, self.nbytes + 2 * GUARD_BYTES, flags=flags), np.uint8)
        self._first = GUARD_BYTES
        self._raw[:GUARD_BYTES], self._raw[-GUARD_BYTES:] = GUARD_BYTE, GUARD_BYTE
        self.bytes = self._raw[self._first : self._first + self.nbytes]

    def view(self) -> np.ndarray:
        """The values themselves, no copy."""
        values: np.ndarray = self.bytes.view(self.dtype).reshape(self.shape)
        return values
