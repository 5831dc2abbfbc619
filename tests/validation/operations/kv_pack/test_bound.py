"""The bound of the float32 Hadamard transform holds and is not idle."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.kv_pack import bound as bounds
from validation.operations.kv_pack.reference import hadamard, hadamard32


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(-140, 100), st.booleans())
def test_the_defined_arithmetic_stays_within_the_bound(seed: int, exponent: int, outlier: bool) -> None:
    x = Stream.of(seed, "x").normals((4, 256), exponent)
    if outlier:
        x[:, seed % 256] *= np.float32(4096)
    assert (np.abs(hadamard32(x) - hadamard(x)) <= bounds.hadamard(x)).all()


def test_the_bound_is_within_a_hundred_times_of_what_happens() -> None:
    x = Stream.of(1, "x").normals((400, 256))
    assert (np.abs(hadamard32(x) - hadamard(x)) / bounds.hadamard(x)).max() > 0.01


def test_integers_transform_exactly() -> None:
    x = (Stream.of(1, "i").below(4096, (10, 256)) - 2048).astype(np.float32)
    assert np.array_equal(hadamard32(x), hadamard(x))
