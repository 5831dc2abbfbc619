"""Rounding of fractions, which the tests of the reference share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def rounded(exact: Fraction) -> np.float32:
    """A fraction as float32, to nearest even, by integers alone."""
    size = abs(exact)
    if size == 0:
        return np.float32(0)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    step = max(exponent - 23, -149)
    scaled = size / Fraction(2) ** step
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    twice = 2 * rest
    whole += twice > scaled.denominator or (twice == scaled.denominator and whole % 2)
    value = Fraction(whole) * Fraction(2) ** step
    out = np.float32(np.inf) if value >= Fraction(2) ** 128 else np.float32(float(value))
    return np.float32(-out) if exact < 0 else out
