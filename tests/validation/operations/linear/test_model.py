"""The model of dense products: the bits of a walk in exact rationals, and what IEEE 754 makes of odd numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.operations.linear.exact import MODES, codes_of, dot, drawn, one, rounded_product
from validation.core.random_streams import Stream
from validation.numerics.fma import NAN
from validation.operations.experts.reference import quantise
from validation.operations.linear import model, units
from validation.operations.linear.formats import GROUP
from validation.operations.linear.model import Matrix

KINDS = st.sampled_from(["bell", "decades", "ladder", "extreme"])


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32), KINDS, st.integers(-130, 60))
def test_bits_are_those_of_a_walk_over_groups(mode: str, seed: int, kind: str, exponent: int) -> None:
    matrix, x = drawn(seed, mode, kind, exponent)
    got = model.bits(mode, matrix, x).out
    for row in range(len(x)):
        for output in range(len(matrix)):
            assert rounded_product(mode, matrix, output, x[row]) == float(got[row, output])


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.integers(-150, 125))
def test_units_hold_scales_sums_and_codes(seed: int, exponent: int) -> None:
    """In the order of the layout; groups behind the end of a row are zeros."""
    x = np.ldexp(Stream.of(seed).normals((2, 5 * GROUP)).astype(np.float64), exponent).astype(np.float32)
    packed = units.packed(quantise(x))
    assert packed.shape == units.shape(2, 5 * GROUP) == (2, 2, 160)
    for row in range(2):
        for group in range(8):
            codes, d = codes_of(x[row, GROUP * group : GROUP * (group + 1)]) if group < 5 else ([0] * GROUP, 0)
            unit, place = packed[row, group // 4], group % 4
            assert unit[32 + 32 * place : 64 + 32 * place].view(np.int8).tolist() == codes
            assert unit[16 + 4 * place :][:4].view("<i4")[0] == sum(codes)
            assert unit[4 * place :][:4].view("<f4")[0] == d


def matrix(scale: float, code: int = 1, offset: float | None = None) -> Matrix:
    """One output of one group of equal codes."""
    offsets = None if offset is None else np.full((1, 1), offset, np.float32)
    return Matrix(np.full((1, GROUP), code, np.int8), np.full((1, 1), scale, np.float32), offsets)


@pytest.mark.parametrize(
    ("w", "value", "due"),
    [
        (matrix(np.inf), 1.0, np.inf),
        (matrix(-np.inf), 1.0, -np.inf),
        (matrix(np.inf, 0), 1.0, np.nan),
        (matrix(np.nan), 1.0, np.nan),
        (matrix(1.0, 1, np.inf), 1.0, -np.inf),
        (matrix(np.inf, 1, np.inf), 1.0, np.nan),
        (matrix(1.0), np.inf, np.nan),
        (matrix(1.0), 0.0, 0.0),
        (matrix(-1.0), 0.0, 0.0),
        (matrix(np.inf), 0.0, np.nan),
    ],
)
def test_infinities_and_nan_go_the_way_of_ieee(w: Matrix, value: float, due: float) -> None:
    x = np.full((1, GROUP), value, np.float32)
    got = model.product(w, quantise(x))
    expected = np.array([[due]], np.float32)
    if np.isnan(due):
        expected.view(np.uint32)[...] = NAN
    assert got.view(np.uint32).tolist() == expected.view(np.uint32).tolist()


@pytest.mark.parametrize("each", [1, 2])
def test_scales_and_offsets_with_all_their_bits_are_rounded_where_the_definition_says(each: int) -> None:
    """Products of 29 bits and more, under which a rounding in between would show."""
    stream, outputs = Stream.of(each), 40
    codes = (stream.child("codes").below(31, (outputs, GROUP)) + 1).astype(np.int8)
    odd = [2 * stream.child(name).below(1 << 16, (outputs, each)) + 1 for name in ("scales", "offsets")]
    scales, offsets = (np.ldexp(one.astype(np.float32), -12) for one in odd)
    x = np.abs(stream.child("x").normals((1, GROUP))) + 1
    w = Matrix(codes, scales, offsets if each == 1 else None)
    c, d = codes_of(x[0])
    for got, q, s, m in zip(model.product(w, quantise(x))[0], codes.tolist(), scales, offsets, strict=True):
        dots = [dot(q[at : at + GROUP // each], c[at : at + GROUP // each]) for at in range(0, GROUP, GROUP // each)]
        v = one(Fraction(float(s[0])) * dots[0])
        v = one(v - Fraction(float(m[0])) * sum(c)) if each == 1 else one(v + Fraction(float(s[1])) * dots[1])
        assert float(got) == one(v * d)


def test_a_group_that_is_no_number_is_lost_alone() -> None:
    x = np.ones((2, 3 * GROUP), np.float32)
    x[0, GROUP] = np.nan
    codes = quantise(x)
    assert codes.lost == 1
    assert np.isnan(codes.scale).tolist() == [[False, True, False], [False] * 3]
    assert (codes.q[0, GROUP : 2 * GROUP] == 0).all()


def test_a_negative_sum_too_small_for_a_number_is_minus_zero() -> None:
    """As fma rounds it; a sum of a zero product with +0 is +0."""
    small = np.float32(2.0**-100)
    w = Matrix(np.full((1, GROUP), -1, np.int8), np.full((1, 1), small), None)
    x = np.full((1, GROUP), 2.0**-60, np.float32)
    assert model.product(w, quantise(x)).view(np.uint32).tolist() == [[0x80000000]]


def test_parts_of_rows_have_the_bits_of_the_whole() -> None:
    given, x = drawn(3, "f16", "bell", 0, rows=5, outputs=3)
    w = given.view(np.float16).astype(np.float32)
    whole = model.of_halves(w, x)
    assert [model.of_halves(w, x[row : row + 1]).tolist()[0] for row in range(5)] == whole.tolist()
