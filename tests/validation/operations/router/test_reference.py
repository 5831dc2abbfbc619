"""The router's reference: its choice by brute force, its weights by mpmath, its bits against a scalar walk."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2
from validation.operations.router import reference


def drawn(seed: int, tokens: int, experts: int) -> np.ndarray:
    """Logits of which many are equal, and some are not finite."""
    stream = Stream.of(seed, "logits")
    x = (stream.child("level").below(9, (tokens, experts)) - 4).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)[stream.child("which").below(4, x.shape)]
    return np.where(stream.child("special").below(12, x.shape) == 0, special, x)


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 12))
def test_the_choice_is_that_of_sorting_by_value_and_id(seed: int, experts: int, most: int) -> None:
    x = drawn(seed, 3, experts)
    ranks = min(most, experts)
    got = reference.route(x, ranks)
    for row, ids in zip(x.tolist(), got.ids.tolist(), strict=True):
        low, high = -float(reference.LARGEST), float(reference.LARGEST)
        held = [low if v != v else min(max(v, low), high) for v in row]
        assert ids == sorted(range(experts), key=lambda e: (-held[e], e))[:ranks]


def test_weights_are_the_softmax_of_the_chosen() -> None:
    x = Stream.of(1, "x").normals((20, 40), 2)
    got = reference.route(x, 7)
    with mpmath.workdps(40):
        for row, ids, weights in zip(x, got.ids, got.weights, strict=True):
            p = [mpmath.exp(mpmath.mpf(float(row[e]))) for e in ids]
            exact = [v / mpmath.fsum(p) for v in p]
            assert all(
                abs(mpmath.mpf(float(w)) / e - 1) < mpmath.mpf(2) ** -45 for w, e in zip(weights, exact, strict=True)
            )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 130), st.integers(-8, 5))
def test_bits_are_those_of_a_walk_in_the_stated_order(seed: int, experts: int, exponent: int) -> None:
    x = Stream.of(seed, "x").normals((1, experts), exponent)
    ranks = min(experts, 5)
    p = exp2((x[0] - x[0].max()) * reference.LOG2_E)
    lanes = [np.float32(0)] * 32
    for expert in range(experts):
        lanes[expert % 32] = lanes[expert % 32] + p[expert]
    while len(lanes) > 1:
        lanes = [lanes[i] + lanes[i + len(lanes) // 2] for i in range(len(lanes) // 2)]
    chosen = [p[e] / lanes[0] for e in reference.route(x, ranks).ids[0]]
    total = np.float32(0)
    for value in chosen:
        total = total + value
    assert [float(v / total) for v in chosen] == reference.weight_bits(x, ranks)[0].astype(float).tolist()
