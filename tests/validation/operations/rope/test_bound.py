"""The bound of rope holds and is not idle."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.engine import rope_tables
from validation.core.random_streams import Stream
from validation.operations.rope import bound, reference


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(-60, 60), st.integers(-150, 0))
def test_the_defined_arithmetic_stays_within_the_bound(seed: int, size: int, share: int) -> None:
    stream = Stream.of(seed, "rope")
    x = np.ldexp(stream.child("x").normals((3, 2, 16)), size).astype(np.float32)
    cos, sin = (np.ldexp(stream.child(name).normals((3, 8), -2), share).astype(np.float32) for name in ("cos", "sin"))
    off = np.abs(reference.turn_bits(x, cos, sin) - reference.turn(x, cos, sin))
    assert (off <= bound.turned(x, cos, sin, False)).all()


def test_rounded_tables_stay_within_the_bound_of_the_angles_and_reach_half_of_it() -> None:
    x = Stream.of(1, "x").normals((64, 4, 64))
    positions = np.arange(64) * 7
    true = reference.angles(positions, 32, 10000.0)
    whole = rope_tables.tables(10000.0, 32, 64 * 7)
    got = reference.turn_bits(x, whole.cos[positions], whole.sin[positions])
    share = np.abs(got - reference.turn(x, *true)) / bound.turned(x, *true, True)
    assert 0.5 < share.max() <= 1


def test_exact_tables_reach_half_of_their_bound() -> None:
    x = Stream.of(1, "x").normals((64, 4, 64))
    cos, sin = (Stream.of(1, name).normals((64, 32), -1) for name in ("cos", "sin"))
    share = np.abs(reference.turn_bits(x, cos, sin) - reference.turn(x, cos, sin)) / bound.turned(x, cos, sin, False)
    assert 0.5 < share.max() <= 1


def test_the_bound_refuses_what_is_wrong_in_the_usual_ways() -> None:
    """Turned the other way, by the next position, in pairs side by side, and by half the angle."""
    x = Stream.of(2, "x").normals((20, 2, 64))
    positions = np.arange(3, 23)
    true = reference.angles(positions, 32, 10000.0)
    due, limit = reference.turn(x, *true), bound.turned(x, *true, True)
    sides = np.stack([x[..., ::2], x[..., 1::2]], axis=-2).reshape(x.shape)
    for wrong in (
        reference.turn(x, true[0], -true[1]),
        reference.turn(x, *reference.angles(positions + 1, 32, 10000.0)),
        reference.turn(sides, *true),
        reference.turn(x, *reference.angles(positions, 32, 10000.0 * 1.001)),
    ):
        assert (np.abs(wrong - due) > limit).any(axis=(1, 2)).all()
