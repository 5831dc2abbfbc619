"""The bound of RMSNorm holds at every size, is not idle, and refuses what is wrong in the usual ways."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.rms_norm import bound, reference


def drawn(seed: int, n: int, exponent: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    stream = Stream.of(seed, "bound")
    sizes = (stream.child("size").below(9, (5, 1)) + exponent).astype(np.int32)
    x = np.ldexp(stream.child("x").normals((5, n)), sizes).astype(np.float32)
    return x, stream.child("w").normals(n, 2), stream.child("r").normals((5, n), 3)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 100),
    st.integers(-149, 46),
    st.sampled_from([2.0**-126, float(np.float32(1e-6)), 1.0]),
    st.booleans(),
)
def test_the_defined_arithmetic_stays_within_the_bound(
    seed: int, fours: int, exponent: int, eps: float, with_residual: bool
) -> None:
    x, weight, residual = drawn(seed, 4 * fours, exponent)
    parts = (x, weight, residual if with_residual else None, eps)
    error = np.abs(reference.norm_bits(*parts) - reference.norm(*parts))
    assert (error <= bound.norm(*parts)).all()


def test_against_mpmath() -> None:
    """So that no error of the reference makes room for one of the bound."""
    x, weight, _ = drawn(1, 16, -4)
    eps = float(np.float32(1e-6))
    got, limit = reference.norm_bits(x, weight, None, eps), bound.norm(x, weight, None, eps)
    with mpmath.workdps(40):
        for t in range(len(x)):
            root = mpmath.sqrt(sum(mpmath.mpf(float(v)) ** 2 for v in x[t]) / 16 + mpmath.mpf(eps))
            for c in range(16):
                exact = mpmath.mpf(float(x[t, c])) / root * float(weight[c])
                assert abs(mpmath.mpf(float(got[t, c])) - exact) <= limit[t, c]


def test_the_bound_is_within_ten_times_of_what_happens() -> None:
    x, weight, _ = drawn(2, 640, 0)
    parts = (x, weight, None, float(np.float32(1e-6)))
    assert (np.abs(reference.norm_bits(*parts) - reference.norm(*parts)) / bound.norm(*parts)).max() > 0.1


def test_the_bound_refuses_what_is_wrong_in_the_usual_ways() -> None:
    x, weight, residual = drawn(3, 64, -9)
    eps = float(np.float32(1e-6))
    want, limit = reference.norm(x, weight, residual, eps), bound.norm(x, weight, residual, eps)
    for wrong in (
        reference.norm(x, weight, None, eps),
        reference.norm(x, weight, residual, 0.0),
        reference.norm(x, weight[::-1], residual, eps),
        reference.norm(x, weight + 1, residual, eps),
        reference.norm(np.roll(x, 1, axis=0), weight, residual, eps),
        residual + x / np.sqrt(np.square(x.astype(np.float64)).sum(axis=1, keepdims=True) / 60 + eps) * weight,
    ):
        assert (np.abs(wrong - want) > limit).any()
