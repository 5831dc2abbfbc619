"""The sampler against its definition in exact numbers, and tokens that follow from seed and place alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.engine import sampler
from strata.engine.sampler import MOST_TOKENS, WEIGHT_BITS, Sampling, sample
from strata.executors.base import StrataError

Logits = np.ndarray[Any, np.dtype[np.float32]]

FLOATS = st.floats(-20, 20, width=32) | st.sampled_from([0.0, 1.0, -math.inf, 2.5])
ROWS = st.lists(FLOATS, min_size=1, max_size=12).filter(lambda row: max(row) > -math.inf)
WRITTEN = [0, 1, 0, 0, 0, 1, 3, 2, 7, 2, 1, 1, 2, 0, 7, 2, 7, 0, 2, 0, 5, 5, 2, 0]
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.floats(0.01, 5) | st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**64 - 1),
    top_k=st.integers(0, 13),
    top_p=st.floats(0.001, 1) | st.sampled_from([0.5, 1.0]),
    min_p=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]),
    repeat_penalty=st.floats(0.5, 2) | st.just(1.0),
    repeat_window=st.integers(0, 4),
)


def row(values: Sequence[float]) -> Logits:
    return np.array(values, np.float32)


def weight(z: float) -> int:
    """rint(2^WEIGHT_BITS exp(z)) of a real number, by mpmath."""
    with mpmath.workprec(200):
        return int(mpmath.nint(mpmath.exp(mpmath.mpf(z)) * 2**WEIGHT_BITS))


def defined(logits: Sequence[float], tokens: Sequence[int], chosen: Sampling) -> int:
    """The token by the definition, with Python's numbers alone."""
    x = [float(np.float32(value)) for value in logits]
    for token in set(tokens[-chosen.repeat_window :] if chosen.repeat_window else []):
        x[token] = x[token] / chosen.repeat_penalty if x[token] > 0 else x[token] * chosen.repeat_penalty
    if chosen.temperature == 0:
        return x.index(max(x))
    kept = sorted(range(len(x)), key=lambda token: (-x[token], token))[: chosen.top_k or None]
    weights = {token: weight((x[token] - max(x)) / chosen.temperature) for token in kept}
    kept.sort(key=lambda token: (-weights[token], token))
    nucleus: list[int] = []
    while kept and sum(weights[token] for token in nucleus) < Fraction(chosen.top_p) * sum(weights.values()):
        nucleus.append(kept.pop(0))
    least = Fraction(chosen.min_p) * 2**WEIGHT_BITS
    final = sorted(token for token in nucleus if weights[token] >= least and weights[token])
    high, low = np.random.Philox(key=chosen.seed, counter=len(tokens)).random_raw(2)
    drawn = ((int(high) << 64 | int(low)) * sum(weights[token] for token in final)) >> 128
    for token in final:
        drawn -= weights[token]
        if drawn < 0:
            return token
    raise AssertionError("no token drawn")


@given(ROWS, st.lists(st.integers(0, 11), max_size=6), SAMPLINGS)
def test_the_token_is_that_of_the_definition(logits: list[float], tokens: list[int], chosen: Sampling) -> None:
    tokens = [token % len(logits) for token in tokens]
    assert sample(row(logits), tokens, chosen) == defined(logits, tokens, chosen)


@given(st.lists(st.floats(sampler._NOTHING, 0), min_size=1, max_size=40))
def test_weights_are_those_of_the_exponential(z: list[float]) -> None:
    found = sampler._scaled_exp(np.array(z))
    with mpmath.workprec(200):
        for one, value in zip(found, z, strict=True):
            # Half for the nearest whole number, and 2^-48 of the value at most before that.
            true = mpmath.exp(mpmath.mpf(value)) * 2**WEIGHT_BITS
            assert abs(int(one) - true) <= mpmath.mpf(1) / 2 + true * mpmath.mpf(2) ** -48


def test_the_heaviest_weighs_a_power_of_two_and_the_lightest_nothing() -> None:
    ends = np.array([0.0, sampler._NOTHING])
    assert sampler._scaled_exp(ends).tolist() == [1 << WEIGHT_BITS, 0]
    assert weight(sampler._NOTHING) == 0
    # Sums of a whole vocabulary of heaviest weights, and a weight with its token, are numbers of int64.
    assert MOST_TOKENS << WEIGHT_BITS <= 1 << 62
    assert ((1 << WEIGHT_BITS) + 1) << sampler.TOKEN_BITS < 1 << 63


def test_a_token_depends_on_its_place_and_not_on_what_was_drawn_before() -> None:
    logits = np.random.Generator(np.random.Philox(7)).standard_normal((40, 300)).astype(np.float32)
    chosen = Sampling(temperature=1.0, seed=3, top_k=200, top_p=0.95, min_p=0.001, repeat_penalty=1.1)
    tokens = list(range(40))
    forward = [sample(logits[place], tokens[:place], chosen) for place in range(40)]
    backward = [sample(logits[place], tokens[:place], chosen) for place in reversed(range(40))]
    assert forward == backward[::-1]
    other = Sampling(temperature=1.0, seed=4, top_k=200, top_p=0.95, min_p=0.001, repeat_penalty=1.1)
    assert forward != [sample(logits[place], tokens[:place], other) for place in range(40)]


def test_tokens_of_a_seed_are_these_everywhere() -> None:
    """Written down once: another machine, NumPy or Python gives the same."""
    logits = row([3.0, 2.5, 2.5, -1.0, 0.0, 1.0, -math.inf, 2.0])
    found = [sample(logits, [0] * place, Sampling(temperature=1.5, seed=2**64 - 1)) for place in range(24)]
    assert found == WRITTEN


def test_shares_are_those_of_the_weights() -> None:
    """2,048 places of one row: counts within six standard deviations of what the weights say."""
    logits, draws = row([0.0, math.log(2), math.log(5)]), 2048
    counts = np.bincount([sample(logits, range(n), Sampling(temperature=1.0, seed=11)) for n in range(draws)])
    for count, share in zip(counts, (1 / 8, 2 / 8, 5 / 8), strict=True):
        assert abs(count - draws * share) < 6 * math.sqrt(draws * share * (1 - share))


def test_large_rows_and_nuclei_wider_than_the_first_look() -> None:
    logits = np.zeros(3 * sampler._FIRST, np.float32)
    chosen = Sampling(temperature=1.0, top_p=0.75)
    found = {sample(logits, [0] * place, chosen) for place in range(300)}
    # Equal weights: the smaller tokens come first.
    assert max(found) < 0.75 * len(logits)
    assert max(found) > 0.7 * len(logits)


@settings(max_examples=30)
@given(ROWS, st.integers(1, 12))
def test_top_k_of_equals_keeps_the_smaller_tokens(logits: list[float], k: int) -> None:
    x = row(logits)
    kept = sampler._largest(x, k).tolist()
    assert kept == sorted(sorted(range(len(x)), key=lambda token: (-float(x[token]), token))[:k])


def test_greedy_takes_the_smallest_of_equals_after_the_penalty() -> None:
    assert sample(row([1, 3, 3, 2]), [], Sampling()) == 1
    assert sample(row([1, 3, 3, 2]), [1], Sampling(repeat_penalty=1.01)) == 2
    assert sample(row([-1, -3, -3, -2]), [0], Sampling(repeat_penalty=4)) == 3
    assert sample(row([1, 3, 2.9, 2]), [1, 0], Sampling(repeat_penalty=2, repeat_window=1)) == 1


def test_a_penalty_beyond_every_number_is_no_infinity() -> None:
    chosen = Sampling(temperature=1.0, repeat_penalty=5e-324)
    assert sample(row([1, 3, 3]), [0, 1], chosen) in (0, 1)
    assert sample(row([-1, -3, -3]), [0, 1], Sampling(temperature=1e-300, repeat_penalty=1e308)) == 2


@pytest.mark.parametrize(
    ("logits", "why"),
    [
        ([1, math.nan, 2], "a logit of 3 is not a number; expected finite"),
        ([1, math.inf, 2], "a logit of 3 is infinite"),
        ([-math.inf, -math.inf], "no logit of 2 is above -inf"),
        ([], r"logits of shape \(0,\)"),
        ([[1, 2]], r"logits of shape \(1, 2\)"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_say_nothing(logits: Any, why: str, temperature: float) -> None:
    with pytest.raises(StrataError, match=why):
        sample(row(logits), [], Sampling(temperature=temperature))


def test_a_token_before_that_the_vocabulary_does_not_have() -> None:
    for tokens in ([3], [-1]):
        with pytest.raises(StrataError, match="came before; expected 0 to 2"):
            sample(row([1, 2, 3]), tokens, Sampling(repeat_penalty=2))


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("temperature", (-0.1, math.nan, math.inf), "temperature {}: expected a number 0 or more"),
        ("seed", (-1, 1 << 64), "seed {}: expected a whole number of 0 to 18446744073709551615"),
        ("top_k", (-1, MOST_TOKENS + 1), "top-k {}: expected a whole number of 0 to 1048576"),
        ("top_p", (0.0, -1.0, 1.0001, math.nan), "top-p {}: expected a number above 0 and at most 1"),
        ("min_p", (-0.1, 1.1, math.nan), "min-p {}: expected a number 0 to 1"),
        ("repeat_penalty", (0.0, -1.0, math.inf, math.nan), "repeat penalty {}: expected a number above 0"),
        ("repeat_window", (-1, (1 << 24) + 1), "repeat window {}: expected a whole number of 0 to 16777216"),
    ],
)
def test_values_out_of_range(name: str, values: tuple[Any, ...], why: str) -> None:
    for value in values:
        with pytest.raises(StrataError) as caught:
            Sampling(**{name: value})
        assert str(caught.value) == why.format(value)
