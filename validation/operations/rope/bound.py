"""How far a turned dim may be from the exact one.

u = 2^-24. Of l c - h s the kernel computes fma(l, c, -fl(h s)): l c is rounded once, h s twice, and each rounding of
what lies below 2^-126 is off by half of 2^-149 instead. Where the tables are the rounded cosines and sines of angles,
each product has that rounding besides, so with t = 1 there and t = 0 where the tables are exact,

    |out' - out| <= ((1 + u)^(1 + t) - 1) |l c| + ((1 + u)^(2 + t) - 1) |h s| + 2^-149 + t (|l| + |h|) 2^-149

The last term is a table's own rounding below 2^-126, half of 2^-149 of either, doubled for what multiplies it. The
other half of a head has l and h in each other's places.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002, section 3.1.
"""

from __future__ import annotations

import numpy as np

from validation.numerics.roundoff import WIDENED, U

_SMALLEST = 2.0**-149


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, rounded: bool) -> np.ndarray:
    """The bound for every dim.

    Parameters
    ----------
    x
        float32 [T, heads, d].
    cos, sin
        [T, d/2], exact or of FP64.
    rounded
        Whether the kernel has them rounded to FP32.

    Returns
    -------
    float64 array [T, heads, d]
    """
    size = np.abs(x.astype(np.float64))
    low, high = np.split(size, 2, axis=-1)
    c, s = (np.abs(table.astype(np.float64))[:, None] for table in (cos, sin))
    once, twice = ((1 + U) ** (count + rounded) - 1 for count in (1, 2))
    flushed = _SMALLEST * (1 + rounded * (low + high))
    return np.concatenate(
        [once * low * c + twice * high * s + flushed, once * high * c + twice * low * s + flushed], axis=-1
    ) * WIDENED  # fmt: skip
