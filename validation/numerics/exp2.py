"""NumPy twin of include/exp2.cuh: the project's exp2, bit for bit.

It needs a fused multiply-add with one rounding, which NumPy does not have: the product of two
float32 is exact in float64, the sum is rounded to odd there, and then once to float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Coefficients of f^0 to f^6 as float32 bits; where they come from stands in include/exp2.cuh.
POLYNOMIAL = (0x3F800000, 0x3F317219, 0x3E75FDF4, 0x3D635719, 0x3C1D930F, 0x3AAFB9BB, 0x392385A4)
_MAGIC = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer
_NAN = np.uint32(0x7FFFFFFF)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once to nearest even, for finite operands whose result does not overflow.

    Parameters
    ----------
    a, b, c
        float32, of shapes that broadcast.

    Returns
    -------
    float32 array

    References
    ----------
    S. Boldo, G. Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd",
    IEEE Transactions on Computers 57 (4), 2008.
    """
    product, addend = np.broadcast_arrays(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)  # exact
    bits = np.ascontiguousarray(total).view(np.int64)
    # Round to odd: an inexact sum with an even last bit moves one step towards the exact value.
    even = (error != 0) & ((bits & 1) == 0)
    odd = np.where(even, bits + np.where((error > 0) == (total > 0), 1, -1), bits)
    return odd.view(np.float64).astype(np.float32)


def exp2(x: Array) -> Array:
    """2^x: below -126 +0, from 128 infinity, NaN 7fffffff.

    The largest error is 0.83 ulp.

    Parameters
    ----------
    x
        float32, of any shape.

    Returns
    -------
    float32 array
        Of the shape of x.
    """
    coefficients = np.array(POLYNOMIAL, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        inside = np.where((x >= np.float32(-126)) & (x < np.float32(128)), x, np.float32(0))
        t = inside + _MAGIC
        n = t.view(np.int32) - _MAGIC.view(np.int32)
        f = inside - (t - _MAGIC)
        r = np.full_like(f, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            r = fma32(r, f, coefficient)
        bits = (r.view(np.int32) + (n << 23)).view(np.uint32)
        bits = np.where(x < np.float32(-126), np.uint32(0), bits)
        bits = np.where(x >= np.float32(128), np.uint32(0x7F800000), bits)
    return np.where(np.isnan(x), _NAN, bits).view(np.float32)
