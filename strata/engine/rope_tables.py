"""Cosines and sines of rotary position embedding: real numbers, each rounded once to FP32.

Entry [p, i] is the cosine, or the sine, of the angle p base^(-i/half), `base` being exactly the float that is given.
The FP32 nearest to a real number is one number, so the tables are the same bytes on every machine, whatever computes
them.

How. With p = L m + j an angle is the sum of two, and so

    cos = c1 c2 - s1 s2,    sin = s1 c2 + c1 s2

with c1, s1 of L m and c2, s2 of j. These factors are powers of one number in fixed point, made by Python's integers
and rounded once to FP64; then FP64 gives a value and an error E that it cannot exceed. Where value - E and value + E
round to one FP32, so does the truth between them. Where they do not, mpmath decides.

The bound. u = 2^-53 and M = |c1 c2| + |s1 s2|, or |s1 c2| + |c1 s2|, as FP64 computes it. Each factor's rounding is at
most u of it, each product's u more, and the sum's u of the result, which is no larger than M: 4 u M to first order.
The computed M is at least (1 - 4 u) times the true one, and value - E and value + E are rounded once more, by
u (M + E): with all terms of higher order less than 6 u M, and E has 8 u M. Fixed point adds an error of its own,
whatever the size of a factor: in units of 2^-`FRACTION` power n is off by at most 4 n (the step by 2, a product's
floors by 2), the step from one m to the next therefore by 4 L, and c1, s1 by 4 L (m + 1), below 2^35 for positions up
to 2^31; so both products together by less than 2^-200, which E has besides. Nothing underflows in FP64: a factor is 0
or at least 2^-`FRACTION`.

No entry but those of position 0, which are 1 and 0, is an FP32 or half way between two: the angle is an algebraic
number other than 0, so its cosine and sine are transcendental (Lindemann). So mpmath, asked with more and more digits,
comes to an end.

References
----------
A. Ziv, Fast evaluation of elementary mathematical functions with correctly rounded last bit, ACM Transactions on
Mathematical Software 17 (1991), 410-423: rounding both ends, and more digits where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import mpmath
import numpy as np

from strata.executors.base import StrataError

#: Bits behind the point of the factors' fixed point.
FRACTION = 256
_ONE = 1 << FRACTION
#: E is this much of M, and this.
_ERROR, _FIXED = 8 * 2.0**-53, 2.0**-200
#: Bits of mpmath beyond those of a result: angles have up to 31 before the point.
_SPARE = 64
#: The largest base, and positions of int32.
_MOST_BASE, _MOST_POSITIONS = 2.0**128, 1 << 31


class Tables(NamedTuple):
    """Cosines and sines.

    Parameters
    ----------
    cos, sin
        float32 [positions, half].
    """

    cos: np.ndarray
    sin: np.ndarray


def tables(base: float, half: int, positions: range | int) -> Tables:
    """The tables of some positions.

    Parameters
    ----------
    base
        The base of the angles, 1 to 2^128: pair i of a head turns by base^(-i/half) from one position to the next.
    half
        Pairs of a head.
    positions
        A range of positions in steps of 1, or how many from 0 on.

    Returns
    -------
    Tables
        Row r is of position positions[r].

    Raises
    ------
    StrataError
        For a base, a number of pairs or positions that do not fit.
    """
    base, asked = _checked_base(base), _checked(half, positions)
    out = Tables(*(np.empty((len(asked), half), np.float32) for _ in range(2)))
    if not asked:
        return out
    length = 1 << ((len(asked) - 1).bit_length() // 2)
    turns = range(asked.start // length, (asked.stop - 1) // length + 1)
    coarse, fine = _factors(base, half, length, turns)
    for turn, c1, s1 in zip(turns, *coarse, strict=True):
        first = turn * length
        here = range(max(first, asked.start), min(first + length, asked.stop))
        c2, s2 = (part[here.start - first : here.stop - first] for part in fine)
        rows = slice(here.start - asked.start, here.stop - asked.start)
        for table, sine, one, other in ((out.cos, False, c1 * c2, -(s1 * s2)), (out.sin, True, s1 * c2, c1 * s2)):
            for row, pair in _round(one, other, table[rows]):
                table[rows][row, pair] = decide(base, half, here[row], pair, sine)
    return out


def decide(base: float, half: int, position: int, pair: int, sine: bool) -> np.float32:
    """One entry by mpmath alone, with as many digits as it takes.

    Parameters
    ----------
    base, half
        See `tables`.
    position, pair
        Which entry.
    sine
        Whether of the sines.
    """
    if position == 0:
        return np.float32(0 if sine else 1)
    bits = 128
    while True:
        context = _context(bits + _SPARE)
        angle = position * _angle(context, base, half, pair)
        value = context.sin(angle) if sine else context.cos(angle)
        error = context.ldexp(1, -bits)
        low, high = (_nearest(context, value + of) for of in (-error, error))
        if low.tobytes() == high.tobytes():
            return low
        bits *= 2


def _round(one: np.ndarray, other: np.ndarray, out: np.ndarray) -> Iterator[tuple[int, int]]:
    """Write the FP32 nearest to one + other, and give the places of those that the bound does not decide."""
    value = one + other
    error = (np.abs(one) + np.abs(other)) * _ERROR + _FIXED
    with np.errstate(under="ignore"):
        out[...] = value - error
        above = (value + error).astype(np.float32)
    open_ = np.argwhere(out.view(np.uint32) != above.view(np.uint32))
    return ((int(row), int(pair)) for row, pair in open_)


def _factors(base: float, half: int, length: int, turns: range) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Cosines and sines, float64 [positions, half]: of length * turn for all turns, and of 0 to length - 1."""
    coarse, fine = ([np.empty((count, half)) for _ in range(2)] for count in (len(turns), length))
    context = _context(FRACTION + _SPARE)
    for pair in range(half):
        angle = _angle(context, base, half, pair)
        step = _fixed(context, angle)
        *powers, stride = _powers((_ONE, 0), step, length + 1)
        start = _fixed(context, turns.start * length * angle)
        for parts, made in ((fine, powers), (coarse, _powers(start, stride, len(turns)))):
            for part, column in zip(parts, zip(*made, strict=True), strict=True):
                part[:, pair] = [fixed / _ONE for fixed in column]
    return coarse, fine


def _powers(start: tuple[int, int], step: tuple[int, int], count: int) -> Iterator[tuple[int, int]]:
    """start, start * step, start * step^2 ... as complex numbers of fixed point."""
    (x, y), (a, b) = start, step
    for _ in range(count):
        yield x, y
        x, y = (x * a - y * b) >> FRACTION, (x * b + y * a) >> FRACTION


@cache
def _context(bits: int) -> Any:
    """mpmath of so many bits, apart from the one that a caller may have set. To make one takes milliseconds."""
    context = mpmath.MPContext()
    context.prec = bits
    return context


def _angle(context: Any, base: float, half: int, pair: int) -> Any:
    """base^(-pair/half)."""
    return context.power(context.mpf(base), -context.mpf(pair) / half)


def _fixed(context: Any, angle: Any) -> tuple[int, int]:
    """Cosine and sine in fixed point."""
    cos, sin = context.cos_sin(angle)
    return int(context.nint(context.ldexp(cos, FRACTION))), int(context.nint(context.ldexp(sin, FRACTION)))


def _nearest(context: Any, value: Any) -> np.float32:
    """The FP32 nearest to a number whose size is at most about 1."""
    _, exponent = context.frexp(value)
    last = max(int(exponent) - 24, -149)  # of the last bit, from the smallest subnormal on
    return np.float32(math.ldexp(int(context.nint(context.ldexp(value, -last))), last))


def _checked_base(base: float) -> float:
    known = not isinstance(base, bool) and isinstance(base, float | int | np.floating)
    if not known or not 1 <= (float(base) if isinstance(base, np.floating) else base) <= _MOST_BASE:
        raise StrataError(f"a base of {base!r}, expected 1 to 2^128")
    return float(base)


def _checked(half: int, positions: range | int) -> range:
    if isinstance(half, bool) or not isinstance(half, int | np.integer) or half < 1:
        raise StrataError(f"{half!r} pairs of a head, expected a whole number from 1 on")
    asked = positions if isinstance(positions, range) else _count(positions)
    if asked.step != 1 or asked.start < 0 or asked.stop > _MOST_POSITIONS:
        raise StrataError(f"positions {positions!r}, expected a range in steps of 1 between 0 and {_MOST_POSITIONS}")
    return asked


def _count(positions: object) -> range:
    if isinstance(positions, bool) or not isinstance(positions, int | np.integer) or positions < 0:
        raise StrataError(f"{positions!r} positions, expected a range or a whole number from 0 on")
    return range(int(positions))
