"""Device memory with guards: one allocation holds guard, data, guard.

Memory comes from cudaMalloc directly and not from CuPy's pool, so that compute-sanitizer knows where each
buffer ends. Nothing here launches a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from strata.executors.base import GUARD_BYTE, GUARD_BYTES, StrataError, poisoned
from strata.executors.cuda.card import Card

#: cudaMalloc aligns to 256 bytes; the guard before the data must keep that.
ALIGNMENT = 256
assert GUARD_BYTES % ALIGNMENT == 0

_FILL_BYTES = 1 << 20  # a pattern is sent to the card once in this size and then doubled there


class CudaBuffer:
    """An array in the memory of a card; see `base.Buffer`.

    Its attribute `address` is that of the first byte, a multiple of 256.

    Parameters
    ----------
    card
        The card.
    shape, dtype
        The shape and the dtype of the array.
    name
        What messages call it.

    Raises
    ------
    StrataError
        When the card has no room, with the sizes.
    ValueError
        For a shape or dtype that no card can hold.
    """

    def __init__(self, card: Card, shape: Sequence[int], dtype: Any, name: str) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype.hasobject or any(size < 0 for size in self.shape):
            raise ValueError(f"buffer {name!r}: no device array of shape {self.shape} and dtype {self.dtype}")
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.name = name or "unnamed"
        self.card = card
        self._runtime = card.runtime
        with card.using(f"allocating {self.name}"):
            self._memory = self._allocate()
        self.address = int(self._memory.ptr) + GUARD_BYTES
        if self.address % ALIGNMENT:
            raise StrataError(f"buffer {self.name}: the driver returned an address not aligned to {ALIGNMENT} bytes")
        guard = np.full(GUARD_BYTES, GUARD_BYTE, np.uint8)
        with card.using(f"writing the guards of {self.name}"):
            self._upload(self.address - GUARD_BYTES, guard)
            self._upload(self.address + self.nbytes, guard)

    def host(self) -> np.ndarray:
        """A copy of the contents; waits for earlier launches."""
        out = np.empty(self.shape, self.dtype)
        with self.card.using(f"reading {self.name}"):
            self._download(out, self.address)
        return out

    def write(self, host: np.ndarray) -> None:
        """Replace the contents. Raises ValueError when shape or dtype differ."""
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ValueError(
                f"buffer {self.name} is {self.dtype}{list(self.shape)}, the array is {host.dtype}{list(host.shape)}"
            )
        with self.card.using(f"writing {self.name}"):
            self._upload(self.address, np.ascontiguousarray(host))

    def fill(self, pattern: int) -> None:
        """Fill with the 32-bit `pattern`."""
        with self.card.using(f"filling {self.name}"):
            done = min(self.nbytes, _FILL_BYTES)
            self._upload(self.address, poisoned(done, pattern))
            while done < self.nbytes:  # `done` stays a multiple of 4 until the last copy
                more = min(done, self.nbytes - done)
                self._runtime.memcpy(self.address + done, self.address, more, self._runtime.memcpyDeviceToDevice)
                done += more

    def guards_intact(self) -> bool:
        """False when a byte of the guards before or after the data is no longer what was put there."""
        guards = np.empty((2, GUARD_BYTES), np.uint8)
        with self.card.using(f"reading the guards of {self.name}"):
            self._download(guards[0], self.address - GUARD_BYTES)
            self._download(guards[1], self.address + self.nbytes)
        return bool((guards == GUARD_BYTE).all())

    def _allocate(self) -> Any:
        wanted = self.nbytes + 2 * GUARD_BYTES
        try:
            return self.card.cupy.cuda.Memory(wanted)
        except self._runtime.CUDARuntimeError as error:
            if "MemoryAllocation" not in str(error):
                raise
            free, total = self._runtime.memGetInfo()
            raise StrataError(
                f"buffer {self.name} needs {wanted / 2**30:.2f} GiB on the card; "
                f"{free / 2**30:.2f} of {total / 2**30:.2f} GiB are free"
            ) from None

    def _upload(self, address: int, host: np.ndarray) -> None:
        if host.nbytes:
            self._runtime.memcpy(address, host.ctypes.data, host.nbytes, self._runtime.memcpyHostToDevice)

    def _download(self, host: np.ndarray, address: int) -> None:
        if host.nbytes:
            self._runtime.memcpy(host.ctypes.data, address, host.nbytes, self._runtime.memcpyDeviceToHost)
