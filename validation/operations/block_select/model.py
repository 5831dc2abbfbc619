"""Every bit of a score, by the formulas of the four scorers, in NumPy.

- `warp`: lane l has dims 4 l to 4 l + 3, one product and three multiply-adds; then pairs of lanes 16, 8, 4, 2 and 1
  apart are added.
- `simt`: one chain of multiply-adds over the dims, from +0.
- `sm75`, `sm80`: rows scaled by a power of two and split in two halves, and two chains of matrix products: one of the
  high halves, one of a low and a high half and of a high and a low one. They are added, and scaled back.

A head's product that is a NaN stays one, what is not above zero becomes +0, and heads are added in order from +0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.lanes import Rule
from strata.kernels import tiers
from strata.kernels.paths import Path
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import Fma, canonical
from validation.numerics.tensorcore import Params, mma

#: Dims of a lane of the warp scorer, and of a step of the tensor-core chains.
PER_LANE, STEP = 4, 16
#: log2 of what the largest number of a row is scaled to, and the least exponent of one.
_RAISED, _LEAST = 14, -100
#: Products at once: what is made meanwhile stays in the cache.
_AT_ONCE = 1 << 20


class Halves(NamedTuple):
    """hi, lo: float16 [..., dims]; exponent: int64 [...]: hi + lo is about x * 2**(14 - exponent)."""

    hi: np.ndarray
    lo: np.ndarray
    exponent: np.ndarray


def halves(x: np.ndarray) -> Halves:
    """Rows of float32 scaled by a power of two and split.

    The exponent e is that of the largest finite magnitude f 2^e with f in [1/2, 1), 0 of a row of zeros, and -100 at
    least.
    """
    finite = np.where(np.isfinite(x), np.abs(x), np.float32(0))
    exponent = np.maximum(np.frexp(finite.max(axis=-1))[1].astype(np.int64), _LEAST)
    up = np.ldexp(np.float32(1), (_RAISED - exponent).astype(np.int32))[..., None]
    with np.errstate(invalid="ignore", under="ignore"):
        scaled = x * up
        hi = scaled.astype(np.float16)
        lo = (scaled - hi.astype(np.float32)).astype(np.float16)
    return Halves(hi, lo, exponent)


def relu_sum(dots: np.ndarray) -> np.ndarray:
    """float32 [queries, blocks] of the products of heads, float32 [queries, heads, blocks]."""
    with np.errstate(invalid="ignore", over="ignore"):
        kept = np.where((dots > 0) | np.isnan(dots), dots, np.float32(0))
        total = np.zeros_like(kept[:, 0])
        for head in range(kept.shape[1]):
            total = total + kept[:, head]
    return canonical(total)


def warp_dots(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """float32 [rows, blocks] of float32 [rows, dims] and [blocks, dims]."""
    dims = q.shape[1]
    lanes = dims // PER_LANE
    a, b = q.reshape(len(q), 1, lanes, PER_LANE), keys.reshape(1, len(keys), lanes, PER_LANE)
    sums = np.empty((len(q), len(keys), lanes), np.float32)
    fma = Fma(sums.shape)
    with np.errstate(all="ignore"):
        np.multiply(a[..., 0], b[..., 0], out=sums)
        for dim in range(1, PER_LANE):
            fma(a[..., dim], b[..., dim], sums, sums)
        while sums.shape[2] > 1:
            half = sums.shape[2] // 2
            sums = sums[..., :half] + sums[..., half:]
    return np.ascontiguousarray(sums[..., 0])


def chain_dots(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """float32 [rows, blocks] of float32 [rows, dims] and [blocks, dims]."""
    out = np.zeros((len(q), len(keys)), np.float32)
    fma, columns = Fma(out.shape), np.ascontiguousarray(keys.T)
    with np.errstate(all="ignore"):
        for dim in range(q.shape[1]):
            fma(q[:, dim, None], columns[dim], out, out)
    return out


def split_dots(q: Halves, keys: Halves, products: int, params: Params) -> np.ndarray:
    """float32 [rows, blocks] of split rows; products: that one instruction sums."""
    shape = (len(q.hi), len(keys.hi))
    high, low = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)
    with np.errstate(all="ignore"):
        for first in range(0, q.hi.shape[1], STEP):
            for left, right, cross in ((q.lo, keys.hi, True), (q.hi, keys.lo, True), (q.hi, keys.hi, False)):
                into = low if cross else high
                for at in range(first, first + STEP, products):
                    some = slice(at, at + products)
                    into = mma(left[:, some], np.ascontiguousarray(right[:, some].T), into, params)
                low, high = (into, high) if cross else (low, into)
        s = high.view(np.float32) + low.view(np.float32)
        e = q.exponent[:, None] + keys.exponent[None, :] - 2 * _RAISED
        first_part = e >> 1
        scales = (np.ldexp(np.float32(1), part.astype(np.int32)) for part in (first_part, e - first_part))
        for scale in scales:
            s = s * scale
    return s


def scores(path: Path, q: np.ndarray, keys: np.ndarray, rule: Rule) -> np.ndarray | None:
    """float32 [queries, blocks]: what `path` must give, a NaN as 7fffffff.

    Parameters
    ----------
    q
        float32 [queries, heads, dims].
    keys
        float32 [blocks, dims].
    rule
        Of the tensor core.

    Returns
    -------
    None where the rule is that of exact sums, of which there is no model here.

    Raises
    ------
    UnknownOperationError
        For a path of another operation.
    """
    queries, heads, dims = q.shape
    tensor = path.operation == "block_select" and path.tier != "simt"
    if path.operation not in ("block_select", "block_select_warp"):
        raise UnknownOperationError(path, "model", ("block_select", "block_select_warp"))
    if tensor and rule.block == 0:
        return None
    rows = q.reshape(queries * heads, dims)
    out = np.empty((len(rows), len(keys)), np.float32)
    some = max(1, _AT_ONCE // (max(len(rows), 1) * dims))
    split = halves(rows) if tensor else None
    for first in range(0, len(keys), some):
        part = slice(first, first + some)
        if split is not None:
            params = Params(rule.block, rule.frac)
            out[:, part] = split_dots(split, halves(keys[part]), tiers.find(path.tier).fp16.k, params)
        elif path.operation == "block_select":
            out[:, part] = chain_dots(rows, keys[part])
        else:
            out[:, part] = warp_dots(rows, keys[part])
    return relu_sum(out.reshape(queries, heads, len(keys)))
