"""Operands for tensor-core matrix instructions: twelve families, and vectors made by hand.

Normal numbers alone tell block and F apart, but not the rules for zeros, subnormals, signs, overflow
and NaN. All bits come from a seed by integer operations, so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.core.random_streams import Stream

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tiles:
    """Operands of instructions m16n8k, as bits.

    Parameters
    ----------
    a
        uint16 [count, 16, k].
    b
        uint16 [count, k, 8].
    c
        uint32 [count, 16, 8].
    """

    a: Array
    b: Array
    c: Array


class _Draw:
    """Random floats as bits, from one stream; every call draws anew."""

    def __init__(self, stream: Stream, count: int, k: int) -> None:
        self._stream, self._calls = stream, 0
        self.count, self.k = count, k
        self.a_shape, self.b_shape, self.c_shape = (count, 16, k), (count, k, 8), (count, 16, 8)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """int64, low to high, both included."""
        self._calls += 1
        return self._stream.child(self._calls).below(high - low + 1, shape) + low

    def chance(self, percent: int, shape: tuple[int, ...]) -> Array:
        return self.integers(0, 99, shape) < percent

    def half(self, shape: tuple[int, ...], low: int, high: int) -> Array:
        """Normal halves with exponents low to high and random sign and fraction."""
        exponent = self.integers(low, high, shape) + 15
        return (self._sign(shape) << 15 | exponent << 10 | self.integers(0, 1023, shape)).astype(np.uint16)

    def float(self, shape: tuple[int, ...], low: int, high: int) -> Array:
        """Normal floats with exponents low to high and random sign and fraction."""
        exponent = self.integers(low, high, shape) + 127
        return (self._sign(shape) << 31 | exponent << 23 | self.integers(0, (1 << 23) - 1, shape)).astype(np.uint32)

    def normal_half(self, shape: tuple[int, ...]) -> Array:
        return self._normal(shape).astype(np.float16).view(np.uint16)

    def normal_float(self, shape: tuple[int, ...]) -> Array:
        return self._normal(shape).view(np.uint32)

    def _normal(self, shape: tuple[int, ...]) -> Array:
        self._calls += 1
        return self._stream.child(self._calls).normals(shape)

    def _sign(self, shape: tuple[int, ...]) -> Array:
        return self.integers(0, 1, shape)


def _normal(d: _Draw) -> Tiles:
    """What a matrix product sees."""
    return Tiles(d.normal_half(d.a_shape), d.normal_half(d.b_shape), d.normal_float(d.c_shape))


def _c0(d: _Draw) -> Tiles:
    """The first step of a matrix product: no accumulator yet."""
    return Tiles(d.normal_half(d.a_shape), d.normal_half(d.b_shape), np.zeros(d.c_shape, np.uint32))


def _wide(d: _Draw) -> Tiles:
    """All normal exponents."""
    return Tiles(d.half(d.a_shape, -14, 15), d.half(d.b_shape, -14, 15), d.float(d.c_shape, -40, 40))


def _window(d: _Draw) -> Tiles:
    """One large product a row; the other addends lie around the cut, F-4 to F+3 bits below it."""
    a, b = d.half(d.a_shape, -12, -6), d.half(d.b_shape, -7, -1)
    large = np.arange(d.k)[None, None, :] == d.integers(0, d.k - 1, (d.count, 1, 1))
    a = np.where(large, d.half(d.a_shape, 0, 4), a)
    b = np.where(large.swapaxes(1, 2), d.half(d.b_shape, 4, 9), b)
    return Tiles(a, b, d.float(d.c_shape, -14, 14))


def _cancel(d: _Draw) -> Tiles:
    """The second half of k takes away the first but for a residue in the last bits."""
    a, b = d.half(d.a_shape, -3, 3), d.half(d.b_shape, -3, 3)
    half = d.k // 2
    order = np.argsort(d.integers(0, 1 << 30, (half,)), kind="stable")
    a[:, :, half:] = a[:, :, :half][:, :, order] ^ np.uint16(0x8000)
    b[:, half:] = b[:, :half][:, order]
    residue = np.where(d.chance(10, b.shape), d.integers(0, 3, b.shape), 0).astype(np.uint16)
    return Tiles(a, b ^ residue, d.float(d.c_shape, -30, -2))


def _cancel_c(d: _Draw) -> Tiles:
    """The accumulator takes away the products but for its last bits."""
    a, b = d.normal_half(d.a_shape), d.normal_half(d.b_shape)
    # Halves as multiples of 2^-24: their products are integers, and so is the sum, exactly.
    units = [(x.view(np.float16).astype(np.float64) * 2.0**24).astype(np.int64) for x in (a, b)]
    c = (-(units[0] @ units[1])).astype(np.float32) * np.float32(2.0**-48)
    return Tiles(a, b, c.view(np.uint32) ^ d.integers(0, 7, c.shape).astype(np.uint32))


def _big_sig(d: _Draw) -> Tiles:
    """Products in [2, 4), whose raw exponent is one below their own, beside tiny ones."""
    a, b = (d.half(shape, -1, 1) | np.uint16(0x0300) for shape in (d.a_shape, d.b_shape))
    a = np.where(d.chance(50, d.a_shape), d.half(d.a_shape, -14, -11), a)
    return Tiles(a, b, d.float(d.c_shape, -26, -18))


def _subnormal(d: _Draw) -> Tiles:
    """Subnormal halves."""
    a = d.integers(0, 1023, d.a_shape) | d.integers(0, 1, d.a_shape) << 15
    return Tiles(a.astype(np.uint16), d.half(d.b_shape, -14, 15), d.float(d.c_shape, -50, -5))


def _zeros(d: _Draw) -> Tiles:
    """0 * huge beside tiny terms, and tiles of signed zeros only."""
    a, b = d.half(d.a_shape, -14, -10), d.half(d.b_shape, -14, 15)
    a = np.where(d.chance(70, d.a_shape), a & np.uint16(0x8000), a)
    c = d.float(d.c_shape, -50, -20)
    only = d.chance(15, (d.count, 1, 1))
    a = np.where(only, (d.integers(0, 1, (d.count, 16, 1)) << 15).astype(np.uint16), a)
    return Tiles(a, np.where(only, b & np.uint16(0x7FFF), b), np.where(only, c & np.uint32(0x80000000), c))


def _bits(d: _Draw) -> Tiles:
    """Any finite bits; some accumulators subnormal or zero."""
    a, b = (d.integers(0, 65535, shape).astype(np.uint16) for shape in (d.a_shape, d.b_shape))
    a, b = (np.where((x & 0x7C00) == 0x7C00, x & np.uint16(0x83FF), x) for x in (a, b))
    c = d.float(d.c_shape, -60, 60)
    return Tiles(a, b, np.where(d.chance(10, c.shape), c & np.uint32(0x807FFFFF), c))


def _huge_c(d: _Draw) -> Tiles:
    """Accumulators near overflow, or subnormal and just above; in some tiles every product is zero."""
    tiny = d.integers(0, (1 << 24) - 1, d.c_shape).astype(np.uint32)
    c = np.where(d.chance(50, d.c_shape), d.float(d.c_shape, 100, 127), tiny)
    a = np.where(d.chance(30, (d.count, 1, 1)), np.uint16(0), d.half(d.a_shape, -14, 15))
    return Tiles(a, d.half(d.b_shape, -14, 15), c)


_HALF_SPECIALS = (0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF, 0x0000, 0x8000, 0x7BFF, 0x0001)
_FLOAT_SPECIALS = (
    0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 1
)  # fmt: skip


def _special(d: _Draw) -> Tiles:
    """Infinities, NaN with payloads, the largest and the smallest, among any bits."""
    tiles = _bits(d)

    def strew(x: Array, values: tuple[int, ...], percent: int) -> Array:
        drawn = np.array(values, x.dtype)[d.integers(0, len(values) - 1, x.shape)]
        return np.where(d.chance(percent, x.shape), drawn, x)

    return Tiles(
        strew(tiles.a, _HALF_SPECIALS, 3), strew(tiles.b, _HALF_SPECIALS, 3), strew(tiles.c, _FLOAT_SPECIALS, 30)
    )


#: By name; all operands are finite but those of `special`.
FAMILIES: dict[str, Callable[[_Draw], Tiles]] = {
    "normal": _normal,
    "c0": _c0,
    "wide": _wide,
    "window": _window,
    "cancel": _cancel,
    "cancel_c": _cancel_c,
    "big_sig": _big_sig,
    "subnormal": _subnormal,
    "zeros": _zeros,
    "bits": _bits,
    "huge_c": _huge_c,
    "special": _special,
}
FINITE = tuple(name for name in FAMILIES if name != "special")


def tiles(family: str, count: int, k: int, seed: int) -> Tiles:
    """Operands of instructions m16n8k of one family.

    Parameters
    ----------
    family
        A key of `FAMILIES`.
    count
        How many instructions.
    k
        Products of an instruction.
    seed
        The seed of the random stream.
    """
    return FAMILIES[family](_Draw(Stream.of(seed, "tensorcore", family, k), count, k))
