"""Distances in units in the last place, against NumPy's own steps from float to float."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from validation.numerics.ulps import BUCKETS, NOT_A_NUMBER, distance, histogram

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.floats(width=32, allow_nan=False, min_value=-(2.0**100), max_value=2.0**100), st.integers(0, 20))
def test_steps_to_the_next_float_are_units(value: float, steps: int) -> None:
    got = np.array([value], np.float32)
    for _ in range(steps):
        got = np.nextafter(got, np.float32(np.inf))
    # -0 and +0 are one place, and nextafter steps over both at once.
    assert distance(got, np.array([value]))[0] == steps


@given(FLOATS, FLOATS)
def test_the_distance_is_symmetric_and_zero_only_for_equal_numbers(one: float, two: float) -> None:
    a, b = np.array([one], np.float32), np.array([two], np.float32)
    there, back = distance(a, b.astype(np.float64))[0], distance(b, a.astype(np.float64))[0]
    assert there == back
    assert (there == 0) == (a[0] == b[0])


def test_the_reference_is_rounded_to_float32_first() -> None:
    want = np.array([1.0 + 2.0**-25])
    assert histogram(np.array([1.0], np.float32), want) == [1]


def test_buckets_are_powers_of_two() -> None:
    start = np.float32(1.0).view(np.uint32)
    got = (start + np.array([0, 1, 2, 3, 4, 7, 8], np.uint32)).view(np.float32)
    assert histogram(got, np.ones(7)) == [1, 1, 2, 2, 1]


def test_nan_has_a_bucket_of_its_own_and_nothing_is_lost() -> None:
    got = np.array([np.nan, 1.0, np.inf, -np.inf], np.float32)
    counts = histogram(got, np.array([1.0, 1.0, 1.0, 1.0]))
    assert counts[NOT_A_NUMBER] == 1
    assert sum(counts) == 4
    assert len(counts) == BUCKETS + 1


def test_the_farthest_floats_have_a_bucket() -> None:
    most = np.finfo(np.float32).max
    counts = histogram(np.array([most], np.float32), np.array([-float(most)]))
    assert counts[-1] == 1
    assert len(counts) == BUCKETS
