"""How far an expert kernel may be from FP64, step by step, per element (U = 2**-24, one float32 rounding).

Product. Over blocks b let t[b] be the exact term (scales, activation scale and integer dot) and S[b] = t[0] + .. +
t[b]. With one scale for 32 values `fl(d_w dot)` is off by U of itself and the fma by U of its sum; dots are exact. So
the errors of all blocks add up to

    |acc - S| <= U (sum |t[b]| + sum |S[b]|)                            one scale for 32 values
    |acc - S| <= U (sum |d_x d_0 dot_0| + sum |t[b]| + sum |S[b]|)      one for 16: a product and two fma

to first order; CROSS makes up for the products of errors (80 blocks of 3 roundings are below 2**-15). Below 2**-126 a
rounding is off by at most 2**-150 of its own, which a scale of x (at most max |x|) may multiply, or, in a kernel that
rounds the product of the scales, a dot (at most 2**19). S is FP64 and itself off by
at most (k + 4) 2**-53 of the sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).

SwiGLU. With c = fl(-log2 e), y = fl(gate c) is off by 2 U of itself, so 2**y by 2 U |gate|, and exp2 by 2 U more
(0.83 ulp). Let s = e / (1 + e), the share of e in 1 + e: the quotient is off by s (2 |gate| + 2) U + 2 U, the product
by U more. exp2 gives 0 below 2**-126 and infinity from 2**128 on, where the quotient becomes a zero: there the error
is the value itself, of at most 2**-120 |up|.

Codes of h. With h in [h - E, h + E], amax of a block lies in the interval of its elements' magnitudes; inv and v * inv
are rounded, 2 U together. So v * inv lies in an interval, whose ends round to two codes. A kernel's code must be one
of those or between them: where no tie lies in the interval they are equal, and a code that is one off is wrong. The
scale is off by U besides (amax / 127) or by 2 U (1 / inv).

Whole path. From the rounded model, which takes h unrounded, a code may also differ where a tie lies in the interval
of all errors before it: h is off by |dh/dgate| <= 1.1 |up| times the error of gate, and |silu| times that of up. The
largest differences of what codes stand for, times |W_down|, and the product's own error add up.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.numerics.fma import Array
from validation.numerics.roundoff import U
from validation.operations.experts.reference import BLOCK, LARGEST, Codes, Weights, slabs, swiglu64

#: Unit roundoff of FP64.
UNIT = 2.0**-53
#: Products of two errors, each below 2**-9 of the first-order sums.
CROSS = 1 + 2.0**-9
#: A rounding below the normal range.
SUBNORMAL = 2.0**-150
#: The largest dot of 32 products of int8 codes, and their largest magnitude.
_DOT = 2.0**19
#: |d silu / d gate| at most: 1.0998 near gate = 2.4.
_SLOPE = 1.1
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
#: Below this amax the reciprocal 127 / amax is infinite and a block counts as zeros.
_TINY = LARGEST / _LARGEST_FLOAT


@dataclass(frozen=True)
class Bounded:
    """A result, and how far a kernel may be from it.

    Parameters
    ----------
    value
        float64.
    bound
        float64 of that shape.
    """

    value: Array
    bound: Array


def product(w: Weights, x: Array) -> Bounded:
    """The product of activations with weights.

    Parameters
    ----------
    w
        The matrix.
    x
        float64 [rows, k], what codes stand for.

    Returns
    -------
    Bounded
        [rows, rows of w].
    """
    each = w.per_block
    values = w.exact.reshape(len(w.q), -1, BLOCK // each).transpose(1, 2, 0)
    left = x.reshape(len(x), -1, BLOCK // each).transpose(1, 0, 2)
    total, rounding = np.zeros((len(x), len(w.q))), np.zeros((len(x), len(w.q)))
    with np.errstate(invalid="ignore"):  # a kernel whose own codes are not finite has no value to be near
        for part in slabs(x.shape[1] // BLOCK, total.size):
            own = slice(each * part.start, each * part.stop)
            parts = left[own] @ values[own]
            terms = parts if each == 1 else parts[::2] + parts[1::2]
            sizes = np.abs(terms)
            for term in terms:  # becomes the sum up to it
                total += term
                term[...] = total
            sizes += np.abs(terms)
            firsts = np.abs(parts[::2]) if each > 1 else ()
            for block, one in enumerate(sizes):
                if each > 1:
                    rounding += firsts[block]
                rounding += one
        size = np.abs(x) @ w.sizes.T
    scale = np.abs(x).max(axis=1, initial=0.0)[:, None]
    blocks = x.shape[1] // BLOCK
    floor = 3 * blocks * SUBNORMAL * (_DOT + scale)
    bound = CROSS * U * rounding + (x.shape[1] + 4) * UNIT * size + floor
    return Bounded(total, np.where(size == 0, 0.0, bound))  # sums of zeros are exact


def swiglu(gate: Array, up: Array) -> Bounded:
    """SwiGLU of gate and up.

    Parameters
    ----------
    gate, up
        float64 of one shape, that float32 kernels were given exactly.
    """
    value = swiglu64(gate, up)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        e = np.exp(-gate)
        share = np.where(np.isinf(e), 1.0, e / (1 + e))
    relative = CROSS * (share * (2 * np.abs(gate) + 2) + 3) * U + 2.0**-125
    beyond = -gate * np.log2(np.e) >= 128 * (1 - 4 * U)
    relative = np.where(beyond, relative + 1, relative) + 2.0**-48  # np.exp in FP64
    floor = np.where((gate == 0) | (up == 0), 0.0, 2 * SUBNORMAL * (np.abs(up) + 1))  # zeros are exact
    return Bounded(value, relative * np.abs(value) + floor)


def hidden(gate: Bounded, up: Bounded) -> Bounded:
    """SwiGLU of gates and ups that are themselves in error.

    Parameters
    ----------
    gate, up
        Values and how far they may be off, of one shape.
    """
    own = swiglu(gate.value, up.value)
    with np.errstate(over="ignore", under="ignore"):
        silu = np.abs(gate.value / (1 + np.exp(-gate.value)))
    size = np.abs(up.value) + up.bound
    # Beside the range of exp2 a gate may be on either side of it: the value there is below 2**-120 |up|.
    edge = (-gate.value + gate.bound) * np.log2(np.e) >= 127
    more = _SLOPE * gate.bound * size + silu * up.bound + np.where(edge, 2.0**-120 * size, 0.0)
    # What is rounded is the kernel's own value, and its relative error counts of that: CROSS.
    return Bounded(own.value, (own.bound + more) * CROSS)


@dataclass(frozen=True)
class Allowed:
    """Codes and scales that quantising may give.

    Parameters
    ----------
    low, high
        int64 [rows, k].
    nearest
        int64 [rows, k], the code of the value itself.
    scale_low, scale_high
        float64 [rows, k / 32].
    """

    low: Array
    high: Array
    nearest: Array
    scale_low: Array
    scale_high: Array

    @property
    def ties(self) -> int:
        """Codes of which two are allowed."""
        return int((self.low != self.high).sum())

    def wrong(self, codes: Codes) -> Array:
        """bool [rows, k]: codes outside of what is allowed."""
        return np.asarray((codes.q < self.low) | (codes.q > self.high))

    def wrong_scales(self, codes: Codes) -> Array:
        """bool [rows, k / 32]; a NaN is wrong."""
        return np.asarray(~((codes.scale >= self.scale_low) & (codes.scale <= self.scale_high)))


def codes(h: Bounded) -> Allowed:
    """What h may be quantised to.

    Parameters
    ----------
    h
        The values of h [rows, k] and how far they may be off; k is a multiple of 32.
    """
    shape = (len(h.value), -1, BLOCK)
    value, bound = h.value.reshape(shape), h.bound.reshape(shape)
    size = np.abs(value)
    amax_low = np.maximum(size - bound, 0).max(axis=-1, keepdims=True)
    amax_high = (size + bound).max(axis=-1, keepdims=True)
    sure = amax_low > _TINY * (1 + 2 * U)  # a finite reciprocal, whatever the errors
    safe = np.where(sure, amax_low, 1.0)
    ends = [value - bound, value + bound]
    about = 1 + 3 * U
    with np.errstate(over="ignore"):
        large = LARGEST / safe * about
        small = LARGEST / np.where(sure, amax_high, 1.0) / about
    low = np.where(ends[0] < 0, ends[0] * large, ends[0] * small)
    high = np.where(ends[1] < 0, ends[1] * small, ends[1] * large)
    whole = np.where(amax_high == 0, 0, LARGEST)  # nothing is known of a block below the errors of its values
    low = np.where(sure, np.clip(np.rint(low), -LARGEST, LARGEST), -whole)
    high = np.where(sure, np.clip(np.rint(high), -LARGEST, LARGEST), whole)
    amax = size.max(axis=-1, keepdims=True)
    nearest = np.rint(value * (LARGEST / np.where(amax == 0, 1.0, amax)))
    flat = h.value.shape
    scale_low = np.where(sure, amax_low / LARGEST / about - SUBNORMAL, 0.0)
    scale_high = amax_high / LARGEST * about + SUBNORMAL * (amax_high > 0)
    return Allowed(
        low.astype(np.int64).reshape(flat),
        high.astype(np.int64).reshape(flat),
        nearest.astype(np.int64).reshape(flat),
        scale_low[..., 0],
        scale_high[..., 0],
    )


def path(gate: Weights, up: Weights, down: Weights, x: Array) -> Bounded:
    """The rounded model of tokens, and how far a kernel may be from it.

    Parameters
    ----------
    gate, up, down
        The matrices.
    x
        float64 [rows, n], what the tokens' codes stand for.

    Returns
    -------
    Bounded
        [rows, n].
    """
    return rest(product(gate, x), product(up, x), down)


def rest(gate: Bounded, up: Bounded, down: Weights) -> Bounded:
    """What `path` makes of its gates and ups.

    Parameters
    ----------
    gate, up
        [rows, ff].
    down
        The matrix.

    Returns
    -------
    Bounded
        [rows, n].
    """
    h = hidden(gate, up)
    allowed = codes(h)
    amax = np.abs(h.value.reshape(len(h.value), -1, BLOCK)).max(axis=-1) / LARGEST
    middle = np.repeat(amax, BLOCK, axis=1) * allowed.nearest
    low, high = (np.repeat(side, BLOCK, axis=1) for side in (allowed.scale_low, allowed.scale_high))
    corners = [side * end for side in (low, high) for end in (allowed.low, allowed.high)]
    spread = np.max([np.abs(corner - middle) for corner in corners], axis=0)
    made = product(down, middle)
    return Bounded(made.value, made.bound * CROSS + spread @ down.sizes.T * CROSS)
