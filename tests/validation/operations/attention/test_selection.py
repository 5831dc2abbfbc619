"""Id lists are what the specification of the selection says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.attention.selection import (
    DRIFT,
    TAIL,
    WIDTH,
    WINDOW,
    causal_widths,
    id_lists,
    spread_lists,
    step_records,
    window,
)
from validation.operations.kv_pack.case import TOP

BEYOND = 1 << 20


def lists(context: int, queries: int, top: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_kv = np.arange(context - queries + 1, context + 1)
    widths = causal_widths(context, queries, top)
    return id_lists(Stream.of(seed), n_kv, widths, top, BEYOND), n_kv, widths


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 60), st.integers(8, 150), st.integers(0, 2**32))
def test_rows_are_ascending_unique_cells_that_exist(context: int, queries: int, top: int, seed: int) -> None:
    ids, n_kv, widths = lists(context, min(queries, context), top, seed)
    for row, cells, width in zip(ids, n_kv, widths, strict=True):
        assert width == min(cells, top)
        own = row[:width]
        assert (np.diff(own) > 0).all()
        assert own[0] >= 0
        assert own[-1] < cells
        assert (row[width:] == BEYOND).all()
    assert ids.shape == (len(widths), widths.max() + TAIL)


@settings(max_examples=30, deadline=None)
@given(st.integers(8, 150), st.integers(1, 200), st.integers(0, 2**32))
def test_the_newest_cells_are_in_every_sparse_list(top: int, past: int, seed: int) -> None:
    ids, n_kv, widths = lists(top + past, min(20, top + past), top, seed)
    for row, cells, width in zip(ids, n_kv, widths, strict=True):
        newest = np.arange(max(0, cells - window(top)), cells)
        assert np.isin(newest, row[:width]).all()


def test_at_the_real_width_the_list_is_the_identity_up_to_top_and_sparse_past_it() -> None:
    ids, _, widths = lists(TOP + 2, 4, TOP)
    assert widths.tolist() == [TOP - 1, TOP, TOP, TOP]
    assert window(TOP) == WINDOW
    assert np.array_equal(ids[0, : TOP - 1], np.arange(TOP - 1))
    assert np.array_equal(ids[1, :TOP], np.arange(TOP))
    assert ids[3, TOP - 1] == TOP + 1


def test_older_cells_drift_by_about_three_percent() -> None:
    ids, n_kv, widths = lists(32768, 20, TOP)
    older = TOP - WINDOW
    changed = []
    for one, two, cells in zip(ids[:-1], ids[1:], n_kv[:-1], strict=True):
        before = set(one[:TOP].tolist()) - set(range(cells - WINDOW, cells))
        changed.append(len(before - set(two[:TOP].tolist())))
    # Each attempt succeeds unless it draws a cell in use; a place drawn twice moves one cell once.
    assert max(changed) <= older // DRIFT
    assert np.mean(changed) > older // DRIFT * 0.85
    assert (widths == TOP).all()


def test_lists_are_fixed_by_their_seed() -> None:
    first, second = (lists(300, 9, 64, seed)[0] for seed in (5, 5))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, lists(300, 9, 64, 6)[0])


def test_a_width_no_list_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="width 7"):
        id_lists(Stream(0), np.array([6]), [7], 64, BEYOND)
    with pytest.raises(ValueError, match="width 7"):
        spread_lists(Stream(0), 6, np.array([7]), BEYOND)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.data())
def test_spread_lists_draw_without_replacement(context: int, data: st.DataObject) -> None:
    widths = np.array(data.draw(st.lists(st.integers(0, context), min_size=1, max_size=6)))
    ids = spread_lists(Stream.of(3), context, widths, BEYOND)
    for row, width in zip(ids, widths, strict=True):
        assert (np.diff(row[:width]) > 0).all()
        assert width == 0 or (row[0] >= 0 and row[width - 1] < context)
        assert (row[width:] == BEYOND).all()


def test_step_records_say_what_the_specification_says() -> None:
    steps = step_records(np.array([2100, 2101]), np.array([2051, 7]))
    assert steps.dtype == np.int32
    assert steps.tolist() == [[2099, 2100, 525, 2051], [2100, 2101, 525, 7]]
    assert WIDTH == 3
