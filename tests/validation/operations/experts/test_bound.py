"""Bounds of the expert steps: the exact model stays inside, what is wrong does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strata.kernels.experts import EXPERT_MODES
from validation.numerics.roundoff import U
from validation.operations.experts import bound as bounds
from validation.operations.experts import expected, inputs
from validation.operations.experts import reference as experts
from validation.operations.experts.arithmetic import DECODE, FUSED, MMQ, Arithmetic
from validation.operations.experts.bound import CROSS, Bounded
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import BLOCK, LARGEST, Codes, Weights

MODES = st.sampled_from(EXPERT_MODES)
#: Recipes whose every number is finite in float32, at every seed.
RECIPES = st.sampled_from(
    ["experts_plain", "experts_decades", "experts_golden", "experts_outliers", "experts_zeros", "experts_tiny"]
)


def inside(got: np.ndarray, due: Bounded) -> bool:
    return bool((np.abs(got.astype(np.float64) - due.value) <= due.bound).all())


def data_of(recipe: str, seed: int, mode: str) -> tuple[Inputs, np.ndarray]:
    data = inputs.build(ExpertCase(recipe, seed, 4, 3, 2, 256, 64), mode)
    return data, np.flatnonzero(data.sound)


@pytest.mark.parametrize("arithmetic", [FUSED, MMQ, DECODE], ids=["fused", "mmq", "decode"])
@settings(max_examples=12, deadline=None)
@given(recipe=RECIPES, seed=st.integers(0, 1 << 40), mode=MODES)
def test_exact_bits_stay_within_every_step(arithmetic: Arithmetic, recipe: str, seed: int, mode: str) -> None:
    data, pairs = data_of(recipe, seed, mode)
    bits = expected.bits(data, pairs, arithmetic)
    fine = np.isfinite(bits.out).all(axis=1) & np.isfinite(bits.h.scale).all(axis=1)
    assume(fine.any())  # binary16 scales at decode width overflow on some
    pairs = pairs[fine]
    h = Codes(bits.h.q[fine], bits.h.scale[fine])
    due = expected.steps(data, pairs, bits.gate[fine], bits.up[fine], h, arithmetic)
    assert inside(bits.gate[fine], due.gate)
    assert inside(bits.up[fine], due.up)
    assert inside(bits.out[fine], due.down)
    assert not due.h.wrong(h).any()
    assert not due.h.wrong_scales(h).any()
    if arithmetic.whole:
        assert inside(bits.out[fine], expected.model(data, pairs, arithmetic).rounded)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from([1, 2]))
def test_a_product_s_bound_is_of_its_own_roundings(seed: int, per_block: int) -> None:
    """One block: at most the first-order sum, two roundings of the term (three with two scales), and nothing of
    zeros."""
    rng = np.random.default_rng(seed)
    w = Weights(
        rng.integers(-127, 128, (5, BLOCK)).astype(np.int8),
        rng.standard_normal((5, per_block)).astype(np.float32),
    )
    x = experts.quantise(rng.standard_normal((3, BLOCK)).astype(np.float32))
    due = bounds.product(w, experts.values(x))
    first = experts.values(x)[:, : BLOCK // per_block] @ w.exact[:, : BLOCK // per_block].T
    sizes = 2 * np.abs(due.value) + (np.abs(first) if per_block == 2 else 0)
    assert (due.bound <= CROSS**2 * U * sizes + 2.0**-40 * np.abs(first).max()).all()
    assert inside(experts.product(w, x), due)
    zeros = bounds.product(w, np.zeros((3, BLOCK)))
    assert not zeros.value.any()
    assert not zeros.bound.any()


@settings(max_examples=200, deadline=None)
@given(st.floats(-300, 300, width=32), st.floats(-1e6, 1e6, width=32))
def test_swiglu_stays_within_its_bound(gate: float, up: float) -> None:
    g, u = np.array([[gate]], np.float32), np.array([[up]], np.float32)
    due = bounds.swiglu(g.astype(np.float64), u.astype(np.float64))
    assert inside(experts.swiglu(g, u), due)
    # Far from the range of exp2 it is a few roundings, growing with the gate.
    if abs(gate) < 80:
        assert due.bound[0, 0] <= (2 * abs(gate) + 6) * U * CROSS**2 * abs(due.value[0, 0]) + 2.0**-100


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(-30, 30))
def test_codes_without_error_are_the_nearest(seed: int, exponent: int) -> None:
    """Values that are exact: one code each, but where rounding v * inv may meet a tie."""
    rng = np.random.default_rng(seed)
    x = np.ldexp(rng.standard_normal((4, 2 * BLOCK)), exponent).astype(np.float32)
    wide = x.astype(np.float64)
    allowed = bounds.codes(Bounded(wide, np.zeros_like(wide)))
    codes = experts.quantise(x)
    assert not allowed.wrong(codes).any()
    assert not allowed.wrong_scales(codes).any()
    single = allowed.low == allowed.high
    assert (allowed.nearest == allowed.low)[single].all()
    # One code off is refused wherever no tie is near.
    off = Codes(np.clip(codes.q.astype(int) + 1, -LARGEST, LARGEST).astype(np.int8), codes.scale)
    changed = off.q != codes.q
    assert allowed.wrong(off)[single & changed].all()


def test_halves_allow_both_codes_and_no_third() -> None:
    x = np.zeros((1, BLOCK), np.float32)
    x[0, 0], x[0, 1], x[0, 2] = LARGEST, 2.5, -3.5
    allowed = bounds.codes(Bounded(x.astype(np.float64), np.zeros((1, BLOCK))))
    assert allowed.low[0, :4].tolist() == [LARGEST, 2, -4, 0]
    assert allowed.high[0, :4].tolist() == [LARGEST, 3, -3, 0]
    assert allowed.ties == 2


def test_blocks_below_their_errors_may_be_anything() -> None:
    h = Bounded(np.full((1, BLOCK), 1e-30), np.full((1, BLOCK), 2e-30))
    allowed = bounds.codes(h)
    assert (allowed.low == -LARGEST).all()
    assert (allowed.high == LARGEST).all()
    nothing = bounds.codes(Bounded(np.zeros((1, BLOCK)), np.zeros((1, BLOCK))))
    assert not nothing.low.any()
    assert not nothing.high.any()
    assert not nothing.scale_high.any()


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 40), mode=MODES)
def test_the_whole_bound_refuses_an_error_of_twice_itself(seed: int, mode: str) -> None:
    data, pairs = data_of("experts_decades", seed, mode)
    made = expected.model(data, pairs, FUSED).rounded
    row = int(seed % len(pairs))
    wrong = made.value.copy()
    wrong[row] += 2 * made.bound[row]
    assert (np.abs(wrong - made.value)[row] > made.bound[row]).any()
    relative = made.bound.max(axis=1) / np.abs(made.value).max(axis=1)
    assert (relative < 1 / LARGEST).all()  # a whole code of the largest value would be seen


def test_a_tie_within_the_error_of_a_value_allows_both_codes() -> None:
    """Beside the tie by less than its error, and by more than the rounding of the reciprocal."""
    h = np.zeros((1, BLOCK))
    h[0, :2] = 127, 2.5001
    near = bounds.codes(bounds.Bounded(h, np.full_like(h, 0.0002)))
    assert (near.low[0, 1], near.high[0, 1]) == (2, 3)
    far = bounds.codes(bounds.Bounded(h, np.full_like(h, 0.00001)))
    assert (far.low[0, 1], far.high[0, 1]) == (3, 3)
