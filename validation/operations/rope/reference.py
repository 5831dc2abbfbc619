"""What rope must give: FP64 from the mathematics, and the very bits of FP32.

FP64 takes the angles themselves where the tables are said to hold their cosines and sines, by mpmath and not from the
tables; and the tables as they are where they are any numbers.
"""

from __future__ import annotations

import mpmath
import numpy as np

from validation.numerics.fma import fma

#: Bits of mpmath: angles have up to 31 before the point.
_BITS = 128


def angles(positions: np.ndarray, half: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the angles position * base^(-i/half), each the float64 nearest.

    Parameters
    ----------
    positions
        Integers [T].
    half, base
        Pairs of a head, and the base of the angles.

    Returns
    -------
    float64 arrays [T, half]
    """
    cos, sin = np.empty((len(positions), half)), np.empty((len(positions), half))
    known: dict[int, int] = {}
    with mpmath.workprec(_BITS):
        rates = [mpmath.mpf(base) ** (mpmath.mpf(-i) / half) for i in range(half)]
        for row, at in enumerate(map(int, positions)):
            if at in known:
                cos[row], sin[row] = cos[known[at]], sin[known[at]]
                continue
            known[at] = row
            for i, rate in enumerate(rates):
                cos[row, i], sin[row, i] = (float(value) for value in mpmath.cos_sin(at * rate))
    return cos, sin


def turn(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Every pair of dims i and i + d/2 turned, in FP64.

    Parameters
    ----------
    x
        float32 [T, heads, d].
    cos, sin
        [T, d/2], of each row's position.

    Returns
    -------
    float64 array [T, heads, d]
    """
    low, high = np.split(x.astype(np.float64), 2, axis=-1)
    c, s = (table.astype(np.float64)[:, None] for table in (cos, sin))
    return np.concatenate([low * c - high * s, high * c + low * s], axis=-1)


def turn_bits(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """The same bit for bit, by the formulas of strata/kernels/rope.py.

    NaN and infinities stay what they come to, and which NaN it is says nothing.

    Parameters
    ----------
    x
        float32 [T, heads, d].
    cos, sin
        float32 [T, d/2].

    Returns
    -------
    float32 array [T, heads, d]
    """
    low, high = np.split(x, 2, axis=-1)
    c, s = cos[:, None], sin[:, None]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.concatenate([fma(low, c, -(high * s)), fma(high, c, low * s)], axis=-1)
