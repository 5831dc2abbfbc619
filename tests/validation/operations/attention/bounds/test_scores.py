"""The error of a score follows the sizes of its own sums: it covers what lanes' rule does, and stays small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.lanes import RULES
from tests.validation.numerics.test_tensorcore_bound import chain
from validation.core.random_streams import Stream
from validation.numerics.roundoff import U
from validation.operations.attention.bounds.scores import score_error
from validation.operations.attention.terms import Terms


def terms_of(q: np.ndarray, k: np.ndarray) -> Terms:
    """Terms of q [256] and K [256, n], one head; a score's error needs no more."""
    none = np.zeros(0)
    return Terms(none, none, none, none, none, none, q.reshape(1, 1, 256), k.reshape(1, 256, -1), none)


def eleven_bits(x: np.ndarray) -> np.ndarray:
    """x rounded to the significand of binary16."""
    unit = 2.0 ** (np.floor(np.log2(np.where(x == 0, 1, np.abs(x)))) - 10)
    return np.asarray(np.rint(x / unit) * unit)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["sm_75", "sm_80", "sm_90"]),
    st.sampled_from([8, 16]),
    st.integers(0, 2**32),
    st.integers(0, 14),
    st.booleans(),
)
def test_the_bit_model_of_the_kernels_sums_stays_within(
    rule: str, products: int, seed: int, spread: int, positive: bool
) -> None:
    # hi and lo as the kernel splits them: integers of 24 bits, hi a multiple of 2**13, and codes of INT8.
    stream = Stream.of(seed, "scores")
    whole = (stream.child("q").below(1 << 24, 256) - (0 if positive else 1 << 23)).astype(np.float64)
    whole *= 2.0 ** -stream.child("e").below(spread + 1, 256)
    k = stream.child("k").below(128, (256, 1)) - (0.0 if positive else 64.0)
    hi = eleven_bits(whole)
    lo = eleven_bits(whole - hi)
    limit = score_error(terms_of(whole, k), products, RULES[rule])[0, 0, 0] * 16
    sums = [
        chain(RULES[rule], products, [*lo[at : at + 32], *hi[at : at + 32]], [*k[at : at + 32, 0]] * 2)
        for at in range(0, 256, 32)
    ]
    warps = [np.float32(a) + np.float32(b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    got = warps[0]
    for warp in warps[1:]:
        got = got + warp
    assert isinstance(got, np.float32)
    exact = float(whole @ k[:, 0])  # below 2**53 of its unit: sums of 256 products of 24 + 14 and 7 bits
    assert abs(float(got) - exact) <= limit


@pytest.mark.parametrize("products", [8, 16])
def test_one_dim_costs_its_split_its_cuts_and_its_roundings(products: int) -> None:
    q, k = np.zeros(256), np.zeros((256, 1))
    q[0], k[0] = 16.0, 1.0  # a score of exactly 1, whose every partial sum is 1 or 0
    error = score_error(terms_of(q, k), products, RULES["exact"])[0, 0, 0]
    instructions = 2 * 16 // products
    # The split (2 U), a rounding an instruction of the hi part, and 1 + 2 + 3 of putting sums together.
    assert (2 + instructions + 6) * U <= error
    # Besides those: the unknown sum between two instructions of 8, and the lo part.
    assert error < (2 + instructions + 6 + (products == 8)) * U * 1.05


def test_worse_rules_and_larger_addends_cost_more() -> None:
    q, k = (Stream.of(1, name).normals((256, 4)).astype(np.float64) for name in "qk")
    of = terms_of(q[:, 0], k)
    exact, hopper, ampere, turing = (score_error(of, 8, RULES[name]) for name in ("exact", "sm_90", "sm_80", "sm_75"))
    assert (exact < hopper).all()
    assert (hopper < ampere).all()
    assert (ampere <= turing).all()
    assert (score_error(terms_of(q[:, 0] * 4, k), 8, RULES["sm_90"]) == 4 * hopper).all()
    # Far below the 2**-12 of a dropped lo half, of the sum of the products' magnitudes.
    size = (np.abs(q[:, 0]) @ np.abs(k)) / 16
    assert (turing[0, 0] < 2.0**-12 / 30 * size).all()
