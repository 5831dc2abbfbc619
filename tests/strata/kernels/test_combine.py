"""Combining on lanes: rows against FP64 and against their very bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine
from validation.core.random_streams import Stream
from validation.core.verdict import within
from validation.operations.combine import bound as bounds
from validation.operations.combine import reference


def drawn(seed: int, tokens: int, ranks: int, columns: int) -> dict[str, np.ndarray]:
    """Rows and weights of both signs over decades, a shared expert and its gate."""
    stream = Stream.of(seed, "combine")
    exponents = stream.child("exponents").below(24, (tokens, ranks, 1)) - 12
    return {
        "rows": np.ldexp(stream.child("rows").normals((tokens, ranks, columns)), exponents),
        "weights": stream.child("weights").normals((tokens, ranks), -2),
        "shared": stream.child("shared").normals((tokens, columns), 2),
        "shared_gate": stream.child("gate").normals(tokens, 3),
    }


def assert_combined(executor: LanesExecutor, given_: dict[str, np.ndarray]) -> combine.Combined:
    got = combine.run(executor, **given_)
    assert got.guards_ok
    assert got.lost == 0
    check = within("rows", got.out, reference.combine(**given_), bounds.rows(**given_))
    assert check.verdict.passes, check.reason
    assert np.array_equal(got.out.view(np.uint32), reference.combine_bits(**given_).view(np.uint32))
    return got


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_drawn_rows_of_any_size(checked: LanesExecutor, data: st.DataObject) -> None:
    tokens, ranks = data.draw(st.integers(1, 9), "tokens"), data.draw(st.integers(1, 32), "ranks")
    columns = 4 * data.draw(st.integers(1, 40), "fours of columns")
    made = drawn(data.draw(st.integers(0, 2**32), "seed"), tokens, ranks, columns)
    if data.draw(st.booleans(), "without a shared expert"):
        made = {"rows": made["rows"], "weights": made["weights"]}
    assert_combined(checked, made)


def test_rows_are_added_in_rank_order(checked: LanesExecutor) -> None:
    """Data whose sum depends on it: a large row, small ones, and the large one again with the other sign."""
    made = drawn(1, 8, 10, 64)
    del made["shared"], made["shared_gate"]
    made["rows"][:, 0] *= 2**20
    made["rows"][:, 9] = -made["rows"][:, 0]
    made["weights"][:, 9] = made["weights"][:, 0]
    got = assert_combined(checked, made)
    turned = combine.run(checked, np.ascontiguousarray(made["rows"][:, ::-1]), made["weights"][:, ::-1].copy())
    assert not np.array_equal(got.out, turned.out)
    # A product rounded before it is added gives other bits too.
    apart = np.zeros_like(got.out)
    for rank in range(10):
        apart = apart + made["weights"][:, rank, None] * made["rows"][:, rank]
    assert not np.array_equal(got.out, apart)


def test_a_row_says_which_pair_it_came_from(checked: LanesExecutor) -> None:
    """Rows hold their own pair and column, one weight is 1 and the others 0."""
    tokens, ranks, columns = 7, 10, 132
    rows = np.arange(tokens * ranks * columns, dtype=np.float32).reshape(tokens, ranks, columns)
    weights = np.zeros((tokens, ranks), np.float32)
    place = Stream.of(2, "place").below(ranks, tokens)
    weights[np.arange(tokens), place] = 1
    got = combine.run(checked, rows, weights)
    assert np.array_equal(got.out, rows[np.arange(tokens), place])


@pytest.mark.parametrize("gate", [0.0, -0.0, 1e-30, -1e-30, 20.0, -20.0, 87.3, -87.3, -88.8, 89.0, -104.0, 3e38, -3e38])
def test_gates_from_one_end_to_the_other(checked: LanesExecutor, gate: float) -> None:
    made = drawn(3, 2, 3, 8)
    made["shared_gate"] = np.full(2, gate, np.float32)
    made["weights"][:] = 0
    assert_combined(checked, made)


def test_infinite_gates_open_and_shut(checked: LanesExecutor) -> None:
    made = drawn(4, 2, 3, 8)
    made["shared_gate"] = np.array([np.inf, -np.inf], np.float32)
    made["weights"][:] = 0
    got = combine.run(checked, **made)
    assert np.array_equal(got.out[0], made["shared"][0])
    assert not got.out[1].any()


def test_zeros_give_plus_zero(checked: LanesExecutor) -> None:
    rows = np.full((2, 4, 12), -0.0, np.float32)
    got = combine.run(checked, rows, np.ones((2, 4), np.float32), rows[:, 0].copy(), np.zeros(2, np.float32))
    assert not got.out.view(np.uint32).any()


def test_what_is_not_finite_is_kept_and_counted(checked: LanesExecutor) -> None:
    made = drawn(5, 3, 4, 16)
    made["rows"][0, 1, 3] = np.nan
    made["rows"][1, 2, 5] = np.inf
    made["weights"][1, 2] = 0  # hides nothing
    made["shared_gate"][2] = np.nan
    got = combine.run(checked, **made)
    want = np.isfinite(got.out)
    assert got.lost == int((~want).sum()) == 1 + 1 + 16
    assert not want[0, 3]
    assert not want[1, 5]
    assert not want[2].any()
    assert (got.out.view(np.uint32)[~want] == 0x7FFFFFFF).all()


def test_bad_shapes_are_refused(checked: LanesExecutor) -> None:
    made = drawn(6, 2, 3, 8)
    for change, said in (
        ({"rows": made["rows"][..., :6]}, "multiple of 4"),
        ({"rows": made["rows"].astype(np.float64)}, "rows are float64"),
        ({"weights": made["weights"][:, :2]}, r"weights is float32 \(2, 2\), expected float32 \(2, 3\)"),
        ({"shared": None}, "shared_gate is given and shared is not"),
        ({"shared_gate": None}, "shared is given and shared_gate is not"),
        ({"shared_gate": made["shared_gate"][:1]}, "shared_gate is float32"),
        ({"shared": made["shared"][:, :4]}, "shared is float32"),
    ):
        with pytest.raises(StrataError, match=said):
            combine.run(checked, **{**made, **change})  # type: ignore[arg-type]
