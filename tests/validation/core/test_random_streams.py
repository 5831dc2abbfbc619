"""Draws are fixed bytes, and what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.core.random_streams import NORMAL_BITS, Stream, power_of_two, scaled

SEEDS = st.integers(0, 2**64 - 1)


def test_words_are_splitmix64() -> None:
    # The published first outputs of splitmix64 for seed 1234567 (the reference program of its author).
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert Stream(1234567).words(5).tolist() == expected


def test_bytes_of_a_named_stream_never_change() -> None:
    stream = Stream.of(7, "uniform", "k", 3)
    assert stream.words(2).tolist() == [751894479374721237, 4844100961797831193]
    assert stream.normals(3).view(np.uint32).tolist() == [3216979176, 3203273536, 3196665088]


@given(SEEDS, st.integers(0, 40), st.integers(0, 40))
def test_a_prefix_does_not_depend_on_the_length(seed: int, short: int, more: int) -> None:
    stream = Stream.of(seed, "x")
    assert np.array_equal(stream.words(short), stream.words(short + more)[:short])
    assert np.array_equal(stream.octets(short), stream.octets(short + more)[:short])


@given(SEEDS)
def test_names_give_unrelated_streams(seed: int) -> None:
    keys = [
        Stream.of(seed, *names).key for names in ((), ("a",), ("b",), ("a", "b"), ("ab",), ("b", "a"), (1,), ("1",))
    ]
    assert len(set(keys)) == len(keys)
    assert Stream.of(seed, "a").key != Stream.of(seed ^ 1, "a").key


@given(SEEDS, st.integers(1, 2**31), st.integers(1, 300))
def test_below_stays_below(seed: int, bound: int, count: int) -> None:
    drawn = Stream.of(seed).below(bound, count)
    assert drawn.min() >= 0
    assert drawn.max() < bound


def test_below_reaches_every_value_about_equally() -> None:
    counts = np.bincount(Stream.of(1, "below").below(7, 70_000), minlength=7)
    # Nine standard deviations of a binomial count.
    assert np.abs(counts - 10_000).max() < 9 * np.sqrt(70_000 * 6 / 49)


@pytest.mark.parametrize("bound", [0, -1, 2**31 + 1])
def test_below_refuses_other_bounds(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        Stream(0).below(bound, 1)


def test_normals_have_the_stated_mean_and_deviation() -> None:
    count = 1 << 18
    x = Stream.of(2, "normal").normals(count).astype(np.float64)
    assert abs(x.mean()) < 6 / np.sqrt(count)
    assert abs(x.std() - 1) < 6 / np.sqrt(count)
    assert np.abs(x).max() <= 3
    assert x.min() < -2.5
    assert x.max() > 2.5


@given(SEEDS, st.integers(-100, 100))
def test_normals_are_their_integers_scaled_exactly(seed: int, exponent: int) -> None:
    stream = Stream.of(seed)
    exact = stream.normal_ints(50).astype(np.float64) * 2.0 ** (exponent - NORMAL_BITS)
    assert np.array_equal(stream.normals(50, exponent).astype(np.float64), exact)


def test_scaled_rounds_subnormals_once() -> None:
    assert scaled(np.array([3, 1, 5]), -150).view(np.uint32).tolist() == [2, 0, 2]


@given(SEEDS, st.integers(0, 200))
def test_permutation_holds_every_index_once(seed: int, count: int) -> None:
    assert np.array_equal(np.sort(Stream.of(seed).permutation(count)), np.arange(count))


@pytest.mark.parametrize("exponent", [-1022, -1, 0, 1, 1023])
def test_power_of_two_is_exact(exponent: int) -> None:
    assert power_of_two(exponent) == np.ldexp(1.0, exponent)


@pytest.mark.parametrize("exponent", [-1023, 1024])
def test_power_of_two_refuses_what_is_not_normal(exponent: int) -> None:
    with pytest.raises(ValueError, match="exponent"):
        power_of_two(exponent)
