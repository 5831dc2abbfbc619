"""How far a score may be from the exact one, and how far the FP64 reference may be; per element, from its own sums.

u = 2^-24, one rounding of FP32. A dot product d of a head and a key is computed with an error of at most E; |q|.|k| is
called P. A rounding errs by u times the size of its result, or by 2^-150 where that is subnormal. A result is an exact
sum that is known here and the errors made before it: with N roundings one behind another those come to N u E at most,
which is 2^-17 E. CROSS makes up for them.

- **warp**: a lane's four roundings have results of at most a0, a0 + a1, a0 + a1 + a2 (a the magnitudes of its products)
  and of its sum; then the sums of 2, 4, 8, 16 and 32 lanes, whichever sizes they have:
  E = u (sum (3 a0 + 2 a1 + a2) + sum of |sums| of all levels).
- **simt**: 128 roundings, each of a prefix of the sum. The prefixes are known every FINE dims, and one between two of
  them, S before and S after, is at most (|S before| + |S after| + magnitudes between) / 2.
- **sm75**, **sm80**: a row x, scaled by a power of two, is hi + lo + r, and each part is known, so what is left out,

      q k - (qh kh + ql kh + qh kl) = ql kl + rq k + (qh + ql) rk,

  is bounded by the sum of its magnitudes. The chain of high halves errs by `tensorcore_bound.slice_error` a slice. In
  the chain of the low ones no addend and no sum is larger than X, the sum of the magnitudes of all its products: a step
  of c products errs by ((c + 1) 2^-F + 2^-23) X. A cut is relative to the exponents that halves have, which is -14 of a
  subnormal one: in X and in the largest product each half that is not zero counts for at least 2^-14. Adding the two
  is one rounding more, scaling back two roundings that only a subnormal result has.

A head whose exact product is below -E is +0 with either sign of an error, and one above zero keeps E; in between the
score errs by what of E is above zero. Adding heads is three roundings: the first sum, with +0, is exact.

The reference adds DIMS products, exact in FP64, in any order: gamma_128 P, gamma_n = n 2^-53 / (1 - n 2^-53) (Higham,
Accuracy and Stability of Numerical Algorithms, section 4.2), and heads in three roundings. What is derived from its
sums is off by as much, which is added to E. FP64 loses nothing besides: a product is a multiple of 2^-298.

Where a row is not finite, or the magnitudes of a score add up to 2^127 or more, nothing is promised: the bound is
infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import RULES, Rule
from strata.kernels import tiers
from strata.kernels.paths import Path
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.roundoff import WIDENED, U
from validation.numerics.tensorcore_bound import SLICE, TURING_RIVAL, WIDEST, slice_error
from validation.numerics.tensorcore_rules import rule_on

#: Dims of a lane, and those between two known prefixes of a chain.
PER_LANE, FINE = 4, 8
CROSS = 1 + 2.0**-9
#: Half of the smallest subnormal: the error of a rounding there.
SUBNORMAL = 2.0**-150
#: Roundings of a dot product that may be subnormal: four of each lane and one of each sum, each of a chain, and two.
_WARP_ROUNDINGS, _CHAIN_ROUNDINGS, _SCALINGS = 4 * 32 + 31, 128, 2
#: The exponent that a subnormal half counts with.
_LEAST_HALF = 2.0**-14
_RAISED, _LEAST = 14, -100
_UNIT = 2.0**-53
#: From here on FP32 may overflow.
_LARGE = 2.0**127
#: Numbers of one intermediate result.
_AT_ONCE = 1 << 22


class Limits(NamedTuple):
    """float64 [queries, blocks], infinite where nothing is promised.

    Parameters
    ----------
    kernel
        The largest error of the path's score from the true one.
    own
        The largest error of the reference.
    """

    kernel: np.ndarray
    own: np.ndarray

    @property
    def both(self) -> np.ndarray:
        """The largest distance of the path's score from the reference."""
        return np.asarray((self.kernel + self.own) * WIDENED)


def rule_of(executor: Executor) -> Rule:
    """The rule that bounds on an executor stand on: its own, the card's, or the widest there is."""
    return getattr(executor, "rule", None) or RULES.get(rule_on(executor) or "", WIDEST)


def limits(path: Path, q: np.ndarray, keys: np.ndarray, rule: Rule) -> Limits:
    """The bounds of every score.

    Parameters
    ----------
    path
        Of a scorer.
    q
        float32 [queries, heads, dims].
    keys
        float32 [blocks, dims].
    rule
        Of the tensor core.

    Raises
    ------
    UnknownOperationError
        For a path that does not score.
    """
    if path.operation not in ("block_select", "block_select_warp"):
        raise UnknownOperationError(path, "bound", ("block_select", "block_select_warp"))
    queries, heads, dims = q.shape
    rows, some = q.reshape(queries * heads, dims), max(1, _AT_ONCE // (queries * heads * (dims // PER_LANE)))
    kernel, own = np.empty((queries, len(keys))), np.empty((queries, len(keys)))
    for first in range(0, len(keys), some):
        part = slice(first, first + some)
        kernel[:, part], own[:, part] = _limits(path, rows, keys[part], rule, heads)
    return Limits(kernel, own)


def _limits(path: Path, rows: np.ndarray, keys: np.ndarray, rule: Rule, heads: int) -> Limits:
    sound = np.isfinite(rows).all(axis=1).reshape(-1, heads).all(axis=1)[:, None] & np.isfinite(keys).all(axis=1)
    q, k = (np.where(np.isfinite(x), x, np.float32(0)).astype(np.float64) for x in (rows, keys))
    shape = (-1, heads, len(keys))
    dots, size = (q @ k.T).reshape(shape), (np.abs(q) @ np.abs(k).T).reshape(shape)
    off = q.shape[1] * _UNIT / (1 - q.shape[1] * _UNIT) * size
    if path.operation == "block_select_warp":
        error = _warp(q, k)
    elif path.tier == "simt":
        error = _chain(q, k)
    else:
        products = tiers.find(path.tier).fp16.k
        readings = (rule, TURING_RIVAL) if rule == RULES["sm_75"] else (rule,)
        error = np.max([_split(q, k, products, one) for one in readings], axis=0)
    kept, own = np.maximum(dots, 0.0), _kept(dots, off)
    lost = _kept(dots, error.reshape(shape) * CROSS + off)
    partial = np.cumsum(kept + lost, axis=1)[:, 1:].sum(axis=1)
    sound &= size.sum(axis=1) < _LARGE
    kernel = np.where(sound, (lost.sum(axis=1) + U * partial) * WIDENED, np.inf)
    return Limits(kernel, np.where(sound, (own.sum(axis=1) + _UNIT * partial) * WIDENED, np.inf))


def _kept(dots: np.ndarray, error: np.ndarray) -> np.ndarray:
    """What of an error of a head's product is left in its ReLU."""
    return np.where(dots > 0, error, np.maximum(dots + error, 0.0))


def _slices(q: np.ndarray, k: np.ndarray, size: int) -> np.ndarray:
    """float64 [dims / size, rows, blocks]: the products of each slice of dims, added."""
    parts = (np.ascontiguousarray(x.reshape(len(x), -1, size).transpose(1, 0, 2)) for x in (q, k))
    one, two = parts
    return np.asarray(one @ two.transpose(0, 2, 1))


def _warp(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    before = np.tile(np.arange(PER_LANE - 1, -1, -1.0), q.shape[1] // PER_LANE)  # 3, 2, 1, 0
    sums = _slices(q, k, PER_LANE)
    total = (np.abs(q) * before) @ np.abs(k).T + np.abs(sums).sum(axis=0)
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
        total += np.abs(sums).sum(axis=0)
    return np.asarray(U * total + _WARP_ROUNDINGS * SUBNORMAL)


def _chain(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    after = np.abs(np.cumsum(_slices(q, k, FINE), axis=0))
    size = _slices(np.abs(q), np.abs(k), FINE)
    total = np.zeros(after.shape[1:])
    before = np.zeros_like(total)
    for now, inside in zip(after, size, strict=True):
        total += (FINE - 1) / 2 * (before + now + inside) + now
        before = now
    return np.asarray(U * total + _CHAIN_ROUNDINGS * SUBNORMAL)


class _Row(NamedTuple):
    """Parts of scaled rows, float64 [rows, dims], and exponents, int64 [rows]."""

    hi: np.ndarray
    lo: np.ndarray
    rest: np.ndarray
    exponent: np.ndarray

    @property
    def whole(self) -> np.ndarray:
        return np.asarray(self.hi + self.lo + self.rest)


def _parts(x: np.ndarray) -> _Row:
    exponent = np.maximum(np.frexp(np.abs(x).max(axis=1))[1].astype(np.int64), _LEAST)
    scaled = np.ldexp(x, (_RAISED - exponent).astype(np.int32)[:, None])
    hi = scaled.astype(np.float16).astype(np.float64)
    lo = (scaled - hi).astype(np.float16).astype(np.float64)
    return _Row(hi, lo, scaled - hi - lo, exponent)


def _counted(half: np.ndarray) -> np.ndarray:
    """Magnitudes of halves as their exponents count."""
    return np.where(half == 0, 0.0, np.maximum(np.abs(half), _LEAST_HALF))


def _split(q: np.ndarray, k: np.ndarray, products: int, rule: Rule) -> np.ndarray:
    left, right = _parts(q), _parts(k)
    after = np.abs(np.cumsum(_slices(left.hi, right.hi, SLICE), axis=0))
    size = _slices(np.abs(left.hi), np.abs(right.hi), SLICE)
    largest = np.sqrt(np.sqrt(_slices(_counted(left.hi) ** 4, _counted(right.hi) ** 4, SLICE)))
    total = np.zeros(after.shape[1:])
    before = np.zeros_like(total)
    for now, inside, most in zip(after, size, largest, strict=True):
        total += slice_error(rule, products, before, now, inside, most)
        before = now
    low = _counted(left.lo) @ _counted(right.hi).T + _counted(left.hi) @ _counted(right.lo).T
    count = min(rule.block or products, products)
    step = U if rule.block == 0 else (count + 1) * 2.0**-rule.frac + 2.0**-23
    total += 2 * (q.shape[1] // count) * step * low
    total += np.abs(left.lo) @ np.abs(right.lo).T + np.abs(left.rest) @ np.abs(right.whole).T
    total += np.abs(left.hi + left.lo) @ np.abs(right.rest).T
    total += U * np.abs(left.whole @ right.whole.T)
    back = left.exponent[:, None] + right.exponent[None, :] - 2 * _RAISED
    return np.asarray(np.ldexp(total, back.astype(np.int32)) + _SCALINGS * SUBNORMAL)
