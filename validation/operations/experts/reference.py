"""What an expert computes, from the definition: exact bits, and FP64 on the same codes or on the activations.

One pair is a token x [n] and an expert of `ff` features: `gate = Wg x`, `up = Wu x`,
`h = gate / (1 + exp(-gate)) * up`, `y = Wd h`. A weight is `scale * q` with an int8 q and a scale for 32 or 16 values;
x and h are int8 codes with one scale for 32. The contract of the arithmetic, float32 throughout, with one rounding an
operation:

- quantise 32 values: `amax` the largest magnitude, `inv = 127 / amax`, `code = rint(v * inv)`, ties to even,
  `d = amax / 127`. Where 127 / amax is infinite the block counts as zeros; where a value is not finite the codes are 0
  and d is NaN.
- product, over blocks of 32 in the order of K, from acc = +0, each `dot` an exact integer:
  scale for 32: `acc = fma(d_x, d_w * dot, acc)`; for 16: `acc = fma(d_x, fma(d_w1, dot1, d_w0 * dot0), acc)`, where
  `d_w * dot` that is zero is +0, whatever the signs, and an infinite `d_w` (`d_w0`) gives NaN.
- SwiGLU: `gate / (1 + exp2(gate * -log2(e))) * up`, left to right, with the project's exp2.

Dots are formed by a float32 matrix product, which is exact: every partial sum is an integer of at most
32 * 128 * 127 < 2**24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from validation.numerics.exp2 import exp2
from validation.numerics.fma import NAN, Array, Fma, Units, canonical, exact, gridded, units

#: Values that share an activation scale, and the largest code.
BLOCK = 32
LARGEST = 127
#: Elements that are done together.
TOGETHER = 1 << 14
#: Sizes of two dots of 16 products of codes, with room for what rounding one of them adds.
TWO_DOTS = BLOCK * 128 * LARGEST + 1
#: -log2(e), rounded to float32.
NEGATIVE_LOG2_E = np.float32(-1.4426950408889634)


@dataclass(frozen=True)
class Codes:
    """Quantised rows.

    Parameters
    ----------
    q
        int8 [rows, k].
    scale
        float32 [rows, k / 32].
    lost
        Blocks that held a value not finite.
    """

    q: Array
    scale: Array
    lost: int = 0


@dataclass(frozen=True)
class Weights:
    """A matrix of blocks, decoded.

    What is made of these is kept while the matrix is: of a large one 20 times its bytes, so drop it after use.

    Parameters
    ----------
    q
        int8 [rows, k].
    scale
        float32 [rows, k / 32 * (1 or 2)].
    """

    q: Array
    scale: Array

    @property
    def per_block(self) -> int:
        """Scales of 32 values: 1 or 2."""
        return int(self.scale.shape[1] * BLOCK // self.q.shape[1])

    @cached_property
    def columns(self) -> Array:
        """float32 [k / width, width, rows]: codes, by the values that share a scale."""
        return columns(self.q, BLOCK // self.per_block)

    @cached_property
    def units(self) -> Units:
        """Of the scales."""
        return units(self.scale)

    @cached_property
    def exact(self) -> Array:
        """float64 [rows, k]: what the blocks stand for, exactly."""
        values = self.q.astype(np.float64).reshape(len(self.q), -1, BLOCK // self.per_block)
        values *= self.scale.astype(np.float64)[..., None]
        return values.reshape(self.q.shape)

    @cached_property
    def sizes(self) -> Array:
        """float64 [rows, k]: magnitudes of these."""
        return np.abs(self.exact)


@dataclass(frozen=True)
class Rows:
    """What pairs of one expert give.

    Parameters
    ----------
    gate, up
        float32 [rows, ff].
    h
        Codes of [rows, ff].
    out
        float32 [rows, n].
    """

    gate: Array
    up: Array
    h: Codes
    out: Array


def quantise(x: Array) -> Codes:
    """Codes of rows.

    Parameters
    ----------
    x
        float32 [rows, k], k a multiple of 32.

    Raises
    ------
    ValueError
        For another dtype or shape.
    """
    if x.dtype != np.float32 or x.ndim != 2 or x.shape[1] % BLOCK:
        raise ValueError(f"got {x.dtype} {x.shape}, expected float32 [rows, multiple of {BLOCK}]")
    blocks = x.reshape(len(x), -1, BLOCK)
    lost = ~np.isfinite(blocks).all(axis=-1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        amax = np.where(lost, np.float32(0), np.abs(blocks).max(axis=-1))
        inverse = np.float32(LARGEST) / amax
        live = np.isfinite(inverse)
        inverse = np.where(live, inverse, np.float32(0))
        codes = np.rint(np.where(live[..., None], blocks, np.float32(0)) * inverse[..., None])
        scale = np.where(live, amax / np.float32(LARGEST), np.float32(0))
    scale = np.where(lost, NAN.view(np.float32), scale)
    return Codes(codes.astype(np.int8).reshape(x.shape), scale, int(lost.sum()))


def columns(w: Array, width: int) -> Array:
    """Codes of a matrix by every few of K.

    Parameters
    ----------
    w
        int8 [rows, k].
    width
        How many.

    Returns
    -------
    float32 array [k / width, width, rows]
    """
    return w.reshape(len(w), -1, width).transpose(1, 2, 0).astype(np.float32)


def lines(x: Array, width: int) -> Array:
    """Codes of rows by every few of K.

    Matrix products of these with `columns` are exact integers.

    Parameters
    ----------
    x
        int8 [rows, k].
    width
        How many.

    Returns
    -------
    float32 array [k / width, rows, width]
    """
    return x.reshape(len(x), -1, width).transpose(1, 0, 2).astype(np.float32)


def dots(w: Array, x: Array, width: int) -> Array:
    """The exact integer dot products of every few codes.

    Parameters
    ----------
    w
        int8 [rows of w, k].
    x
        int8 [rows of x, k].
    width
        How many.

    Returns
    -------
    float32 array [k / width, rows of x, rows of w]
    """
    return np.asarray(lines(x, width) @ columns(w, width))


def slabs(blocks: int, size: int) -> Iterator[slice]:
    """Blocks that are done together: many of few elements, whose calls take longer than their arithmetic, few of many,
    so that they stay in a cache.

    Parameters
    ----------
    blocks
        How many blocks there are.
    size
        Elements of each.
    """
    step = max(TOGETHER // max(size, 1), 1)
    for first in range(0, blocks, step):
        yield slice(first, min(first + step, blocks))


def scaled(scale: Array, dot: Array) -> Array:
    """scale * dot, rounded once: zeros are +0, and an infinite scale gives NaN.

    Parameters
    ----------
    scale, dot
        float32, of shapes that broadcast.

    Returns
    -------
    float32 array
    """
    made = np.where(np.isfinite(scale), scale, NAN.view(np.float32)) * dot
    made += np.float32(0)
    return np.asarray(made)


def product(w: Weights, x: Codes) -> Array:
    """The bits of the product.

    Parameters
    ----------
    w
        The matrix.
    x
        Codes of the rows.

    Returns
    -------
    float32 array [rows of x, rows of w]
    """
    each = w.per_block
    left, right = lines(x.q, BLOCK // each), w.columns
    scales = w.scale.T[:, None, :]
    acc = np.zeros((len(x.q), len(w.q)), np.float32)
    # Multiples of the units of both scales; those of a weight's scale times an integer always are, and often exact.
    add, inside = Fma(acc.shape, gridded(w.units, units(x.scale))), exact(w.units, TWO_DOTS)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for part in slabs(x.q.shape[1] // BLOCK, acc.size):
            own = slice(each * part.start, each * part.stop)
            dot, scale = left[own] @ right[own], scales[own]
            inner = scaled(scale[::each], dot[::each])
            if each > 1:
                Fma(inner.shape, True, inside)(scale[1::each], dot[1::each], inner, out=inner)
            for block, one in zip(range(part.start, part.stop), inner, strict=True):
                add(x.scale[:, block, None], one, acc, out=acc)
        return canonical(acc)


def swiglu(gate: Array, up: Array) -> Array:
    """The bits of SwiGLU.

    Parameters
    ----------
    gate, up
        float32, of one shape.

    Returns
    -------
    float32 array
        Of that shape.

    References
    ----------
    N. Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202, 2020.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        e = exp2(canonical(gate * NEGATIVE_LOG2_E))
        return canonical(canonical(gate / canonical(np.float32(1) + e)) * up)


def expert(
    gate: Any,
    up: Any,
    down: Any,
    x: Codes,
    product: Callable[[Any, Codes], Array] = product,
    quantise: Callable[[Array], Codes] = quantise,
) -> Rows:
    """The bits of one expert on quantised tokens.

    Parameters
    ----------
    gate, up, down
        Matrices as `product` takes them.
    x
        Codes of the tokens, [rows, n].
    product, quantise
        The bits of a matrix times codes, float32 [rows of codes, rows of the matrix], and codes of float32 rows: those
        of the fused kernels unless others are given.
    """
    g, u = product(gate, x), product(up, x)
    h = quantise(swiglu(g, u))
    return Rows(g, u, h, product(down, h))


def values(codes: Codes) -> Array:
    """What codes stand for, exactly.

    Parameters
    ----------
    codes
        Quantised rows.

    Returns
    -------
    float64 array [rows, k]
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(codes.q.astype(np.float64) * np.repeat(codes.scale.astype(np.float64), BLOCK, axis=1))


def product64(w: Weights, x: Array) -> Array:
    """The product in FP64.

    Parameters
    ----------
    w
        The matrix.
    x
        float64 [rows, k].

    Returns
    -------
    float64 array [rows of x, rows of w]
    """
    return np.asarray(x @ w.exact.T)


def swiglu64(gate: Array, up: Array) -> Array:
    """SwiGLU in FP64. exp(-gate) beyond the range of float64 gives zeros, as it should.

    Parameters
    ----------
    gate, up
        float64, of one shape.

    Returns
    -------
    float64 array
        Of that shape.
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(gate / (1 + np.exp(-gate)) * up)


def quantise64(x: Array) -> Array:
    """Rows rounded to int8 for 32 values in FP64, ties to even; zeros where a block is all zeros.

    Parameters
    ----------
    x
        float64 [rows, k], k a multiple of 32.

    Returns
    -------
    float64 array [rows, k]
    """
    blocks = x.reshape(len(x), -1, BLOCK)
    amax = np.abs(blocks).max(axis=-1, keepdims=True)
    safe = np.where(amax == 0, 1, amax)
    return np.asarray((np.rint(blocks * (LARGEST / safe)) * (amax / LARGEST)).reshape(x.shape))


def rounded(gate: Weights, up: Weights, down: Weights, x: Codes) -> Array:
    """The rounded model: FP64 with x and h in int8.

    Parameters
    ----------
    gate, up, down
        The matrices.
    x
        The codes of the contract; h is rounded in FP64.

    Returns
    -------
    float64 array [rows, n]
    """
    tokens = values(x)
    h = swiglu64(product64(gate, tokens), product64(up, tokens))
    return product64(down, quantise64(h))


def hidden64(gate: Weights, up: Weights, x: Array) -> Array:
    """h in FP64, with nothing quantised.

    Parameters
    ----------
    gate, up
        The matrices.
    x
        float32 [rows, n].

    Returns
    -------
    float64 array [rows, ff]
    """
    tokens = x.astype(np.float64)
    return swiglu64(product64(gate, tokens), product64(up, tokens))


def unrounded(gate: Weights, up: Weights, down: Weights, x: Array) -> Array:
    """The expert in FP64, with nothing quantised.

    Parameters
    ----------
    gate, up, down
        The matrices.
    x
        float32 [rows, n].

    Returns
    -------
    float64 array [rows, n]
    """
    return product64(down, hidden64(gate, up, x))
