"""The bound of combined rows holds and is not idle."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2
from validation.operations.combine import bound as bounds
from validation.operations.combine import reference


def drawn(seed: int, ranks: int, exponent: int) -> dict[str, np.ndarray]:
    stream = Stream.of(seed, "combine")
    sizes = stream.child("size").below(30, (5, ranks, 1)) + exponent
    return {
        "rows": np.ldexp(stream.child("rows").normals((5, ranks, 16)), sizes.astype(np.int32)),
        "weights": stream.child("weights").normals((5, ranks), -3),
        "shared": stream.child("shared").normals((5, 16), exponent + 20),
        "shared_gate": stream.child("gate").normals(5, 4),
    }


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(-140, 60))
def test_the_defined_arithmetic_stays_within_the_bound(seed: int, ranks: int, exponent: int) -> None:
    made = drawn(seed, ranks, exponent)
    error = np.abs(reference.combine_bits(**made) - reference.combine(**made))
    assert (error <= bounds.rows(**made)).all()


def test_the_bound_is_within_a_hundred_times_of_what_happens() -> None:
    made = drawn(1, 10, 0)
    assert (np.abs(reference.combine_bits(**made) - reference.combine(**made)) / bounds.rows(**made)).max() > 0.01


def test_the_sigmoid_stays_within_its_bound_at_every_size() -> None:
    """Gates of both signs from 2**-30 to 2**7, and where exp2 gives 0 and infinity."""
    sizes = np.ldexp(np.array([1, -1, 1.4, -1.7]), np.arange(-30, 8)[:, None]).reshape(-1)
    ends = [87.3, -87.3, 88.7, -88.8, 89, -89, 104, -104, 3e38, -3e38]
    gates = np.concatenate([sizes, ends]).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        got = np.float32(1) / (np.float32(1) + exp2(gates * reference.MINUS_LOG2_E))
    limit = bounds.gate(gates)
    with mpmath.workdps(60):
        for g, value, most in zip(gates.tolist(), got.tolist(), limit.tolist(), strict=True):
            exact = 1 / (1 + mpmath.exp(-mpmath.mpf(g))) if abs(g) < 1e6 else mpmath.mpf(g > 0)
            assert abs(mpmath.mpf(value) - exact) <= most, g


def test_the_bound_refuses_what_is_wrong_in_the_usual_ways() -> None:
    made = drawn(3, 10, -15)
    want, limit = reference.combine(**made), bounds.rows(**made)
    without = reference.combine(made["rows"], made["weights"])
    turned = reference.combine(made["rows"], made["weights"][:, ::-1], made["shared"], made["shared_gate"])
    halved = reference.combine(made["rows"], made["weights"], made["shared"], made["shared_gate"] / 2)
    for wrong in (without, turned, halved):
        assert (np.abs(wrong - want) > limit).any()
