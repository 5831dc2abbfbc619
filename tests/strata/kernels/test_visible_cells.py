"""Visible cells on lanes: any chunk against the definition, however it is cut, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import visible_cells
from strata.kernels.visible_cells import LAST, UNWRITTEN, Visible


def assert_seen(got: Visible, first: int, rows: int, window: int) -> None:
    """Every word, from the definition once more."""
    assert got.guards_ok
    for row in range(rows):
        cell = first + row
        width = min(cell + 1, window)
        assert got.steps_global[row].tolist() == [cell, 0, 0, cell + 1]
        assert got.steps_local[row].tolist() == [cell, 0, 0, width]
        assert got.ids_local[row, :width].tolist() == list(range(cell + 1 - width, cell + 1))
        assert (got.ids_local[row, width:].view(np.uint32) == UNWRITTEN).all()


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(st.integers(0, 40), st.integers(500, 520), st.integers(0, LAST - 8)),
    st.integers(1, 8),
    st.sampled_from([1, 2, 7, 127, 128, 129, 512, 513]),
)
def test_any_chunk_is_as_defined(checked: LanesExecutor, first: int, rows: int, window: int) -> None:
    assert_seen(visible_cells.run(checked, first, rows, window), first, rows, window)


@pytest.mark.parametrize(("first", "rows", "window"), [(0, 1, 1), (LAST, 1, 3), (LAST - 2, 3, 1), (3, 2, 5000)])
def test_the_ends_are_as_defined(checked: LanesExecutor, first: int, rows: int, window: int) -> None:
    assert_seen(visible_cells.run(checked, first, rows, window), first, rows, window)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 30), st.integers(2, 9), st.integers(1, 12), st.data())
def test_a_chunk_that_is_cut_sees_the_same(
    checked: LanesExecutor, first: int, rows: int, window: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, rows - 1))
    whole = visible_cells.run(checked, first, rows, window)
    parts = [
        visible_cells.run(checked, first, cut, window),
        visible_cells.run(checked, first + cut, rows - cut, window),
    ]
    for name in ("steps_global", "steps_local", "ids_local"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert joined.tobytes() == getattr(whole, name).tobytes()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((0, 0, 5), "0 rows, expected 1 or more"),
        ((0, 3, 0), "a window of 0 cells, expected 1 to 2147483647"),
        ((0, 3, 1 << 31), "a window of 2147483648 cells"),
        ((-1, 3, 5), "a first cell of -1, expected 0 to 2147483644 for 3 rows"),
        ((LAST - 1, 3, 5), "a first cell of 2147483645, expected 0 to 2147483644 for 3 rows"),
        ((0, 1 << 12, 1 << 30), "blocks, expected up to 2147483647"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, asked: tuple[int, int, int], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        visible_cells.run(checked, *asked)
