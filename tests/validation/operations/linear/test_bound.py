"""The bound of dense products holds against exact arithmetic, is not idle, and says where nothing is promised."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.formats import FORMATS
from tests.validation.operations.linear.exact import MODES, drawn, product, weights
from validation.core.random_streams import Stream
from validation.numerics.roundoff import U
from validation.operations.experts.reference import quantise, values
from validation.operations.linear import blocks, bound, model, reference
from validation.operations.linear.formats import GROUP, HALVES
from validation.operations.linear.reference import Exact

KINDS = st.sampled_from(["bell", "decades", "ladder", "extreme", "cancelling"])


def limits(mode: str, matrix: np.ndarray, x: np.ndarray) -> bound.Limits:
    return bound.limits(mode, reference.exact(mode, matrix), x)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32), KINDS, st.integers(-140, 60))
def test_products_stay_within_the_bound_of_the_exact_ones(mode: str, seed: int, kind: str, exponent: int) -> None:
    """And so does the reference, which leaves the kernel its own errors besides."""
    matrix, x = drawn(seed, mode, kind, exponent)
    got, near = model.bits(mode, matrix, x).out, reference.product(reference.exact(mode, matrix), x)
    made = limits(mode, matrix, x)
    assert made.sound.all()
    for output, w in enumerate(weights(mode, matrix)):
        for row in range(len(x)):
            exact, limit = product(w, x[row]), Fraction(float(made.bound[row, output]))
            assert abs(Fraction(float(got[row, output])) - exact) <= limit
            assert abs(Fraction(float(near[row, output])) - exact) <= limit
            assert abs(float(got[row, output]) - near[row, output]) <= made.bound[row, output]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(-150, 127))
def test_codes_stay_within_their_bound(seed: int, exponent: int) -> None:
    """Of every size, also where a group counts as zeros."""
    whole = Stream.of(seed).normal_ints((2, GROUP)).astype(np.float64)
    x = np.ldexp(whole, exponent - 22).astype(np.float32)
    codes = quantise(x)
    error = np.abs(values(codes) - x.astype(np.float64)).max(axis=-1, keepdims=True)
    assert (error <= bound.codes(x)).all()


def test_the_bound_of_codes_is_reached() -> None:
    """By a value half way between two codes, and where a group counts as zeros."""
    x = np.zeros((3, GROUP), np.float32)
    x[:, 0] = 127, 127 * 2.0**100, 2.0**-125
    x[:2, 1] = 0.5, 0.5 * 2.0**100
    error = np.abs(values(quantise(x)) - x.astype(np.float64)).max(axis=-1)
    limit = bound.codes(x)[:, 0]
    assert (error <= limit).all()
    assert (error > 0.98 * limit).all()


def test_the_edge_of_the_reciprocal_is_covered_on_both_sides() -> None:
    steps = np.arange(-6, 7)
    edge = np.float32(127 / np.float64(np.finfo(np.float32).max))
    x = np.zeros((len(steps), GROUP), np.float32)
    x[:, 0] = (edge.view(np.uint32) + steps).astype(np.uint32).view(np.float32)
    codes = quantise(x)
    assert set((codes.scale[:, 0] == 0).tolist()) == {True, False}
    error = np.abs(values(codes) - x.astype(np.float64)).max(axis=-1)
    assert (error <= bound.codes(x)[:, 0]).all()
    assert (bound.codes(2 * x)[:, 0] < x[:, 0]).all()


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != HALVES])
def test_values_half_way_between_codes_use_all_of_the_bound(mode: str) -> None:
    """With the signs of the weights, so that what rounding takes from each value adds up."""
    stream = Stream.of(1)
    matrix = blocks.matrix(stream, "bell", mode, 3, 256)
    w = reference.exact(mode, matrix)
    x = np.where(w.values[:1] < 0, -2.5, 2.5).astype(np.float32)  # codes 2, which is even
    x[:, ::GROUP] = 127
    error = np.abs(model.bits(mode, matrix, x).out - reference.product(w, x))[0, 0]
    limit = bound.limits(mode, w, x).bound[0, 0]
    assert 0.5 * limit < error <= limit


def opposed(code: int) -> np.ndarray:
    """A row of two blocks of Q5_1 whose offsets take away all of every weight: d = 1 + 2**-10 and m = -d code."""
    octets = np.zeros((1, 2, FORMATS["q5_1"].nbytes), np.uint8)
    d = np.float16(1 + 2.0**-10)
    octets[..., 0:2] = np.array([d], "<f2").view(np.uint8)
    octets[..., 2:4] = np.array([-d * np.float16(code)], "<f2").view(np.uint8)
    octets[..., 8:] = code | code << 4
    return octets.reshape(1, -1)


def test_what_offsets_take_away_still_counts_where_sums_are_rounded() -> None:
    """Weights of nothing, made of two large parts: the product is what rounding leaves, and the bound is not 0."""
    matrix = opposed(8)
    w = reference.exact("q5_1", matrix)
    assert (w.values == 0).all()
    x = np.abs(Stream.of(4).normals((40, 64)))
    got = model.bits("q5_1", matrix, x).out
    made = bound.limits("q5_1", w, x)
    assert made.sound.all()
    assert (np.abs(got) <= made.bound).all()
    assert (made.bound > 2 * U * np.abs(x).sum(axis=1, keepdims=True)).all()


def test_the_roundings_of_fp16_are_within_a_hundred_times_of_what_happens() -> None:
    matrix, x = drawn(2, "f16", "bell", 0, rows=8, outputs=64)
    error = np.abs(model.bits("f16", matrix, x).out - reference.product(reference.exact("f16", matrix), x))
    limit = limits("f16", matrix, x).bound
    assert (error <= limit).all()
    assert (100 * error > limit).any()


def test_a_long_sum_of_fp16_swallows_what_the_bound_allows() -> None:
    """Each of a lane's later products is just below half a place of its sum, and is lost where it is added."""
    w = np.full((1, 8192), np.float16(1)).view(np.uint16)
    x = np.full((1, 8192), 0.99, np.float32)
    x[:, 0] = 2.0**24
    error = np.abs(model.bits("f16", w, x).out - reference.product(reference.exact("f16", w), x))[0, 0]
    limit = limits("f16", w, x).bound[0, 0]
    assert limit / 2 < error <= limit


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_promised_of_what_is_not_finite_or_may_overflow(mode: str) -> None:
    matrix, x = drawn(5, mode, "bell", 0, rows=4, outputs=3)
    w = reference.exact(mode, matrix)
    values, mass = w.values.copy(), w.mass.copy()
    values[1, 3], mass[1, 3] = -np.inf, np.inf
    x[1, 7], x[2, 5] = np.nan, np.inf
    x[3] = np.where(np.isfinite(x[3]), 2.0**127, 0)
    with np.errstate(all="raise"):
        made = bound.limits(mode, Exact(values * 2.0**20, mass * 2.0**20), x)
    assert made.sound.tolist() == [[True, False, True], *[[False] * 3] * 3]
    assert (made.bound[~made.sound] == 0).all()
    assert np.isfinite(made.bound).all()


def test_zeros_are_exact() -> None:
    matrix, x = drawn(6, "q4_0", "bell", 0)
    x[0] = 0
    matrix[1] = 0
    made = limits("q4_0", matrix, x)
    assert made.bound[0].tolist() == [0, 0]
    assert made.bound[:, 1].tolist() == [0, 0]
    assert made.bound[1, 0] > 0


@pytest.mark.parametrize("mode", MODES)
def test_the_bound_refuses_what_is_wrong_in_the_usual_ways(mode: str) -> None:
    matrix, x = drawn(7, mode, "bell", 0, rows=3, outputs=5)
    want, limit = reference.product(reference.exact(mode, matrix), x), limits(mode, matrix, x).bound
    for wrong in (np.zeros_like(want), want * 2, np.roll(want, 1, axis=1), np.roll(want, 1, axis=0), -want):
        assert (np.abs(wrong - want) > limit).any()
