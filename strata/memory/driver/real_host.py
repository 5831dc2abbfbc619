"""Page-locked host memory of a context: which addresses it has, and its end with the last array over it."""

from __future__ import annotations

import ctypes
import weakref
from bisect import bisect_right

import numpy as np

from strata.memory.driver.bindings import Bindings
from strata.memory.driver.driver import DriverError

_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: page-locked for every context


class PageLocked:
    """All page-locked host memory of one driver.

    Parameters
    ----------
    bindings
        The driver's functions.
    """

    def __init__(self, bindings: Bindings) -> None:
        self._cuda, self._call = bindings.cuda, bindings.call
        self._held: list[tuple[int, int]] = []  # (first, bytes), ascending
        self._unfreed: list[int] = []  # whose free was refused

    def array(self, n: int) -> np.ndarray:
        """uint8 [n], of anything. Raises DriverError."""
        if n == 0:
            return np.zeros(0, np.uint8)
        first = int(self._call("page_locked", self._cuda.cuMemHostAlloc, n, _PORTABLE))
        memory = (ctypes.c_uint8 * n).from_address(first)
        self._held.insert(bisect_right(self._held, (first, n)), (first, n))
        # At the interpreter's end the context may be gone already, and the system frees the memory anyway.
        weakref.finalize(memory, self._free, first, n).atexit = False
        return np.frombuffer(memoryview(memory), np.uint8)

    def holds(self, address: int, n: int) -> bool:
        """Whether bytes of host memory are part of one of its arrays.

        Parameters
        ----------
        address, n
            The first address, and how many bytes.
        """
        at = bisect_right(self._held, (address, 1 << 63)) - 1
        return at >= 0 and address + n <= sum(self._held[at])

    def close(self) -> None:
        """Raises DriverError when memory that nobody uses any more could not be freed, at its last try."""
        while self._unfreed:
            self._call("close", self._cuda.cuMemFreeHost, self._unfreed.pop())

    def _free(self, first: int, n: int) -> None:
        """Called when the last array is gone, in whichever thread that happens; an error would be lost there."""
        self._held.remove((first, n))
        try:
            self._call("page_locked", self._cuda.cuMemFreeHost, first)
        except DriverError:
            self._unfreed.append(first)
