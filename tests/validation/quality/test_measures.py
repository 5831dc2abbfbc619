"""Divergence, agreement and spread, against their definitions."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.quality.conftest import close
from validation.quality.fp64_model import log_softmax
from validation.quality.measures import agreeing, compared, digests, divergence, spread

seeds = st.integers(0, 2**32 - 1)


def logits(seed: int, n: int, vocabulary: int) -> np.ndarray:
    return (4 * np.random.default_rng(seed).standard_normal((n, vocabulary))).astype(np.float32)


@given(seeds, st.integers(1, 40), st.integers(2, 30))
@settings(max_examples=25)
def test_everything_that_is_told_of_two_settings(seed: int, n: int, vocabulary: int) -> None:
    a, b = logits(seed, n, vocabulary), logits(seed + 1, n, vocabulary)
    tokens = np.random.default_rng(seed).integers(0, vocabulary, n)
    told = compared(a, b, tokens)
    kl, top, first, second = [], [], [], []
    for row in range(n):
        exps = [[math.exp(float(v)) for v in one[row]] for one in (a, b)]
        p, q = ([v / math.fsum(one) for v in one] for one in exps)
        kl.append(math.fsum(x * math.log(x / y) for x, y in zip(p, q, strict=True)))
        top.append(int(np.argmax(a[row])) == int(np.argmax(b[row])))
        if row + 1 < n:
            first.append(math.log(p[tokens[row + 1]]))
            second.append(math.log(q[tokens[row + 1]]))
    # Logits are below 40 or so, and so are logarithms; sums have as many terms as the vocabulary.
    close(told.kl, np.array(kl), steps=200 * vocabulary)
    close(told.likelihood_a, np.array(first), steps=200 * vocabulary)
    close(told.likelihood_b, np.array(second), steps=200 * vocabulary)
    assert told.same_top.tolist() == top


@given(seeds)
def test_equal_logits_have_no_divergence_and_others_have_some(seed: int) -> None:
    a, b = (log_softmax(logits(one, 3, 20)) for one in (seed, seed + 1))
    assert not divergence(a, a).any()
    assert (divergence(a, b) > 0).all()


def test_where_p_is_nothing_q_does_not_matter() -> None:
    with np.errstate(divide="ignore"):
        p, q = np.log([[1.0, 0.0]]), np.log([[0.5, 0.5]])
    assert divergence(p, q).tolist() == [math.log(2)]
    assert divergence(q, p).tolist() == [math.inf]
    assert np.isnan(divergence(np.full((1, 2), np.nan), q)).all()


def test_digests_tell_bits_apart_that_compare_equal() -> None:
    zero, minus = np.zeros((1, 2), np.float32), -np.zeros((1, 2), np.float32)
    assert digests([(0, zero)]) != digests([(0, minus)])
    assert digests([(0, np.vstack([zero, minus]))]) == digests([(0, zero), (1, minus)])


def test_spread() -> None:
    found = spread([1.0, 2.0, 3.0, 10.0])
    assert (found.count, found.median, found.mean, found.largest) == (4, 2.5, 4.0, 10.0)
    assert math.isclose(found.error, math.sqrt((9 + 4 + 1 + 36) / 3 / 4))
    assert math.isnan(spread([5.0]).error)
    assert math.isnan(spread([]).mean)
    assert math.isnan(spread([1.0, math.nan]).largest)


def test_agreeing() -> None:
    assert agreeing([1, 2, 3], [1, 2, 3]) == 3
    assert agreeing([1, 2, 3], [1, 9, 3]) == 1
    assert agreeing([], []) == 0
