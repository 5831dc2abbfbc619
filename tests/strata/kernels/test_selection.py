"""Inputs of block selection: what is refused before anything runs, and what is left unwritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import selection
from strata.kernels.selection import MOST_BLOCKS, MOST_QUERIES, UNWRITTEN, check_steps, steps_of, strayed

Q = np.zeros((2, 4, 128), np.float32)
KEYS = np.zeros((3, 128), np.float32)


def changed(column: int, value: int) -> np.ndarray:
    """Steps of two queries of 5 and 14 cells, with one number of the second one changed."""
    steps = steps_of([5, 14], 8)
    steps[1, column] = value
    return steps


def test_usual_steps() -> None:
    assert steps_of([0, 3, 4, 14, 2051, 2052, 9001]).tolist() == [
        [-1, 0, 0, 0], [2, 3, 0, 3], [3, 4, 1, 4], [13, 14, 3, 14], [2050, 2051, 512, 2051], [2051, 2052, 513, 2051],
        [9000, 9001, 2250, 2051],
    ]  # fmt: skip
    assert steps_of([14], 8).tolist() == [[13, 14, 3, 11]]
    assert steps_of([]).shape == (0, 4)


def test_sizes_by_default_are_those_of_the_steps() -> None:
    assert check_steps(steps_of([5, 14], 8), 2, 9, None, None) == (11, 3)
    assert check_steps(steps_of([0, 3]), 2, 1, None, None) == (3, 1)
    assert check_steps(steps_of([0]), 1, 1, None, None) == (1, 1)
    assert check_steps(steps_of([5, 14], 8), 2, 9, 20, 9) == (20, 9)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": changed(0, 12)}, r"query 1 has 14 cells, expected position \+ 1, and 0 or more"),
        ({"steps": np.array([[-2, -1, -1, 0]] * 2, np.int32)}, r"query 0 has -1 cells, expected position \+ 1"),
        ({"steps": changed(2, 2)}, "query 1 has 2 complete blocks, expected a 4th of its cells"),
        ({"keys": KEYS[:2]}, "query 1 has 3 complete blocks, expected up to 2, for which there is room"),
        ({"steps": changed(3, 15)}, "query 1 has 15 as width, expected 0 to its cells, and to 15"),
        ({"steps": changed(3, -1)}, "query 1 has -1 as width, expected 0 to its cells"),
        ({"cap": 10}, "query 1 has 11 as width, expected 0 to its cells, and to 10"),
        ({"cap": 0}, "a row stride of 0 ids, expected 1 to 1048576"),
        ({"reach": 2}, "a reach of 2 blocks, expected 3, the longest query's, to 3"),
        ({"reach": 4}, "a reach of 4 blocks, expected 3, the longest query's, to 3"),
        ({"steps": steps_of([5, 14]).astype(np.int64)}, r"steps is int64 \(2, 4\), expected int32 \[2, 4\]"),
        ({"steps": steps_of([5])}, r"steps is int32 \(1, 4\), expected int32 \[2, 4\]"),
        ({"q": Q[:, :3]}, r"q is float32 \(2, 3, 128\), expected float32 \[queries, 4, 128\]"),
        ({"q": Q.astype(np.float64)}, r"q is float64 \(2, 4, 128\), expected float32"),
        ({"q": Q[:0]}, f"0 queries, expected 1 to {MOST_QUERIES}"),
        ({"keys": KEYS[:, :64]}, r"keys are float32 \(3, 64\), expected float32 \[blocks, 128\]"),
        ({"keys": KEYS.astype(np.float16)}, r"keys are float16 \(3, 128\), expected float32"),
        ({"keys": KEYS[:0]}, f"room for 0 blocks, expected 1 to {MOST_BLOCKS}"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"q": Q, "keys": KEYS, "steps": steps_of([5, 14], 8)} | changes
    with pytest.raises(StrataError, match=said):
        selection.prepare(checked, **given)


def test_more_than_a_launch_takes_is_refused() -> None:
    for queries, capacity, said in (
        (MOST_QUERIES + 1, 1, f"{MOST_QUERIES + 1} queries, expected"),
        (1, MOST_BLOCKS + 1, f"room for {MOST_BLOCKS + 1} blocks, expected"),
    ):
        with pytest.raises(StrataError, match=said):
            check_steps(steps_of([0] * queries), queries, capacity, None, None)
    most = steps_of([4 * MOST_BLOCKS] + [0] * (MOST_QUERIES - 1))
    assert check_steps(most, MOST_QUERIES, MOST_BLOCKS, None, None) == (2051, MOST_BLOCKS)


def test_strayed_counts_words_behind_what_is_written() -> None:
    array = np.full((3, 4), UNWRITTEN, np.uint32).view(np.float32)
    written = np.array([4, 0, 2])
    assert strayed(array, written) == 0
    array[0], array[1, 3], array[2, :3] = 0, 0, 1
    assert strayed(array, written) == 2
    array[1, 0] = 0  # the very first word behind
    assert strayed(array, written) == 3
    assert strayed(array.view(np.int32), np.array([4, 4, 4])) == 0


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"reach": 3.0}, "a reach of 3.0, expected a whole number"),
        ({"cap": "x"}, "a row stride of ids of 'x', expected a whole number"),
        ({"cap": True}, "a row stride of ids of True, expected a whole number"),
        ({"q": Q.tolist()}, "q is a list, expected a numpy.ndarray"),
        ({"keys": None}, "keys is a NoneType, expected a numpy.ndarray"),
        ({"steps": b"steps"}, "steps is a bytes, expected a numpy.ndarray"),
        ({"keys": np.ma.masked_array(KEYS)}, "keys is a MaskedArray, expected a numpy.ndarray"),
    ],
)
def test_what_is_of_another_type_is_refused(checked: LanesExecutor, how: dict[str, Any], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        selection.prepare(checked, **{"q": Q, "keys": KEYS, "steps": steps_of([5, 8], 8)} | how)


@pytest.mark.parametrize("broken", ["q", "keys", "steps", "scores", "ids", "work"])
def test_every_buffer_has_its_guards_looked_at(
    checked: LanesExecutor, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    inputs = selection.prepare(checked, Q, KEYS, steps_of([5, 8], 8))
    work, made = checked.empty((2,), np.int32, name="work"), selection.outputs(checked, inputs)
    monkeypatch.setattr(selection, "outputs", lambda executor, given: made)
    buffers = {"q": inputs.q, "keys": inputs.keys, "steps": inputs.steps, "scores": made.scores, "ids": made.ids}
    touched = (buffers | {"work": work})[broken]
    assert selection.run(checked, lambda given, out: [], inputs, [work]).guards_ok
    monkeypatch.setattr(touched, "guards_intact", lambda: False)
    assert not selection.run(checked, lambda given, out: [], inputs, [work]).guards_ok
