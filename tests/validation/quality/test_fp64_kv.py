"""KV formats of the FP64 model, against their definitions one element at a time, and against the packing kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from tests.validation.quality.conftest import close
from validation.quality.fp64_kv import fp16, hadamard, int8, q4_0, roundings

seeds = st.integers(0, 2**32 - 1)


def rows(seed: int, width: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.standard_normal((3, width)) * 2.0 ** random.integers(-8, 8, (3, 1))


@given(seeds, st.sampled_from([1, 2, 64, 256]))
@settings(max_examples=20)
def test_hadamard_is_the_matrix_of_signs(seed: int, width: int) -> None:
    x = rows(seed, width)
    signs = np.array([[(-1) ** (i & j).bit_count() for j in range(width)] for i in range(width)])
    close(hadamard(x), x @ signs / math.sqrt(width), steps=2 * width)
    close(hadamard(hadamard(x)), x, steps=4 * width)


@given(seeds)
@settings(max_examples=20)
def test_int8(seed: int) -> None:
    x = rows(seed, 128)
    want = []
    for row in x:
        for first in (0, 64):
            group = row[first : first + 64]
            scale = float(np.float16(max(map(abs, group)) / 127))
            want += [max(-127, min(127, round(v / scale))) * scale for v in group]
    assert int8(x).ravel().tolist() == want


def test_a_group_of_zeros_stays_zero() -> None:
    for rounding in (fp16, int8, q4_0):
        assert not rounding(np.zeros((2, 256))).any()


@given(seeds)
@settings(max_examples=20)
def test_q4_0_is_within_a_step_in_the_rotated_domain(seed: int) -> None:
    """A code is the nearest of 16, but for the one beyond the largest element's mirror image: a whole step."""
    x = rows(seed, 256)
    before, after = (hadamard(one).reshape(3, 8, 32) for one in (x, q4_0(x)))
    largest = np.abs(before).max(axis=-1)
    # The scale is rounded to binary16, by 2^-11 of itself, and a code is up to 8 of it away from zero.
    rounded = 8 * 2.0**-11
    assert (np.abs(after - before).max(axis=-1) <= largest / 8 * (1 + rounded)).all()
    half = np.abs(after - before) <= largest[..., None] / 8 * (0.5 + rounded)
    assert half[np.abs(before) <= largest[..., None] * 15 / 16].all()


def test_k8v4_mixes() -> None:
    assert roundings("k8v4") == (int8, q4_0)


def test_an_unknown_format() -> None:
    with pytest.raises(StrataError, match="KV format 'q5_0', expected one of exact, fp16, int8, k8v4, q4_0"):
        roundings("q5_0")
