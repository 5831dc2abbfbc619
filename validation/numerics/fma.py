"""float32 a * b + c rounded once, which NumPy does not have, made of float64.

In float64 the product is exact and the sum rounded once; a second rounding to float32 goes wrong only where that sum
lies half way between two float32, or among the subnormals, where the grid is another: those are done by `fma32`.
Sums of many terms keep their memory from term to term: fresh memory for each takes longer than the arithmetic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from validation.numerics.exp2 import fma32

Array = np.ndarray[Any, Any]

#: The bits that a computed NaN has on a card.
NAN = np.uint32(0x7FFFFFFF)
#: Of a float64 half way between two float32 the low 29 bits are 1 and then zeros; moved to the top they are this.
_HALF_WAY = np.iinfo(np.int64).min
_TO_THE_TOP = 64 - 29
_SMALLEST_NORMAL = 2.0**-126
#: Exponent of the smallest float32, and of the last bit of a float32 whose exponent field is 0.
_SMALLEST = -149
_FIELD, _FRACTION = 23, -150
_MANTISSA = np.uint32((1 << _FIELD) - 1)
#: Bits of a float64.
_FLOAT64 = 53


def canonical(x: Array) -> Array:
    """A copy whose every NaN has the bits that arithmetic gives it on a card, 7fffffff. It is float32 as `x` is."""
    return np.where(np.isnan(x), NAN.view(np.float32), x)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once to nearest even, with infinities and NaN (7fffffff).

    Parameters
    ----------
    a, b, c
        float32, of shapes that broadcast.

    Returns
    -------
    float32 array
    """
    out = np.empty(np.broadcast_shapes(a.shape, b.shape, c.shape), np.float32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        Fma(out.shape)(a, b, c, out)
        return canonical(out)


class Fma:
    """fma of float32 arrays that broadcast to one shape, or to fewer of its first rows, in memory of its own.

    Which NaN a NaN is, is not defined. Underflow, overflow and NaN make NumPy warn, unless the caller ignores that.

    Parameters
    ----------
    shape
        The shape of the results.
    gridded
        Whether every product and every addend is known to be a multiple of 2**-149, so that a sum below the normal
        range is exact and not looked for.
    exact
        Whether every sum is known to be exact in float64 besides, so that nothing is looked for.
    """

    def __init__(self, shape: tuple[int, ...], gridded: bool = False, exact: bool = False) -> None:
        self._total, self._low = np.empty(shape), np.empty(shape, np.int64)
        self._gridded, self._exact = gridded, exact

    def __call__(self, a: Array, b: Array, c: Array, out: Array) -> None:
        """out = a * b + c; `out` may be one of them."""
        total, low = self._total[: len(out)], self._low[: len(out)]
        np.multiply(a, b, out=total, dtype=np.float64)
        np.add(total, c, out=total)
        if self._exact:
            np.copyto(out, total, casting="same_kind")
            return
        np.left_shift(total.view(np.int64), _TO_THE_TOP, out=low)
        doubtful = low == _HALF_WAY if low.size and low.min() == _HALF_WAY else None
        if not self._gridded:
            small = (np.abs(total) < _SMALLEST_NORMAL) & (total != 0)
            doubtful = small if doubtful is None else doubtful | small
        fixed = None
        if doubtful is not None:
            a, b, c = np.broadcast_arrays(a, b, c)
            fixed = fma32(a[doubtful], b[doubtful], c[doubtful])
        np.copyto(out, total, casting="same_kind")
        if fixed is not None:
            out[doubtful] = fixed


class Units(NamedTuple):
    """The range of some float32.

    Parameters
    ----------
    last
        The largest number for which all are multiples of 2**last.
    size
        The smallest number for which all are below 2**size.
    """

    last: int
    size: int


def units(x: Array) -> Units:
    """The range of the finite ones of `x`, float32; of zeros alone, that of the smallest float32."""
    bits = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0x7FFFFFFF)
    live = bits[(bits != 0) & (bits < np.uint32(0x7F800000))]
    if not live.size:
        return Units(_SMALLEST, _SMALLEST + 1)
    field = np.maximum(live >> _FIELD, 1).astype(np.int64)
    whole = np.where(live >> _FIELD, live & _MANTISSA | _MANTISSA + 1, live).astype(np.int64)
    last = np.bitwise_count((whole & -whole) - 1)  # zeros below the last bit
    return Units(int((field + last).min()) + _FRACTION, int(field.max()) + _FRACTION + _FIELD + 1)


def gridded(x: Units, y: Units) -> bool:
    """Whether products of finite multiples of two numbers by integers are multiples of 2**-149.

    Parameters
    ----------
    x, y
        The range of each.
    """
    return x.last + y.last >= _SMALLEST


def exact(x: Units, most: int) -> bool:
    """Whether sums of finite numbers times integers are exact in float64.

    Parameters
    ----------
    x
        The range of the numbers.
    most
        What the integers of a sum add up to in size.
    """
    return x.size + most.bit_length() - x.last <= _FLOAT64


def plain(x: np.ndarray) -> np.ndarray:
    """A copy whose NaN all have the bits 7fffffff: the host's arithmetic makes others than a card's, and which NaN it
    is says nothing."""
    out = np.array(x)
    out[np.isnan(out)] = NAN.view(np.float32)
    return out
