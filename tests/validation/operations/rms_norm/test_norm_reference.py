"""The reference of RMSNorm: FP64 by mpmath, its bits against a scalar walk."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np

from validation.core.random_streams import Stream
from validation.numerics.tensorcore_model import float_of
from validation.operations.rms_norm import reference


def test_fp64_is_the_definition() -> None:
    stream = Stream.of(1, "norm")
    x, weight, residual = (
        stream.child(name).normals(shape) for name, shape in (("x", (2, 12)), ("w", 12), ("r", (2, 12)))
    )
    got = reference.norm(x, weight, residual, 2.0**-20)
    with mpmath.workdps(40):
        for t in range(2):
            root = mpmath.sqrt(sum(mpmath.mpf(float(v)) ** 2 for v in x[t]) / 12 + mpmath.mpf(2) ** -20)
            for c in range(12):
                exact = float(residual[t, c]) + mpmath.mpf(float(x[t, c])) / root * float(weight[c])
                assert abs(got[t, c] - exact) <= 2.0**-48


def _rounded(exact: Fraction) -> np.float32:
    return np.float32(np.uint32(float_of(exact, "rne")).view(np.float32))


def test_bits_are_those_of_a_walk_by_lane() -> None:
    """140 columns: lanes 0 to 2 have two fours, lanes 3 to 31 one."""
    x = np.ldexp(Stream.of(2, "walk").normals((2, 140)), np.array([[-3], [60]], np.int32))
    for t, got in enumerate(reference.squares(x)):
        lanes = [np.float32(0)] * 32
        for c in range(140):
            lane, value = c % 128 // 4, Fraction(float(x[t, c]))
            lanes[lane] = _rounded(value * value + Fraction(float(lanes[lane])))
        for offset in (16, 8, 4, 2, 1):
            lanes = [_rounded(Fraction(float(lanes[i])) + Fraction(float(lanes[i ^ offset]))) for i in range(32)]
        assert lanes[0] == got


def test_every_step_behind_the_sum_is_rounded() -> None:
    stream = Stream.of(3, "steps")
    x, weight, residual = (
        stream.child(name).normals(shape) for name, shape in (("x", (3, 8)), ("w", 8), ("r", (3, 8)))
    )
    eps = float(np.float32(1e-6))
    got = reference.norm_bits(x, weight, residual, eps)
    for t, total in enumerate(reference.squares(x)):
        mean = _rounded(Fraction(float(total)) / 8)
        root = np.sqrt(_rounded(Fraction(float(mean)) + Fraction(eps)))
        scale = _rounded(1 / Fraction(float(root)))
        for c in range(8):
            scaled = _rounded(Fraction(float(x[t, c])) * Fraction(float(scale)))
            product = _rounded(Fraction(float(scaled)) * Fraction(float(weight[c])))
            assert _rounded(Fraction(float(residual[t, c])) + Fraction(float(product))) == got[t, c]


def test_rows_that_are_not_finite_are_lost_whole() -> None:
    x = np.ones((4, 8), np.float32)
    x[0, 7], x[1, 0], x[2, 3] = np.nan, -np.inf, 2.0**64
    assert reference.lost(x) == 3
    out = reference.norm_bits(x, np.ones(8, np.float32), None, 2.0**-20)
    assert (out[:3].view(np.uint32) == 0x7FFFFFFF).all()
    assert np.isfinite(out[3]).all()
