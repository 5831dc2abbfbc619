"""Random draws made of integer and exact operations only.

The generator is splitmix64 used as a counter: word `i` of a stream is a fixed mix of the stream's
key and `i`, in 64-bit unsigned arithmetic. Nothing here calls libm or NumPy's random module, so a
seed gives the same bytes on every machine and with every NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3

#: `normals` sums this many uniform fields of this many bits: 3 * 21 = 63 bits of one word. With
#: three fields the variance is exactly one when the sum is scaled by 2**-20 (3 * 2**42 / 12 = 2**40).
_FIELDS = 3
_FIELD_BITS = 21
NORMAL_BITS = 20

Shape = int | Sequence[int]
Words = np.ndarray[Any, np.dtype[np.uint64]]


def _mix(value: int) -> int:
    """The splitmix64 finaliser on a Python integer."""
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


def _shape(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


@dataclass(frozen=True)
class Stream:
    """A stream of 64-bit words, a pure function of its key."""

    key: int

    @staticmethod
    def of(seed: int, *names: str | int) -> Stream:
        """The stream of a seed and a path of names. Different names give unrelated streams."""
        key = _mix((seed + _GOLDEN) & _MASK)
        for name in names:
            digest = _FNV_BASIS
            for byte in repr(name).encode():
                digest = ((digest ^ byte) * _FNV_PRIME) & _MASK
            key = _mix((key * _MIX_1 + digest) & _MASK)
        return Stream(key)

    def child(self, *names: str | int) -> Stream:
        """The stream of this one's key and more names."""
        return Stream.of(self.key, *names)

    def words(self, shape: Shape) -> Words:
        """uint64 array of `shape`; element `i` in C order is word `i` of the stream."""
        shape = _shape(shape)
        z = np.arange(1, prod(shape) + 1, dtype=np.uint64)
        z *= np.uint64(_GOLDEN)
        z += np.uint64(self.key)
        z ^= z >> np.uint64(30)
        z *= np.uint64(_MIX_1)
        z ^= z >> np.uint64(27)
        z *= np.uint64(_MIX_2)
        z ^= z >> np.uint64(31)
        return z.reshape(shape)

    def below(self, bound: int, shape: Shape) -> np.ndarray:
        """int64 array of `shape`, each element in 0..bound-1 (bound at most 2**31).

        Multiply and shift: no element's probability is off by more than 2**-32.
        """
        if not 0 < bound <= 1 << 31:
            raise ValueError(f"bound is {bound}, expected 1..2**31")
        high = self.words(shape) >> np.uint64(32)
        return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def octets(self, shape: Shape) -> np.ndarray:
        """uint8 array of `shape`, every value equally likely."""
        shape = _shape(shape)
        size = prod(shape)
        raw = self.words(-(-size // 8)).astype("<u8", copy=False).view(np.uint8)
        return raw[:size].reshape(shape)

    def normal_ints(self, shape: Shape) -> np.ndarray:
        """int64 array of `shape`: bell-shaped integers of mean about 0 and deviation 2**NORMAL_BITS.

        The sum of three uniform fields (Irwin-Hall), so |value| <= 3 * 2**NORMAL_BITS < 2**22.
        """
        words = self.words(shape)
        field = np.uint64((1 << _FIELD_BITS) - 1)
        total = (words & field).astype(np.int64)
        for index in range(1, _FIELDS):
            total += ((words >> np.uint64(index * _FIELD_BITS)) & field).astype(np.int64)
        total -= _FIELDS << (_FIELD_BITS - 1)
        return total

    def normals(self, shape: Shape, exponent: int = 0) -> np.ndarray:
        """float32 array of `shape`: `normal_ints` scaled to deviation 2**exponent.

        Exact while the result is a normal float32 (22 significant bits); a smaller one is rounded
        to nearest even once.
        """
        return scaled(self.normal_ints(shape), exponent - NORMAL_BITS)

    def permutation(self, count: int) -> np.ndarray:
        """int64 array: a permutation of 0..count-1 (the order of `count` words; ties by index)."""
        return np.argsort(self.words(count), kind="stable").astype(np.int64)


def power_of_two(exponent: int) -> float:
    """2.0**exponent as an exact double, for exponents of normal doubles."""
    if not -1022 <= exponent <= 1023:
        raise ValueError(f"exponent is {exponent}, expected -1022..1023")
    return float.fromhex(f"0x1p{exponent}")


def scaled(integers: np.ndarray, exponent: int) -> np.ndarray:
    """float32 array `integers * 2**exponent` for integers below 2**24 in magnitude.

    The product is formed exactly in float64 and converted once.
    """
    return (integers.astype(np.float64) * power_of_two(exponent)).astype(np.float32)
