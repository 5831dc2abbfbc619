"""The next token from logits, such that a seed gives the same tokens on every machine and in any order of requests.

Settings act in this order: repeat penalty, temperature, top-k, top-p, min-p; then one token of those that are left is
drawn. Nothing here is left to a library's rounding:

- The penalty divides a positive logit and multiplies any other, of each token among the last ones, in float64.
- A token's weight is a whole number, w = rint(2^42 exp((x - max) / temperature)), so that sums are exact and have no
  order. `exp` is made of float64's + - * and the nearest integer, and is within 2^-48 of the true value. A token whose
  weight rounds to 0, less than 2^-43 of the likeliest one's, is never drawn.
- top-k keeps the k largest logits, top-p the heaviest until their share of what top-k kept is p or more, min-p those
  with at least that share of the heaviest's weight; of equals the smaller token comes first. Shares are compared as
  whole numbers.
- The draw is floor(u W / 2^128) of the total weight W, where u is 128 bits of Philox with the seed as key and the
  number of tokens before as counter: it depends on nothing that was drawn before.

Temperature 0 takes the largest logit after the penalty, the smallest token of equals.

References
----------
A. Holtzman et al., "The Curious Case of Neural Text Degeneration" (top-p), 2020; N. S. Keskar et al., "CTRL" (repeat
penalty), 2019; J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (Philox), 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError

#: The weight of the likeliest token: 2^20 tokens of it have a sum that int64 holds, and so has a weight with its token.
WEIGHT_BITS = 42
TOKEN_BITS = 20
MOST_TOKENS = 1 << TOKEN_BITS
MOST_SEED = (1 << 64) - 1
#: Tokens that a repeat penalty looks back on at most.
MOST_WINDOW = 1 << 24

#: Below this a weight rounds to 0: exp of it is less than 2^-(WEIGHT_BITS + 1).
_NOTHING = -(WEIGHT_BITS + 1) * math.log(2) - 1e-3
#: log2(e), and ln 2 in two parts, of which the first has 32 bits: times a whole number below 2^20 it is exact.
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
#: 1/n! for n = 13 to 0: what is cut off is below 2^-57 for |r| <= ln(2) / 2.
_FACTORS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
#: Tokens that are looked at first where only the heaviest count.
_FIRST = 1024
#: Numbers that `exp` is taken of at once: they stay in the processor's nearest memory.
_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Parameters
    ----------
    temperature
        What differences of logits are divided by; 0 takes the likeliest token.
    seed
        The key of random numbers.
    top_k
        How many tokens are kept; 0 keeps all.
    top_p
        The share of their weight that is kept.
    min_p
        The least weight that is kept, as a share of the heaviest.
    repeat_penalty
        By what logits of tokens among the last ones are made smaller; 1 leaves them.
    repeat_window
        How many last tokens that concerns.

    Raises
    ------
    StrataError
        For a value out of range.
    """

    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    repeat_window: int = 64

    def __post_init__(self) -> None:
        _real("temperature", self.temperature, self.temperature >= 0, "0 or more")
        _whole("seed", self.seed, MOST_SEED)
        _whole("top-k", self.top_k, MOST_TOKENS)
        _real("top-p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _real("min-p", self.min_p, 0 <= self.min_p <= 1, "0 to 1")
        _real("repeat penalty", self.repeat_penalty, self.repeat_penalty > 0, "above 0")
        _whole("repeat window", self.repeat_window, MOST_WINDOW)


def sample(logits: NDArray[Any], tokens: Sequence[int], sampling: Sampling) -> int:
    """The token that follows.

    Parameters
    ----------
    logits
        float32 [vocabulary], of the last token. Those of tokens that may not follow are -inf.
    tokens
        All tokens before, the prompt's among them.
    sampling
        How it is chosen.

    Returns
    -------
    int
        The token.

    Raises
    ------
    StrataError
        For logits that are not numbers, or infinite, or all -inf, and for a vocabulary that is empty or too large.
    """
    if logits.ndim != 1 or not 0 < len(logits) <= MOST_TOKENS:
        raise StrataError(f"logits of shape {logits.shape}; expected a row of 1 to {MOST_TOKENS}")
    largest = logits.max()
    if not np.isfinite(largest):  # a NaN among them is their maximum
        what = {math.inf: "is infinite", -math.inf: "is above -inf"}.get(float(largest), "is not a number")
        count = "no logit" if largest == -math.inf else "a logit"
        raise StrataError(f"{count} of {len(logits)} {what}; expected finite logits")
    x = _penalised(logits, tokens, sampling)
    if sampling.temperature == 0:
        return int(np.argmax(x))
    found, weights = _weights(x, _largest(x, sampling.top_k), sampling.temperature)
    found, weights = _kept(found, weights, sampling)
    # In the order of tokens; the sums are exact.
    sums = np.cumsum(weights)
    drawn = _uniform(sampling.seed, len(tokens)) * int(sums[-1]) >> 128
    return int(found[np.searchsorted(sums, drawn, side="right")])


def _penalised(logits: NDArray[Any], tokens: Sequence[int], sampling: Sampling) -> NDArray[Any]:
    """Logits in float64 after the repeat penalty, none of them +inf."""
    if sampling.repeat_penalty == 1 or not sampling.repeat_window or not len(tokens):
        return logits
    x = logits.astype(np.float64)
    last = np.unique(np.asarray(tokens[-sampling.repeat_window :], np.int64))
    if last[0] < 0 or last[-1] >= len(x):
        raise StrataError(f"tokens {last[0]} to {last[-1]} came before; expected 0 to {len(x) - 1}")
    with np.errstate(over="ignore"):
        y = x[last]
        y = np.where(y > 0, y / sampling.repeat_penalty, y * sampling.repeat_penalty)
    x[last] = np.minimum(y, np.finfo(np.float64).max)
    return x


def _largest(x: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The tokens of the k largest logits, in their order; of all for a k of 0."""
    if not 0 < k < len(x):
        return np.arange(len(x))
    least = np.partition(x, len(x) - k)[len(x) - k]
    above, equal = np.flatnonzero(x > least), np.flatnonzero(x == least)
    return np.sort(np.concatenate([above, equal[: k - len(above)]]))


def _weights(
    x: NDArray[Any], found: NDArray[np.int64], temperature: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of some tokens whose weight is not 0, in their order, and their weights."""
    z = x[found].astype(np.float64)
    z -= z.max()
    with np.errstate(over="ignore"):
        z /= temperature
    near = np.flatnonzero(z > _NOTHING)
    z, found = z[near], found[near]
    weights = np.empty(len(z), np.int64)
    for first in range(0, len(z), _AT_ONCE):
        weights[first : first + _AT_ONCE] = _scaled_exp(z[first : first + _AT_ONCE])
    some = weights > 0
    return found[some], weights[some]


def _scaled_exp(z: NDArray[np.float64]) -> NDArray[np.int64]:
    """rint(2^WEIGHT_BITS exp(z)) for z of `_NOTHING` to 0."""
    k = np.rint(z * _LOG2_E)
    r = (z - k * _LN2_HIGH) - k * _LN2_LOW
    value = np.full_like(r, _FACTORS[0])
    for factor in _FACTORS[1:]:
        value *= r
        value += factor
    # Powers of two are exact: 2^(WEIGHT_BITS + k) from its exponent field.
    value *= ((k.astype(np.int64) + (WEIGHT_BITS + 1023)) << 52).view(np.float64)
    return np.rint(value).astype(np.int64)


def _kept(
    found: NDArray[np.int64], weights: NDArray[np.int64], sampling: Sampling
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What top-p and min-p leave, in the order of tokens."""
    if sampling.top_p < 1:
        # One number that orders them: the weight, then the smaller token.
        keys = (weights << TOKEN_BITS) | (MOST_TOKENS - 1 - found)
        kept = keys >= _nucleus(keys, sampling.top_p)
        found, weights = found[kept], weights[kept]
    if sampling.min_p > 0:
        kept = weights >= math.ceil(Fraction(sampling.min_p) * (1 << WEIGHT_BITS))
        found, weights = found[kept], weights[kept]
    return found, weights


def _nucleus(keys: NDArray[np.int64], share: float) -> int:
    """The least of the heaviest, until their sum is a share of the sum of all."""
    wanted = math.ceil(Fraction(share) * int((keys >> TOKEN_BITS).sum()))
    count = min(_FIRST, len(keys))
    while True:
        heaviest = np.sort(np.partition(keys, len(keys) - count)[len(keys) - count :])[::-1]
        sums = np.cumsum(heaviest >> TOKEN_BITS)
        if sums[-1] >= wanted:
            return int(heaviest[np.searchsorted(sums, wanted)])
        count = min(8 * count, len(keys))


def _uniform(seed: int, position: int) -> int:
    """128 random bits that follow from a seed and a position alone."""
    high, low = np.random.Philox(key=seed, counter=position).random_raw(2)
    return int(high) << 64 | int(low)


def _real(name: str, value: float, right: bool, expected: str) -> None:
    if not math.isfinite(value) or not right:
        raise StrataError(f"{name} {value}: expected a number {expected}")


def _whole(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise StrataError(f"{name} {value}: expected a whole number of 0 to {most}")
