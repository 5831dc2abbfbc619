"""Comparing device memory with the bytes it should hold, on the device.

result (uint64 [2], zeros before the first launch): the complement of offset << 16 | expected << 8 | got for the lowest
offset that differs, 0 when none does; and the number of bytes that were compared, counted by the threads that compared
them. Both are sums and maxima of integers, so they do not depend on the order of threads. Offsets are below 2^48.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError, Witness

THREADS = 256
#: Bytes that one block compares before the grid wraps around, and the largest grid.
_BLOCK_BYTES = THREADS * 16 * 4
_MOST_BLOCKS = 2048
_DEFINES = (("THREADS", THREADS),)
MOST_BYTES = 1 << 48


class Difference(NamedTuple):
    """The lowest byte that differs.

    Parameters
    ----------
    offset
        Where it lies in the ranges.
    expected, got
        The byte that was expected there, and the one that is.
    """

    offset: int
    expected: int
    got: int


class Comparison(NamedTuple):
    """What a comparison of two ranges of bytes found.

    Parameters
    ----------
    compared
        How many bytes were compared.
    difference
        The lowest byte that differs, None when the ranges are equal.
    witness
        The witness of the launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    compared: int
    difference: Difference | None
    witness: Witness
    guards_ok: bool


def kernel(entry: str = "compare_bytes") -> Kernel:
    """`compare_bytes` or `copy_bytes`."""
    return Kernel("compare_bytes", entry, THREADS, THREADS * 8 if entry == "compare_bytes" else 0, _DEFINES)


def blocks(n: int) -> int:
    """Blocks of a launch over `n` bytes, at least one: the count is a result too."""
    return max(1, min(-(-n // _BLOCK_BYTES), _MOST_BLOCKS))


def difference(found: int) -> Difference | None:
    """What the first word of a result says."""
    if found == 0:
        return None
    key = ~found & (1 << 64) - 1
    return Difference(key >> 16, key >> 8 & 0xFF, key & 0xFF)


def compare(
    executor: Executor, memory: np.ndarray, expected: np.ndarray, n: int, memory_at: int = 0, expected_at: int = 0
) -> Comparison:
    """Compare `memory[memory_at:][:n]` with `expected[expected_at:][:n]`.

    Parameters
    ----------
    executor
        Where it runs.
    memory, expected
        uint8 of one dimension.
    n
        How many bytes.
    memory_at, expected_at
        Where the ranges begin.

    Raises
    ------
    StrataError
        When a range does not lie in its array.
    """
    for name, array, at in (("memory", memory, memory_at), ("expected", expected, expected_at)):
        if array.dtype != np.uint8 or array.ndim != 1 or at < 0 or n < 0 or at + n > array.size:
            raise StrataError(f"{name} is {array.dtype} {array.shape}, expected uint8 with bytes {at} to {at + n}")
    buffers = [executor.array(memory, "memory"), executor.array(expected, "expected")]
    result = executor.array(np.zeros(2, np.uint64), "result", written=True)
    args = (buffers[0], np.uint64(memory_at), buffers[1], np.uint64(expected_at), np.uint64(n), result)
    witness = executor.launch(kernel(), (blocks(n), 1, 1), args)
    found, compared = (int(word) for word in result.host())
    intact = all(buffer.guards_intact() for buffer in (*buffers, result))
    return Comparison(compared, difference(found), witness, intact)
