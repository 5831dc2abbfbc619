"""Kinds of numbers reach their ends, and go no further."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.fuzz_numbers import NUMBERS, floats, halves
from validation.core.random_streams import Stream

STREAM = Stream.of(1, "ends")


def test_halves() -> None:
    finite = halves(STREAM, (1 << 14,), "finite")
    assert np.isfinite(finite).all()
    assert (np.abs(finite[finite != 0]) < 2.0**-14).any()  # subnormals
    assert np.abs(finite).max() > 2.0**14
    moderate = halves(STREAM, (1 << 14,), "moderate").astype(np.float64)
    assert np.abs(moderate).min() >= 2.0**-12
    assert np.abs(moderate).max() < 2.0**4
    assert (moderate < 0).any()
    for numbers in ("special", "raw"):
        assert np.isnan(halves(STREAM, (1 << 17,), numbers)).any()
    assert np.isinf(halves(STREAM, (1 << 17,), "raw")).any()


def test_floats() -> None:
    finite = floats(STREAM, (1 << 14,), "finite")
    assert np.isfinite(finite).all()
    assert (np.abs(finite[finite != 0]) < 2.0**-126).any()
    assert np.abs(finite).max() > 2.0**126
    moderate = floats(STREAM, (1 << 10,), "moderate").astype(np.float64)
    assert np.ptp(moderate) < 2.0**14
    assert (moderate < 0).any()
    special = floats(STREAM, (1 << 21,), "special")
    assert not np.isfinite(special).all()
    assert np.isfinite(special).mean() > 0.99
    raw = floats(STREAM, (1 << 14,), "raw")
    assert np.isnan(raw).any()
    assert np.isposinf(raw).any()
    assert np.isneginf(raw).any()


@pytest.mark.parametrize("numbers", NUMBERS)
def test_bits_are_a_function_of_the_stream(numbers: str) -> None:
    for kind in (halves, floats):
        assert kind(STREAM, (9, 7), numbers).tobytes() == kind(STREAM, (9, 7), numbers).tobytes()
        assert kind(STREAM, (9, 7), numbers).tobytes() != kind(STREAM.child("other"), (9, 7), numbers).tobytes()
