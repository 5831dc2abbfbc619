"""From the rounding errors of scores and sums to the error of a softmax-weighted sum.

Let w[c] = exp(s[c] - s[m]) with m the cell of the largest score, and out = sum w v / sum w. A kernel
works with weights w[c] exp(e[c]), |e[c]| <= d[c]: d gathers the errors of score, exponent and exp2,
those that numerator and denominator share. A common factor cancels, so let e be relative to that of
m: then |e[c]| <= D[c] = d[c] + d[m], D[m] = 0, and because sum w (v - out) = 0,

    out' - out = sum w[c] (exp(e[c]) - 1) (v[c] - out) / sum w[c] exp(e[c])
    |out' - out| <= sum w[c] (exp(D[c]) - 1) (|v[c]| + |out|) / sum w[c] exp(-D[c])  =: first

without any assumption that D is small. What is rounded in numerator and denominator separately,
relative errors N and L of their terms, and an absolute floor F of the numerator (the denominator is
at least 1, the weight of m), adds

    second = (N sum w exp(D) |v| / sum w exp(-D) + L (|out| + first) + F) / (1 - L)

A weighted mean cannot leave the hull of its values, so the error is also at most max |v| + |out|,
up to the same relative errors. Every figure is per output element.

Evaluated in FP64: every sum is of terms of one sign, arguments of exp are below 1100 in magnitude
and good to 2**-44 of that, and `high - weight` is taken only where it is more than half of `high`.
So the result is good to 2**-31 for up to 2**20 cells, and is raised by WIDENED. That the scores
themselves are rounded is in `rounding` (of_reference.py).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from validation.numerics.roundoff import WIDENED
from validation.operations.attention.terms import Terms

#: exp() of more than this is not needed: the hull bounds the error long before.
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True)
class Rounding:
    """Relative errors of a kernel, for one query.

    Parameters
    ----------
    score
        The error of a score, relative to `products`.
    query
        The error of q, relative to max(|q|, 2**-101) times `keys`.
    exponent
        The error of an exponent, relative to the gap to the largest score.
    weight
        The error of every weight.
    numerator, denominator
        The errors of their terms.
    floor
        The error of each cell's share of the numerator, relative to `largest_v`.
    rescale
        The error of what a sum is multiplied by once in every chunk of cells, the same for all cells before, so that
        two cells differ by as many of them as chunks lie between.
    """

    score: float
    query: float
    exponent: float
    weight: float
    numerator: float
    denominator: float
    floor: float
    rescale: float = 0.0

    def __add__(self, other: Rounding) -> Rounding:
        """The errors of both, one after the other."""
        return Rounding(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def largest_error(
    terms: Terms, out: np.ndarray, rounding: Rounding, scores: np.ndarray | float = 0.0, chunk: int = 1
) -> np.ndarray:
    """The bound on |out' - out| of one query.

    Parameters
    ----------
    terms
        What its outputs are made of.
    out
        float64 [kv, group, 256], of which only the magnitude counts: at least that of the exact output.
    rounding
        Relative errors of the kernel.
    scores
        float64 [kv, group, n], errors of scores besides those of `rounding`.
    chunk
        Cells between two rescalings.

    Returns
    -------
    float64 array [kv, group, 256]
    """
    if terms.scores.shape[-1] == 0:
        return np.zeros(out.shape)
    best = terms.scores.argmax(axis=-1, keepdims=True)
    gap = terms.scores - np.take_along_axis(terms.scores, best, axis=-1)
    size_q = np.maximum(terms.largest_q, 2.0**-101)[..., None] * terms.keys[:, None, :]
    d = rounding.score * terms.products + rounding.query * size_q - rounding.exponent * gap + rounding.weight
    d = d + scores
    chunks = terms.place // chunk
    spread = d + np.take_along_axis(d, best, axis=-1) + rounding.rescale * np.abs(chunks - chunks[best])
    np.put_along_axis(spread, best, 0.0, axis=-1)
    with np.errstate(under="ignore"):
        weight = np.exp(gap)
        high = np.exp(np.minimum(gap + spread, _LARGEST_EXPONENT))
        # Small spreads by expm1, which loses nothing; large ones by the difference.
        rise = np.where(spread < 1, weight * np.expm1(np.minimum(spread, 1)), high - weight)
        low = np.exp(gap - spread).sum(axis=-1, keepdims=True)
    size = np.abs(terms.v)
    first = (rise @ size + rise.sum(axis=-1, keepdims=True) * np.abs(out)) / low
    floor = rounding.floor * terms.scores.shape[-1] * terms.largest_v[:, None, None]
    own = rounding.numerator * (high @ size) / low + rounding.denominator * (np.abs(out) + first) + floor
    hull = (size.max(axis=1, keepdims=True) + np.abs(out)) * (1 + rounding.numerator + rounding.denominator) + floor
    return np.asarray(np.minimum(first + own / (1 - rounding.denominator), hull / (1 - rounding.denominator)) * WIDENED)
