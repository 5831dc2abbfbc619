"""Dot products of a tensor core in exact rationals, one at a time: what the bit model is checked against.

Written from the rules and sharing no code with the model. `rounded` is the sum as real numbers,
rounded once to nearest even: the rule `exact` of lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from validation.numerics.tensorcore import Params

_INFINITY, _SIGN = 0x7F800000, 0x80000000


def half_value(bits: int) -> Fraction:
    """The value of a finite binary16."""
    return Fraction(_units(bits, 10, 31), 1 << 24)


def float_value(bits: int) -> Fraction:
    """The value of a finite binary32."""
    return Fraction(_units(bits, 23, 255), 1 << 149)


def exponent_of(value: Fraction) -> int:
    """floor(log2 |value|) of a number that is not zero."""
    value = abs(value)
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def cut(value: Fraction, mode: str) -> int:
    """An integer next to a number.

    Parameters
    ----------
    value
        The number.
    mode
        `trunc` and `rz` towards zero, `floor` down, `rne` nearest even.

    Raises
    ------
    ValueError
        For another mode.
    """
    down = value.numerator // value.denominator
    if mode == "floor":
        return down
    if mode == "rne":
        return round(value)
    if mode not in ("trunc", "rz"):
        raise ValueError(f"rounding mode is {mode!r}, expected trunc, rz, floor or rne")
    return down + 1 if value < 0 and down != value else down


def float_of(value: Fraction, mode: str) -> int:
    """binary32 bits of a rounded number; 2^128 and more become infinity, zero +0.

    Parameters
    ----------
    value
        The number.
    mode
        The rounding, see `cut`.

    Raises
    ------
    ValueError
        For another mode.
    """
    if value == 0:
        return 0
    unit = Fraction(2) ** (max(exponent_of(value), -126) - 23)
    size = abs(cut(value / unit, mode) * unit)
    if size == 0:
        return _SIGN if value < 0 else 0
    if size >= Fraction(2) ** 128:
        bits = _INFINITY
    elif size < Fraction(2) ** -126:
        bits = int(size * (1 << 149))
    else:
        e = exponent_of(size)
        bits = (e + 127) << 23 | (int(size / Fraction(2) ** (e - 23)) - (1 << 23))
    return bits | (_SIGN if value < 0 else 0)


def rounded(a: Iterable[int], b: Iterable[int], c: int) -> int:
    """binary32 bits of the exact a.b + c rounded once to nearest even.

    Parameters
    ----------
    a, b
        binary16 bits of finite numbers.
    c
        binary32 bits of a finite number.
    """
    # Whole multiples of 2^-149, because Fraction reduces at every step. Products are multiples of 2^-48.
    total = sum(_units(x, 10, 31) * _units(y, 10, 31) for x, y in zip(a, b, strict=True))
    total = (total << 101) + _units(c, 23, 255)
    magnitude = abs(total)
    drop = max(magnitude.bit_length() - 24, 0)
    kept, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
    half = 1 << drop >> 1
    kept += drop > 0 and (rest > half or (rest == half and kept & 1 == 1))
    bits = min((drop << 23) + kept, _INFINITY)
    return bits | (_SIGN if total < 0 else 0)


def _units(bits: int, fraction_bits: int, exponent_mask: int) -> int:
    """A finite float as a multiple of its format's smallest subnormal."""
    field, fraction = bits >> fraction_bits & exponent_mask, bits & ((1 << fraction_bits) - 1)
    value = fraction if field == 0 else (fraction + (1 << fraction_bits)) << (field - 1)
    return -value if bits > exponent_mask << fraction_bits else value


def dot(a: Sequence[int], b: Sequence[int], c: int, p: Params) -> int:
    """binary32 bits of a tensor core's a.b + c.

    Parameters
    ----------
    a, b
        binary16 bits of finite numbers.
    c
        binary32 bits of a finite number.
    p
        The hypothesis.
    """
    k, size = len(a), min(p.block, len(a))
    if p.order == "strided":
        steps = [list(range(i, k, k // size)) for i in range(k // size)]
    else:
        steps = [list(range(i, i + size)) for i in range(0, k, size)]
    for ks in reversed(steps) if p.order == "rev" else steps:
        c = _step([(a[i], b[i]) for i in ks], c, p)
        if c & 0x7FFFFFFF >= _INFINITY:
            return c
    return c


def _half_operand(bits: int, p: Params) -> tuple[Fraction, int]:
    """Value and exponent of a half as the hypothesis reads it."""
    value, field = half_value(bits), bits >> 10 & 31
    if field == 0 and p.sub_in == "flush":
        value = Fraction(0)
    if field == 0 and p.sub_in == "norm" and value:
        return value, exponent_of(value)
    return value, max(field, 1) - 15


def _step(pairs: Sequence[tuple[int, int]], c: int, p: Params) -> int:
    addends: list[tuple[Fraction, int]] = []  # value, and the exponent that counts for E
    all_minus = c == _SIGN
    for x, y in pairs:
        (vx, ex), (vy, ey) = _half_operand(x, p), _half_operand(y, p)
        value = vx * vy
        all_minus &= value == 0 and (x ^ y) >> 15 == 1
        if value or p.zero_exp == "count":
            addends.append((value, exponent_of(value) if p.prod_exp == "norm" and value else ex + ey))
    value, field = float_value(c), c >> 23 & 255
    if field == 0 and p.sub_in == "flush":
        value = Fraction(0)
    c_exponent = exponent_of(value) if p.sub_in == "norm" and value else max(field, 1) - 127
    own = [(value, c_exponent)] if value else []
    if p.c_join == "fused":
        total, _ = _sum(addends + own, p)
    else:
        inner, first = _sum(addends, p)
        total, _ = _sum(([(inner, first)] if inner else []) + own, p)
    if total == 0:
        return _SIGN if all_minus and p.neg_zero == "ieee" else 0
    return float_of(total, p.final)


def _sum(addends: Sequence[tuple[Fraction, int]], p: Params) -> tuple[Fraction, int]:
    """The sum of addends cut to multiples of 2^(E-F), and E."""
    if not addends:
        return Fraction(0), 0
    top = max(exponent for _, exponent in addends)
    unit = Fraction(2) ** (top - p.frac)
    return sum((cut(value / unit, p.align) * unit for value, _ in addends), Fraction(0)), top
