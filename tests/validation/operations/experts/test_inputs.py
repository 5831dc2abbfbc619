"""Data of expert cases: every recipe keeps its promises at any seed, and broken promises are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.formats import FORMATS
from strata.kernels.experts import EXPERT_MODES
from validation.core.verdict import Verdict
from validation.operations.experts import blobs, inputs, preconditions, routing
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.recipes import RECIPES, Routing


def case_of(recipe: str, seed: int, experts: int = 7, top: int = 3) -> ExpertCase:
    if RECIPES[recipe].routing is Routing.EDGES:
        return ExpertCase(recipe, seed, routing.edge_tokens(experts, top), experts, top, 256, 64)
    return ExpertCase(recipe, seed, 9, experts, top, 256, 64)


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1 << 63), mode=st.sampled_from(EXPERT_MODES))
def test_every_recipe_keeps_its_promises(recipe: str, seed: int, mode: str) -> None:
    case = case_of(recipe, seed)
    made = inputs.build(case, mode)
    check = preconditions.kept(case, made)
    assert check.verdict is Verdict.EXACT, check.reason
    assert made.x.dtype == np.float32
    assert made.ids.shape == (case.tokens, case.top)
    assert made.blobs.shape == (case.experts, blobs.blob_bytes(*inputs.mode_formats(mode), case.n, case.ff))
    again = inputs.build(case, mode)
    assert made.x.tobytes() == again.x.tobytes()
    assert np.array_equal(made.ids, again.ids)
    assert np.array_equal(made.blobs, again.blobs)


@pytest.mark.parametrize("recipe", ["experts_zeros", "experts_tiny"])
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_few_tokens_have_both_sides_too(recipe: str, tokens: int) -> None:
    """Of 40 single tokens of eight blocks chance would leave a side out in one or two."""
    for seed in range(40):
        case = ExpertCase(recipe, seed, tokens, 2, 1, 256, 64)
        check = preconditions.kept(case, inputs.build(case, "iq3_s/q2_0"))
        assert check.verdict is Verdict.EXACT, f"{case.text()}: {check.reason}"


@pytest.mark.parametrize("mode", EXPERT_MODES)
def test_scales_that_are_subnormal_span_decades_too(mode: str) -> None:
    """The smallest scales of IQ4_XS are, which their exponent field does not tell; here one expert has them all."""
    case = ExpertCase("experts_decades", 4, 2, 1, 1, 256, 64)
    check = preconditions.kept(case, inputs.build(case, mode))
    assert check.verdict is Verdict.EXACT, check.reason


def _narrow(made: Inputs) -> Inputs:
    """Scales of one binade, with both signs."""
    form = FORMATS[made.gate_up]
    blocks = made.blobs[:, : 2 * made.ff * form.row_bytes(made.n)].reshape(-1, form.nbytes).copy()
    blocks[:, 1] = blocks[:, 1] & 0x80 | 0x2C
    gate_up = blocks.reshape(len(made.blobs), -1)
    return replace(made, blobs=np.concatenate([gate_up, made.blobs[:, gate_up.shape[1] :]], axis=1))


def _same(made: Inputs) -> Inputs:
    return replace(made, blobs=np.repeat(made.blobs[:1], len(made.blobs), axis=0))


def _one(made: Inputs) -> Inputs:
    return replace(made, ids=np.zeros_like(made.ids))


BROKEN = [
    ("experts_plain", _same, "experts of their own"),
    ("experts_plain", lambda made: replace(made, ids=made.ids * 0 + 6), "the last experts unused"),
    ("experts_decades", _one, "distinct ids"),
    ("experts_decades", lambda made: replace(made, x=np.abs(made.x)), "values of both signs"),
    ("experts_decades", _narrow, "scales over decades"),
    ("experts_stray", _one, "some stray ids"),
    ("experts_nobody", _one, "no id of an expert"),
    ("experts_one", lambda made: replace(made, ids=made.ids + np.arange(3, dtype=np.int32)), "one expert"),
    ("experts_repeated", lambda made: replace(made, ids=made.ids * 0 + np.arange(3, dtype=np.int32)), "repeated ids"),
    ("experts_edges", lambda made: replace(made, ids=made.ids[::-1] * 0), "pairs at the tiles' edges"),
    ("experts_one_sided", lambda made: replace(made, x=-made.x * 2), "values of 1e4 to 1e5"),
    ("experts_zeros", lambda made: replace(made, x=made.x + 1), "zero blocks"),
    ("experts_tiny", lambda made: replace(made, x=made.x + 1), "both sides of the smallest reciprocal"),
    ("experts_ties", lambda made: replace(made, x=made.x * np.float32(1.01)), "half way"),
    ("experts_broken", lambda made: replace(made, x=np.nan_to_num(made.x)), "not finite"),
    ("experts_one_hot", lambda made: replace(made, x=made.x + 1), "one value a token"),
    ("experts_faint", lambda made: replace(made, blobs=made.blobs | 0x7C), "scales"),
]


@pytest.mark.parametrize(("recipe", "edit", "said"), BROKEN, ids=[f"{name}-{said}" for name, _, said in BROKEN])
def test_a_broken_promise_is_void(recipe: str, edit: object, said: str) -> None:
    case = case_of(recipe, 1)
    made = edit(inputs.build(case, "iq3_s/q2_0"))  # type: ignore[operator]
    check = preconditions.kept(case, made)
    assert check.verdict is Verdict.VOID
    assert said in check.reason


@pytest.mark.parametrize("experts", [2, 8, 19])
@pytest.mark.parametrize("top", [1, 2, 10])
def test_edges_ask_for_their_own_number_of_tokens(experts: int, top: int) -> None:
    case = case_of("experts_edges", 3, experts, top)
    ids = inputs.build(case, "iq4_xs/iq4_nl").ids
    counts = np.bincount(ids[(ids >= 0) & (ids < experts)], minlength=experts)
    assert counts.tolist() == [routing.EDGE_COUNTS[e % len(routing.EDGE_COUNTS)] for e in range(experts)]
    with pytest.raises(StrataError, match="need"):
        inputs.build(replace(case, tokens=case.tokens + 1), "iq4_xs/iq4_nl")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 63), top=st.integers(1, 12), experts=st.integers(1, 24))
def test_hot_experts_are_hot_and_the_last_unused(seed: int, top: int, experts: int) -> None:
    case = ExpertCase("experts_plain", seed, 64, experts, top, 256, 64)
    ids = routing.draw(case.stream("ids"), Routing.HOT, case.tokens, experts, top)
    assert ids.min() >= 0
    assert ids.max() < max(experts - routing.unused(experts), 1)
    first = np.isin(ids[:, 0], [0, 1]).mean()
    assert first > 1 / 4  # three in four are drawn so
