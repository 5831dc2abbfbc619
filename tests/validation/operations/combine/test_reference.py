"""The reference of combining: its sum by rationals, its sigmoid by mpmath, its bits against a scalar walk."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np

from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2
from validation.numerics.tensorcore_model import float_of, float_value
from validation.operations.combine import reference


def test_the_sum_is_that_of_rationals() -> None:
    stream = Stream.of(1, "sum")
    rows, weights = stream.child("rows").normals((3, 6, 8)), stream.child("weights").normals((3, 6), -2)
    got = reference.combine(rows, weights)
    for t in range(3):
        for c in range(8):
            exact = sum(Fraction(float(weights[t, r])) * Fraction(float(rows[t, r, c])) for r in range(6))
            assert abs(Fraction(float(got[t, c])) - exact) < Fraction(1, 2**45)


def test_the_sigmoid_is_right_at_both_ends() -> None:
    gates = np.array([0, 1, -1, 30, -30, 80, -80, 200, -200, 3e38, -3e38], np.float32)
    with mpmath.workdps(60):
        for gate, got in zip(gates, reference.sigmoid(gates), strict=True):
            exact = 1 / (1 + mpmath.exp(-mpmath.mpf(float(gate)))) if abs(gate) < 1e6 else mpmath.mpf(float(gate > 0))
            assert abs(mpmath.mpf(float(got)) - exact) <= exact * mpmath.mpf(2) ** -50


def test_bits_are_those_of_a_walk_in_rank_order() -> None:
    stream = Stream.of(2, "walk")
    rows, weights = stream.child("rows").normals((2, 5, 4)), stream.child("weights").normals((2, 5), -2)
    shared, gate = stream.child("shared").normals((2, 4)), stream.child("gate").normals(2, 1)
    got = reference.combine_bits(rows, weights, shared, gate)

    def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
        exact = sum((float_value(int(x.view(np.uint32))) for x in (c,)), start=Fraction(float(a)) * Fraction(float(b)))
        return np.float32(np.uint32(float_of(exact, "rne")).view(np.float32))

    for t in range(2):
        share = np.float32(1) / (np.float32(1) + exp2(gate[t : t + 1] * reference.MINUS_LOG2_E)[0])
        for c in range(4):
            s = np.float32(0)
            for r in range(5):
                s = fma(weights[t, r], rows[t, r, c], s)
            assert fma(share, shared[t, c], s) == got[t, c]


def test_infinities_of_both_signs_stay() -> None:
    """A sum that leaves the range of float32, an infinite row, and what goes on from there."""
    huge = np.float32(3e38)  # twice of it overflows
    rows = np.array([[huge, 1], [-huge, 1], [np.inf, 1], [-np.inf, 1], [-huge, huge], [-np.inf, np.inf]], np.float32)
    got = reference.combine_bits(rows[:, :, None], np.full((6, 2), 2, np.float32))[:, 0]
    assert got[:5].tolist() == [np.inf, -np.inf, np.inf, -np.inf, -np.inf]
    assert np.isnan(got[5])
