"""Experts' bytes for tests: every eight of them name their expert and their place in it.

Word w (8 bytes, little endian) of expert row r is a bijection of r * 2^32 + w (the finaliser of splitmix64), so no word
occurs twice in all experts together, none is a run of equal bytes by construction, and a word read from a wrong place
says where it came from.
"""

from __future__ import annotations

import numpy as np

from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.source import HostArena, total_bytes

_GAMMA = 0x9E3779B97F4A7C15
_MUL_1 = 0xBF58476D1CE4E5B9
_MUL_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def pattern(row: int, nbytes: int) -> np.ndarray:
    """The bytes of one expert.

    Parameters
    ----------
    row
        The row of the expert.
    nbytes
        How many bytes it has.

    Returns
    -------
    uint8 array [nbytes]

    References
    ----------
    S. Vigna, splitmix64.c, https://prng.di.unimi.it/splitmix64.c, 2015: the finaliser.
    """
    z = np.arange(-(-nbytes // 8), dtype=np.uint64) + np.uint64((row << 32) + _GAMMA & _MASK)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MUL_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MUL_2)
    z ^= z >> np.uint64(31)
    return z.astype("<u8").view(np.uint8)[:nbytes]


def place(word: bytes) -> tuple[int, int]:
    """(row, byte offset) of eight bytes that were written by `pattern`; other bytes give some other pair."""
    z = int.from_bytes(word, "little")
    for shift, factor in ((31, _MUL_2), (27, _MUL_1), (30, 1)):
        source, moved = z, z >> shift
        while moved:
            source ^= moved
            moved >>= shift
        z = source * pow(factor, -1, 1 << 64) & _MASK
    z = z - _GAMMA & _MASK
    return z >> 32, 8 * (z & 0xFFFFFFFF)


def patterned(
    geometry: ExpertGeometry, data: np.ndarray | None = None, absent: frozenset[int] = frozenset()
) -> HostArena:
    """Every expert of a geometry with its pattern.

    Parameters
    ----------
    geometry
        The sizes of the experts.
    data
        Memory to write into, uint8 [at least the sum of all blobs], page-locked say; None for new memory.
    absent
        Rows that the host shall not hold.
    """
    data = np.empty(total_bytes(geometry), np.uint8) if data is None else data
    at = 0
    for row in range(geometry.rows):
        size = geometry.blob(row)
        data[at : at + size] = pattern(row, size)
        at += size
    return HostArena(geometry, data, absent=absent)
