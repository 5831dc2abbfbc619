"""The bound of the router's weights holds and is not idle."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.router import bound as bounds
from validation.operations.router.reference import route, weight_bits


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 600), st.integers(-30, 12), st.integers(1, 32))
def test_the_defined_arithmetic_stays_within_the_bound(seed: int, experts: int, exponent: int, most: int) -> None:
    x = Stream.of(seed, "x").normals((4, experts), exponent)
    ranks = min(most, experts)
    want = route(x, ranks)
    assert (np.abs(weight_bits(x, ranks) - want.weights) <= bounds.weights(want, experts)).all()


def test_the_bound_is_within_a_hundred_times_of_what_happens() -> None:
    x = Stream.of(1, "x").normals((400, 512), 1)
    want = route(x, 10)
    assert (np.abs(weight_bits(x, 10) - want.weights) / bounds.weights(want, 512)).max() > 0.01


def test_the_bound_refuses_what_is_wrong_in_the_usual_ways() -> None:
    """Weights of the softmax over all, in another order, and with a base off in its sixth digit."""
    x = Stream.of(2, "x").normals((50, 64), 2)
    want = route(x, 8)
    limit = bounds.weights(want, 64)
    bits = weight_bits(x, 8).astype(np.float64)
    p = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    over_all = np.take_along_axis(p / p.sum(axis=1, keepdims=True), want.ids.astype(np.int64), axis=1)
    gap = want.logits[:, :1].astype(np.float64) - want.logits
    base = want.weights * np.exp(gap * 1e-5)
    for wrong in (over_all, bits[:, ::-1], base / base.sum(axis=1, keepdims=True)):
        assert (np.abs(wrong - want.weights) > limit).any(axis=1).all()
