"""Rope on lanes: any sizes against every bit, in place and not, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.engine import rope_tables
from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import rope
from validation.core.random_streams import Stream
from validation.operations.rope import reference


def drawn(seed: int, rows: int, heads: int, d: int, context: int) -> tuple[np.ndarray, ...]:
    stream = Stream.of(seed, "rope")
    steps = stream.child("steps").below(context, (rows, rope.WORDS)).astype(np.int32)
    cos, sin = (stream.child(name).normals((context, d // 2), -1) for name in ("cos", "sin"))
    return stream.child("x").normals((rows, heads, d)), steps, cos, sin


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 5), st.sampled_from([8, 24, 64, 80, 256]), st.booleans()
)
def test_any_size_has_its_bits(
    checked: LanesExecutor, seed: int, rows: int, heads: int, d: int, in_place: bool
) -> None:
    x, steps, cos, sin = drawn(seed, rows, heads, d, 17)
    given_x = x.copy()
    got = rope.run(checked, x, steps, cos, sin, in_place)
    due = reference.turn_bits(given_x, cos[steps[:, 0]], sin[steps[:, 0]])
    assert got.out.tobytes() == due.tobytes()
    assert got.guards_ok
    assert x.tobytes() == given_x.tobytes()
    assert got.witnesses[0].blocks_run == rope.blocks(rows, heads, d)


def test_a_turn_keeps_the_length_and_position_0_keeps_the_head(checked: LanesExecutor) -> None:
    x = Stream.of(1, "x").normals((5, 2, 64))
    steps = np.zeros((5, rope.WORDS), np.int32)
    steps[:, 0] = (0, 3, 1, 7, 0)
    got = rope.run(checked, x, steps, *rope_tables.tables(10000.0, 32, 8)).out
    assert np.allclose((got.astype(float) ** 2).sum(-1), (x.astype(float) ** 2).sum(-1), rtol=2.0**-20)
    assert got[[0, 4]].tobytes() == x[[0, 4]].tobytes()


def test_what_two_turned_heads_have_in_common_follows_from_their_distance(checked: LanesExecutor) -> None:
    """The law that rope is for: the dot product of a query and a key depends on how far apart they are alone."""
    q, k = (Stream.of(1, name).normals((1, 1, 64)) for name in "qk")
    tables = rope_tables.tables(10000.0, 32, 300)

    def at(x: np.ndarray, position: int) -> np.ndarray:
        steps = np.full((1, rope.WORDS), position, np.int32)
        return rope.run(checked, x, steps, *tables).out.astype(np.float64).reshape(-1)

    dots = [float(at(q, 40 + by) @ at(k, 3 + by)) for by in (0, 1, 100, 259)]
    size = float(np.linalg.norm(q) * np.linalg.norm(k))
    assert max(dots) - min(dots) < 2.0**-20 * size
    assert abs(float(at(q, 41) @ at(k, 3)) - dots[0]) > 2.0**-10 * size


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"x": np.zeros((2, 1, 12), np.float32)},
            r"x is float32 \(2, 1, 12\), expected float32 \[rows, heads, multiple",
        ),
        ({"x": np.zeros((2, 1, 16))}, "x is float64"),
        ({"x": np.zeros((0, 1, 16), np.float32)}, r"x is float32 \(0, 1, 16\)"),
        ({"steps": np.zeros((2, 3), np.int32)}, r"steps is int32 \(2, 3\), expected int32 \(2, 4\)"),
        ({"steps": np.zeros((2, 4), np.int64)}, "steps is int64"),
        ({"cos": np.zeros((3, 7), np.float32)}, r"cos is float32 \(3, 7\), expected float32 \(3, 8\) of positions"),
        ({"sin": np.zeros((4, 8), np.float32)}, r"sin is float32 \(4, 8\), expected float32 \(3, 8\)"),
        ({"sin": np.zeros((3, 8))}, "sin is float64"),
        ({"steps": np.full((2, 4), 3, np.int32)}, "position 3, expected 0 to 2, which the tables have"),
        ({"steps": np.full((2, 4), -1, np.int32)}, "position -1, expected 0 to 2"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, changes: dict[str, np.ndarray], said: str) -> None:
    usual = {
        "x": np.zeros((2, 1, 16), np.float32),
        "steps": np.zeros((2, 4), np.int32),
        "cos": np.zeros((3, 8), np.float32),
        "sin": np.zeros((3, 8), np.float32),
    }
    with pytest.raises(StrataError, match=said):
        rope.run(checked, **(usual | changes))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((0, 1, 8), "0 rows of 1 heads, expected at least 1 of 1"),
        ((1, 1, 12), "heads of 12 dims, expected a multiple of 8"),
        (((1 << 31) - 1, 1 << 10, 256), "blocks, expected up to 2147483647"),
    ],
)
def test_launches_that_cannot_be_are_refused(sizes: tuple[int, int, int], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        rope.blocks(*sizes)
