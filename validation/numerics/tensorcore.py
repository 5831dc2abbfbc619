"""The bit model of tensor-core matrix instructions: NumPy in, the exact bits of the hardware out.

One step of `mma` f32.f16.f16.f32 takes `block` products and the accumulator c:

1. a half is sig * 2^(e-10) with an 11-bit integer sig; subnormals keep e = -14;
2. a product keeps exponent e_a + e_b and 20 fraction bits; it is not normalised;
3. E is the largest exponent among the addends that are not zero, c among them;
4. every addend is cut towards zero to a multiple of 2^(E-F);
5. the integers are added exactly, normalised once, and cut towards zero to float32.

An instruction of k products runs k/block such steps in order, the float32 of one being the c of the
next; on sm_90 `block` is 16, so m16n8k8 is one step of 8. Any NaN gives 7fffffff, a zero sum +0,
2^128 and more infinity. Evidence: 18.4 million outputs of an H200 and 40,000 published results of
eight cards, no difference; sm_75 is a prediction. `Params` also states the rivals of every rule, so
that a card's results can be scanned for the hypothesis that fits.

Integers only, so no floating-point unit, flag or thread count can change a result. Where the
hypothesis is the common one and all operands are finite, a faster path does the same integers in
exact floats; `integers=True` forces the other.

References
----------
docs/arithmetic.md has the measurements.
M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical Behavior of NVIDIA Tensor Cores", PeerJ Computer Science
7:e330, 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.lanes.rules import RULES
from validation.numerics.tensorcore_parts import (
    CANONICAL_NAN,
    F32_INFINITY,
    NO_EXPONENT,
    SIGN,
    Decoded,
    bit_length,
    decode,
    round_f32,
    shift,
)

Array = np.ndarray[Any, Any]


_WORDS = {
    "align": ("trunc", "floor", "rne"),
    "final": ("rz", "rne", "floor"),
    "c_join": ("fused", "after"),
    "prod_exp": ("raw", "norm"),
    "sub_in": ("raw", "norm", "flush"),
    "zero_exp": ("skip", "count"),
    "order": ("seq", "rev", "strided"),
    "neg_zero": ("plus", "ieee"),
}


@dataclass(frozen=True)
class Params:
    """One hypothesis about the hardware; the defaults are the rules that every measured card follows.

    Parameters
    ----------
    block
        Products in one step, at most: 4, 8 or 16.
    frac
        F, the fraction bits that are kept below exponent E.
    align
        The cut of aligned addends: `trunc`, `floor` or `rne`.
    final
        The last rounding: `rz`, `rne` or `floor`.
    c_join
        Whether c is `fused` with the products or added `after` their sum.
    prod_exp
        The exponent of a product: `raw`, e_a + e_b, or `norm`, that of the normalised product.
    sub_in
        Subnormal inputs: `raw`, `norm` (normalised) or `flush` (made zero).
    zero_exp
        Whether zero products `skip` E or `count` for it.
    order
        The order of the steps over k: `seq`, `rev` or `strided`.
    neg_zero
        A zero sum is `plus` zero always, or by `ieee` -0 when all addends are.

    Raises
    ------
    ValueError
        For a word that is none of these.
    """

    block: int = 8
    frac: int = 24
    align: str = "trunc"
    final: str = "rz"
    c_join: str = "fused"
    prod_exp: str = "raw"
    sub_in: str = "raw"
    zero_exp: str = "skip"
    order: str = "seq"
    neg_zero: str = "plus"

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(words)}")

    @property
    def common(self) -> bool:
        """Whether only block, F and the order differ from the defaults, within what the fast path can do."""
        return self == Params(self.block, self.frac, order=self.order) and self.frac <= 26


#: By architecture, the rival reading of Turing (five addends in a step, not nine) and Volta.
PRESETS: dict[str, Params] = {
    **{name: Params(rule.block, rule.frac) for name, rule in RULES.items() if rule.block},
    "sm_70": Params(4, 23),
}


def half_bits(x: Array) -> Array:
    """uint16 bits of a float16 or uint16 array. Raises TypeError for another dtype."""
    return _bits(x, np.float16, np.uint16)


def float_bits(x: Array) -> Array:
    """uint32 bits of a float32 or uint32 array. Raises TypeError for another dtype."""
    return _bits(x, np.float32, np.uint32)


def mma(a: Array, b: Array, c: Array, params: Params, *, integers: bool = False) -> Array:
    """a b + c as a tensor core does it.

    Parameters
    ----------
    a
        float16 or uint16 bits [..., m, k].
    b
        float16 or uint16 bits [..., k, n]; leading axes of a and b broadcast to those of c.
    c
        float32 or uint32 bits [..., m, n].
    params
        The hypothesis.
    integers
        Whether the path of integers is taken even where exact floats do the same faster.

    Returns
    -------
    uint32 array [..., m, n]
        The bits of float32.

    Raises
    ------
    ValueError
        When the shapes do not fit or k is no multiple of the block.
    """
    a, b, c = half_bits(a), half_bits(b), float_bits(c)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.shape[-2] != k or c.shape[-2:] != (m, n):
        raise ValueError(f"shapes {a.shape} {b.shape} {c.shape}, expected [..., m, k] [..., k, n] [..., m, n]")
    lead = c.shape[:-2]
    a = np.broadcast_to(a, (*lead, m, k)).reshape(-1, m, k)
    b = np.broadcast_to(b, (*lead, k, n)).reshape(-1, k, n).swapaxes(1, 2)
    c = c.reshape(-1, m, n)
    out = np.empty(c.shape, np.uint32)
    steps = _steps(k, params)
    some = max(1, (1 << 18) // (m * n * min(params.block, k)))  # tiles at once: intermediates stay in the cache
    for first in range(0, len(c), some):
        part = slice(first, first + some)
        fast = None if integers or not params.common else _tiles_fast(a[part], b[part], c[part], steps, params)
        out[part] = _tiles(a[part], b[part], c[part], steps, params) if fast is None else fast
    return out.reshape(*lead, m, n)


def dot(a: Array, b: Array, c: Array, params: Params) -> Array:
    """Dot products with an accumulator, as a tensor core does them.

    Parameters
    ----------
    a, b
        [n, k], of the dtypes of `mma`.
    c
        [n], of the dtypes of `mma`.
    params
        The hypothesis.

    Returns
    -------
    uint32 array [n]
        The bits of float32.

    Raises
    ------
    ValueError
        As `mma`.
    """
    return mma(a[:, None, :], b[:, :, None], c[:, None, None], params)[:, 0, 0]


def mma_int8(a: Array, b: Array, c: Array, *, satfinite: bool = False) -> Array:
    """a b + c of integers, exact on every architecture: it wraps modulo 2^32, or is clamped once at the end (measured
    on an H200).

    Parameters
    ----------
    a
        int8 or uint8 [..., m, k].
    b
        int8 or uint8 [..., k, n].
    c
        int32 [..., m, n].
    satfinite
        Whether it is clamped.

    Returns
    -------
    int32 array [..., m, n]
    """
    total = c.astype(np.int64) + np.matmul(a.astype(np.int64), b.astype(np.int64))
    if satfinite:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    wrapped: Array = (((total + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)).astype(np.int32)
    return wrapped


def _bits(x: Array, floating: type, bits: type) -> Array:
    if x.dtype == floating:
        return np.ascontiguousarray(x).view(bits)
    if x.dtype == bits:
        return x
    raise TypeError(f"expected {np.dtype(floating)} or {np.dtype(bits)} bits, got {x.dtype}")


def _steps(k: int, p: Params) -> Sequence[Array]:
    """The products of each step, as indices into k."""
    block = min(p.block, k)
    if k % block:
        raise ValueError(f"k is {k}, expected a multiple of the block of {block}")
    index = np.arange(k)
    if p.order == "strided":
        return [index[i :: k // block] for i in range(k // block)]
    blocks = [index[i : i + block] for i in range(0, k, block)]
    return blocks[::-1] if p.order == "rev" else blocks


def _tiles(a: Array, b: Array, c: Array, steps: Sequence[Array], p: Params) -> Array:
    """The integer path. a [t, m, k], b [t, n, k], c [t, m, n]."""
    da, db = decode(a, 10, 5, p.sub_in), decode(b, 10, 5, p.sub_in)
    for ks in steps:
        c = _step(da.at(np.s_[:, :, None, ks]), db.at(np.s_[:, None, :, ks]), c, p)
    return c


def _step(a: Decoded, b: Decoded, c_bits: Array, p: Params) -> Array:
    c = decode(c_bits, 23, 8, p.sub_in)
    product = a.significand * b.significand  # 20 fraction bits, exact
    exponent = a.exponent + b.exponent
    counted = exponent
    if p.prod_exp == "norm":
        counted = np.where(product != 0, exponent + bit_length(np.abs(product)) - 21, exponent)
    if p.zero_exp == "skip":
        counted = np.where(product != 0, counted, NO_EXPONENT)
    counted = counted.max(axis=-1)
    c_counted = np.where(c.significand != 0, c.exponent, NO_EXPONENT)
    if p.c_join == "fused":
        top = _or_least(np.maximum(counted, c_counted))
        total = shift(product, p.frac - 20 + exponent - top[..., None], p.align).sum(axis=-1)
    else:
        first = _or_least(counted)
        inner = shift(product, p.frac - 20 + exponent - first[..., None], p.align).sum(axis=-1)
        top = _or_least(np.maximum(np.where(inner != 0, first, NO_EXPONENT), c_counted))
        total = shift(inner, first - top, p.align)
    total = total + shift(c.significand, p.frac - 23 + c.exponent - top, p.align)
    out = round_f32(total, top - p.frac, p.final)
    negative = a.negative ^ b.negative
    if p.neg_zero == "ieee":
        minus = ((product == 0) & negative).all(axis=-1) & (c.significand == 0) & c.negative & (total == 0)
        out = np.where(minus, np.uint32(SIGN), out)
    if a.special.any() or b.special.any() or c.special.any():
        out = _specials(out, a, b, c, negative)
    return out


def _or_least(exponent: Array) -> Array:
    """E of a step without an addend: any will do."""
    return np.where(exponent == NO_EXPONENT, -126, exponent)


def _specials(out: Array, a: Decoded, b: Decoded, c: Decoded, negative: Array) -> Array:
    """Infinities and NaN among the addends decide the result."""
    infinite = (a.infinite & ~b.zero & ~b.nan) | (b.infinite & ~a.zero & ~a.nan)
    invalid = a.nan | b.nan | (a.infinite & b.zero) | (b.infinite & a.zero)
    plus = (infinite & ~negative).any(axis=-1) | (c.infinite & ~c.negative)
    minus = (infinite & negative).any(axis=-1) | (c.infinite & c.negative)
    nan = invalid.any(axis=-1) | c.nan | (plus & minus)
    out = np.where(plus, np.uint32(F32_INFINITY), out)
    out = np.where(minus, np.uint32(F32_INFINITY | SIGN), out)
    return np.where(nan, np.uint32(CANONICAL_NAN), out)


def _tiles_fast(a: Array, b: Array, c: Array, steps: Sequence[Array], p: Params) -> Array | None:
    """The same in exact floats; None when an operand or a partial result is not finite."""
    if ((a & 0x7C00) == 0x7C00).any() or ((b & 0x7C00) == 0x7C00).any():
        return None
    va, ea = _widen(a)
    vb, eb = _widen(b)
    for ks in steps:
        if ((c & F32_INFINITY) == F32_INFINITY).any():
            return None
        c = _step_fast(va[:, :, None, ks] * vb[:, None, :, ks], ea[:, :, None, ks] + eb[:, None, :, ks], c, p)
    return c


def _widen(bits: Array) -> tuple[Array, Array]:
    """Halves as exact float32 values and int16 exponents, -2000 for zero."""
    value = np.ascontiguousarray(bits).view(np.float16).astype(np.float32)
    exponent = np.maximum((bits >> 10) & 31, 1).astype(np.int16) - np.int16(15)
    return value, np.where((bits & 0x7FFF) == 0, np.int16(-2000), exponent)


def _step_fast(product: Array, exponent: Array, c_bits: Array, p: Params) -> Array:
    """float32 holds the 22 bits of a product and its scaled, cut copy; the sum in float64 stays below 2^53."""
    c = decode(c_bits, 23, 8, "raw")
    top = np.maximum(exponent.max(axis=-1), np.where(c.significand != 0, c.exponent, -3000)).astype(np.int64)
    top = np.where(top < -1000, -126, top)
    # Below -60 no product takes part: the smallest exponent of one is -28.
    scale = np.ldexp(np.float32(1), np.where(top < -60, 0, p.frac - top).astype(np.int32))
    with np.errstate(under="ignore"):
        aligned = np.trunc(product * scale[..., None], out=product)
    total = aligned.sum(axis=-1, dtype=np.float64)
    total += np.trunc(np.ldexp(c.significand.astype(np.float64), p.frac - 23 + c.exponent - top))
    return round_f32(total.astype(np.int64), top - p.frac, p.final)
