"""What two sets of logits differ by, position by position, in FP64."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validation.quality.fp64_model import log_softmax
from validation.quality.parallel import each, parts

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Logits = Float32 | Float64

#: Positions that one core compares at once.
ROWS = 16


@dataclass(frozen=True)
class Spread:
    """A list of numbers in short: how many, their median, mean and largest, and the mean's standard error."""

    count: int
    median: float
    mean: float
    largest: float
    error: float


def spread(values: Sequence[float] | Float64) -> Spread:
    """The numbers in short; all NaN when one of them is, or when there is none.

    The standard error is that of independent numbers; a single one has none (NaN).
    """
    array = np.asarray(values, np.float64)
    if not len(array):
        return Spread(0, math.nan, math.nan, math.nan, math.nan)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else math.nan
    return Spread(len(array), float(np.median(array)), float(array.mean()), float(array.max()), error)


def divergence(log_p: Float64, log_q: Float64) -> Float64:
    """KL(P || Q) of each row of log-probabilities [k, vocabulary], in nats. Where P is 0 there is none."""
    with np.errstate(invalid="ignore"):
        terms = np.exp(log_p) * (log_p - log_q)
    terms[np.isneginf(log_p)] = 0.0
    kl: Float64 = terms.sum(axis=-1)
    return kl


def digests(slices: Iterable[tuple[int, Float32]]) -> list[str]:
    """SHA-256 of the bits of each position's logits."""
    return [hashlib.sha256(np.ascontiguousarray(row).tobytes()).hexdigest() for _, rows in slices for row in rows]


@dataclass(frozen=True)
class Compared:
    """Logits of two settings, position by position; all arrays are [n], and float64 but `same_top`.

    Parameters
    ----------
    kl
        KL(A || B).
    same_top
        Whether the largest logit is that of the same token.
    likelihood_a, likelihood_b
        ln p of the real next token, of the n - 1 positions that have one.
    """

    kl: Float64
    same_top: NDArray[np.bool_]
    likelihood_a: Float64
    likelihood_b: Float64


def compared(a: Logits, b: Logits, tokens: Int64) -> Compared:
    """Compare logits [n, vocabulary] of a text of n tokens."""

    def some(rows: slice) -> tuple[Float64, NDArray[np.bool_], Float64, Float64]:
        log_a, log_b = log_softmax(a[rows]), log_softmax(b[rows])
        following = tokens[rows.start + 1 : rows.stop + 1]
        places = np.arange(len(following))
        top = a[rows].argmax(axis=-1) == b[rows].argmax(axis=-1)
        return divergence(log_a, log_b), top, log_a[places, following], log_b[places, following]

    kl, top, first, second = zip(*each(some, parts(len(tokens), ROWS)), strict=True)
    return Compared(np.concatenate(kl), np.concatenate(top), np.concatenate(first), np.concatenate(second))


def agreeing(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two continuations begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))
