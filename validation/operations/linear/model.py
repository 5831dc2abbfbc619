"""Every bit of a dense product, from its definition, in NumPy.

Of blocks, each operation rounded once to FP32:

- a row's groups of 32 values: amax the largest magnitude, `inverse = 127 / amax`, `code = rint(value * inverse)` to the
  nearest even, `d = amax / 127`. Where 127 / amax is infinite the group counts as zeros; where a value is not finite
  the codes are 0 and d is NaN, and the group counts as lost.
- for each output, from acc = +0 over the groups in order: `v = s dot`, of a format with two scales for 32 values
  `v = fma(s1, dot1, s0 dot0)`, of one with offsets (a value is scale * code - offset) `v = fma(-offset, sum, s dot)`;
  then `acc = fma(v, d, acc)`. The sum is that of the group's codes; dots and sums are exact integers.

Of FP16 numbers: lane l of 32 has the values 128 j + 4 l to 128 j + 4 l + 3, which it adds by fma in order from +0; then
lanes 16, 8, 4, 2 and 1 apart are added.

Dots are formed by a float32 matrix product, which is exact: every partial sum is an integer of at most
32 * 128 * 127 < 2**24.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.formats import FORMATS
from validation.numerics.fma import Array, Fma, Units, canonical, gridded, units
from validation.operations.experts.reference import Codes, columns, lines, quantise, slabs
from validation.operations.linear.formats import GROUP, HALVES

#: Lanes of a warp, and values of each in a turn.
_LANES, _EACH = 32, 4
#: Outputs and rows of FP16 at once.
_AT_ONCE = 1 << 14


class Matrix(NamedTuple):
    """A matrix of blocks in parts: a value is its scale times its code, less its offset.

    Parameters
    ----------
    codes
        int8 [outputs, width].
    scales
        float32 [outputs, width / 32 * (1 or 2)].
    offsets
        float32 [outputs, width / 32], None of formats without.
    """

    codes: Array
    scales: Array
    offsets: Array | None

    @property
    def each(self) -> int:
        """Scales of 32 values: 1 or 2."""
        return int(self.scales.shape[1] * GROUP // self.codes.shape[1])


def parts(mode: str, matrix: Array) -> Matrix:
    """A matrix in parts.

    Parameters
    ----------
    mode
        Of a format of blocks.
    matrix
        uint8 [outputs, row bytes].
    """
    form, outputs = FORMATS[mode], len(matrix)
    found = form.parts(matrix.reshape(outputs, -1, form.nbytes))
    offsets = None if found.offsets is None else found.offsets.reshape(outputs, -1)
    return Matrix(found.codes.reshape(outputs, -1), found.scales.reshape(outputs, -1), offsets)


def sums(codes: Codes) -> Array:
    """int32 [rows, width / 32]: the sums of the codes of groups."""
    return np.asarray(codes.q.reshape(len(codes.q), -1, GROUP).sum(axis=-1, dtype=np.int32))


def product(w: Matrix, x: Codes) -> Array:
    """The bits of the product of quantised rows with a matrix.

    Returns
    -------
    float32 array [rows, outputs]
    """
    each = w.each
    left, right = lines(x.q, GROUP // each), columns(w.codes, GROUP // each)
    scales, total = w.scales.T[:, None, :], sums(x).T[:, :, None].astype(np.float32)
    acc = np.zeros((len(x.q), len(w.codes)), np.float32)
    add = Fma(acc.shape, gridded(_units(w), units(x.scale)))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for part in slabs(x.scale.shape[1], acc.size):
            own = slice(each * part.start, each * part.stop)
            dot, scale = left[own] @ right[own], scales[own]
            v = dot[::each] * scale[::each]
            if each > 1:
                Fma(v.shape, True)(scale[1::each], dot[1::each], v, out=v)
            if w.offsets is not None:
                Fma(v.shape, True)(-w.offsets.T[part, None, :], total[part], v, out=v)
            for group, one in zip(range(part.start, part.stop), v, strict=True):
                add(one, x.scale[:, group, None], acc, out=acc)
        return canonical(acc)


def _units(w: Matrix) -> Units:
    """The range of all that a group's share is made of."""
    found = [units(one) for one in (w.scales, w.offsets) if one is not None]
    return Units(min(one.last for one in found), max(one.size for one in found))


def of_halves(w: Array, x: Array) -> Array:
    """The bits of the product of rows with a matrix of FP16 numbers.

    Parameters
    ----------
    w
        float32 [outputs, width].
    x
        float32 [rows, width].

    Returns
    -------
    float32 array [rows, outputs]
    """
    out = np.empty((len(x), len(w)), np.float32)
    step = max(_AT_ONCE // len(w), 1)
    for first in range(0, len(x), step):
        out[first : first + step] = _lanes(w, x[first : first + step])
    return out


def _lanes(w: Array, x: Array) -> Array:
    lane = np.zeros((_LANES, len(x), len(w)), np.float32)
    fma, width = Fma(lane.shape), w.shape[1]
    with np.errstate(all="ignore"):
        for first in range(0, width, _LANES * _EACH):
            here = slice(first, first + _LANES * _EACH)
            a, b = (
                np.ascontiguousarray(one[:, here].reshape(len(one), -1, _EACH).transpose(2, 1, 0)) for one in (x, w)
            )
            some = lane[: a.shape[1]]
            for place in range(_EACH):
                fma(a[place][:, :, None], b[place][:, None, :], some, out=some)
        while len(lane) > 1:
            half = len(lane) // 2
            lane = lane[:half] + lane[half:]
    return canonical(lane[0])


class Bits(NamedTuple):
    """What a run must give.

    Parameters
    ----------
    out
        float32 [rows, outputs].
    codes
        Of the rows, None where they are not quantised.
    """

    out: Array
    codes: Codes | None


def bits(mode: str, matrix: Array, x: Array) -> Bits:
    """Every bit of a case.

    Parameters
    ----------
    mode
        A format of blocks, or `f16`.
    matrix
        uint8 [outputs, row bytes], of FP16 uint16 [outputs, width].
    x
        float32 [rows, width].
    """
    if mode == HALVES:
        return Bits(of_halves(matrix.view(np.float16).astype(np.float32), x), None)
    codes = quantise(x)
    return Bits(product(parts(mode, matrix), codes), codes)
