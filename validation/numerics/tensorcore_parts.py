"""Parts of the tensor-core model: reading floats as integers, cutting, rounding to float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

CANONICAL_NAN = 0x7FFFFFFF  # what a tensor core writes for any NaN
F32_INFINITY = 0x7F800000
SIGN = 0x80000000
NO_EXPONENT = -(1 << 20)  # of an addend that takes no part in choosing the largest


@dataclass(frozen=True)
class Decoded:
    """Floats as significand * 2^(exponent - fraction bits), all arrays of one shape.

    Parameters
    ----------
    significand, exponent
        int64; 0 and any exponent for infinities and NaN.
    negative, special, nan
        bool: signs, what is infinite or NaN, and what is NaN.
    """

    significand: Array
    exponent: Array
    negative: Array
    special: Array
    nan: Array

    @property
    def infinite(self) -> Array:
        """bool: what is infinite."""
        return self.special & ~self.nan

    @property
    def zero(self) -> Array:
        """bool: what is zero."""
        zero: Array = (self.significand == 0) & ~self.special
        return zero

    def at(self, index: Any) -> Decoded:
        """The same elements of every field."""
        return Decoded(
            self.significand[index], self.exponent[index], self.negative[index], self.special[index], self.nan[index]
        )


def bit_length(magnitude: Array) -> Array:
    """Bit lengths (int64) of integers from 0 to 2^53 - 1."""
    lengths: Array = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    return lengths


def decode(bits: Array, fraction_bits: int, exponent_bits: int, subnormals: str) -> Decoded:
    """Read IEEE floats from their bits.

    Parameters
    ----------
    bits
        Integers, of any shape.
    fraction_bits, exponent_bits
        Bits of a fraction and of an exponent in the format.
    subnormals
        `raw` keeps the least exponent, `norm` normalises the significand, `flush` makes them zero.

    Raises
    ------
    ValueError
        For another word.
    """
    b = bits.astype(np.int64)
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = b & ((1 << fraction_bits) - 1)
    field = (b >> fraction_bits) & ((1 << exponent_bits) - 1)
    negative = (b >> (fraction_bits + exponent_bits)) == 1
    special = field == (1 << exponent_bits) - 1
    subnormal = field == 0
    significand = np.where(subnormal, fraction, fraction | (1 << fraction_bits))
    exponent = np.where(subnormal, 1 - bias, field - bias)
    if subnormals == "flush":
        significand = np.where(subnormal, 0, significand)
    elif subnormals == "norm":
        up = np.where(subnormal & (significand != 0), fraction_bits + 1 - bit_length(significand), 0)
        significand = significand << up
        exponent = exponent - up
    elif subnormals != "raw":
        raise ValueError(f"{subnormals!r}: expected raw, norm or flush")
    significand = np.where(special, 0, significand)
    return Decoded(
        np.where(negative, -significand, significand), exponent, negative, special, special & (fraction != 0)
    )


def shift(value: Array, by: Array, cut: str) -> Array:
    """value * 2^by.

    What is shifted out to the left must not matter.

    Parameters
    ----------
    value
        int64.
    by
        Integers of at most 40; of negative ones `cut` says how.
    cut
        `trunc`, `floor` or `rne`.

    Returns
    -------
    int64 array

    Raises
    ------
    ValueError
        For another word.
    """
    left, right = np.clip(by, 0, 40), np.clip(-by, 0, 62)
    down: Array = (value << left) >> right
    if cut == "floor":
        return down
    magnitude: Array = np.abs(value) << left
    out: Array = magnitude >> right
    if cut == "rne":
        rest = magnitude & ((np.int64(1) << right) - 1)
        half = (np.int64(1) << right) >> 1
        out = out + ((right > 0) & ((rest > half) | ((rest == half) & ((out & 1) == 1))))
    elif cut != "trunc":
        raise ValueError(f"{cut!r}: expected trunc, floor or rne")
    return np.where(value < 0, -out, out)


def round_f32(total: Array, unit: Array, rounding: str) -> Array:
    """Bits of the float32 next to total * 2^unit.

    2^128 and more become infinity under every rounding, a zero +0.

    Parameters
    ----------
    total
        int64 below 2^53 in magnitude.
    unit
        Integers.
    rounding
        `rz`, `rne` or `floor`.

    Returns
    -------
    uint32 array

    Raises
    ------
    ValueError
        For another word.
    """
    magnitude = np.abs(total)
    leading = bit_length(magnitude) - 1 + unit
    quantum = np.maximum(leading, -126) - 23
    kept = shift(magnitude, unit - quantum, "rne" if rounding == "rne" else "trunc")
    if rounding == "floor":
        lost = shift(kept, quantum - unit, "trunc") != magnitude
        kept = kept + (lost & (total < 0))
    elif rounding not in ("rz", "rne"):
        raise ValueError(f"{rounding!r}: expected rz, rne or floor")
    # kept has 24 bits for normal numbers and fewer for subnormal ones; added to the exponent field
    # it gives both, and a carry moves on to the next exponent.
    bits = (np.maximum(quantum + 149, 0) << 23) + kept
    bits = np.where(magnitude == 0, 0, np.minimum(bits, F32_INFINITY))
    return np.where(total < 0, bits | SIGN, bits).astype(np.uint32)
