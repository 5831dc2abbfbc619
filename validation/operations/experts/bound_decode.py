"""How far the decode-width kernel may be from FP64 on its own codes, per element (U = 2**-24).

Its integer sums are exact, truncation included, so FP64 forms the same ones. A group's term is `fl(d d_x) sum`, off
by U of itself; each of 32 lanes adds its groups by fma, off by U of every partial sum; then 31 additions, off by U of
each result. All to first order, raised by CROSS, with the floor of `bounds.experts` for what is subnormal.

Scales of codes are binary16: the ends of their interval are rounded to it, which keeps their order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from validation.numerics.fma import Array
from validation.numerics.roundoff import U
from validation.operations.experts import bound as experts
from validation.operations.experts.bound import CROSS, SUBNORMAL, UNIT, Allowed, Bounded
from validation.operations.experts.reference import Codes
from validation.operations.experts.reference_decode import Matrix, scaled_dots

_LANES = 32
#: The largest scaled dot in size: 2**19 of dots times 2**5 of scales.
_SUM = 2.0**24


def product(w: Matrix, x: Codes) -> Bounded:
    """The product of quantised rows with a matrix, its integer truncation as the kernel has it.

    Parameters
    ----------
    w
        The matrix.
    x
        Codes of the rows.

    Returns
    -------
    Bounded
        [rows, rows of w].
    """
    sums = scaled_dots(w, x).astype(np.float64)
    scales = x.scale.astype(np.float64)
    lanes = np.zeros((_LANES, len(x.q), len(w.q)))
    rounding, size = np.zeros_like(lanes[0]), np.zeros_like(lanes[0])
    for block in range(len(sums)):
        term = w.d[None, :, block].astype(np.float64) * scales[:, block, None] * sums[block]
        lanes[block % _LANES] += term
        rounding += np.abs(term) + np.abs(lanes[block % _LANES])
        size += np.abs(term)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
        rounding += np.abs(lanes).sum(axis=0)
    floor = 2 * (len(sums) + _LANES) * SUBNORMAL * _SUM
    bound = CROSS * U * rounding + (len(sums) + _LANES + 4) * UNIT * size + floor
    return Bounded(lanes[0], np.where(size == 0, 0.0, bound))


def codes(h: Bounded) -> Allowed:
    """What h may be quantised to, with scales of binary16.

    Parameters
    ----------
    h
        The values of h [rows, k] and how far they may be off; k is a multiple of 32.
    """
    allowed = experts.codes(h)
    return replace(allowed, scale_low=_half(allowed.scale_low), scale_high=_half(allowed.scale_high))


def _half(x: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.float32(x).astype(np.float16).astype(np.float64))
