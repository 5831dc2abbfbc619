"""The choice of rows: fixed by the seed, spread over all, out of anybody's hands."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from validation.core import challenge
from validation.core.challenge import LARGE, LARGE_ROWS, ROWS

SEED = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(SEED, st.integers(0, 9999), st.integers(1, 1 << 26))
def test_rows_are_in_range_ascending_and_as_many_as_said(seed: str, index: int, rows: int) -> None:
    found = challenge.chosen(seed, index, rows)
    assert found == sorted(set(found))
    assert all(0 <= row < rows for row in found)
    assert len(found) == min(rows, LARGE_ROWS if rows >= LARGE else ROWS)
    assert found == challenge.chosen(seed, index, rows)


def test_every_row_can_be_chosen_and_none_is_preferred() -> None:
    counts = np.zeros(16, dtype=int)
    for number in range(2000):
        for row in challenge.chosen(f"{number:064x}", 5, 16):
            counts[row] += 1
    # 4,000 choices over 16 rows: 250 each, deviation 15; six of them.
    assert counts.sum() == 2000 * ROWS
    assert abs(counts - 250).max() < 6 * 15


def test_seed_and_case_change_the_choice() -> None:
    choices = {tuple(challenge.chosen(f"{seed:064x}", index, 1 << 20)) for seed in range(20) for index in range(20)}
    assert len(choices) == 400


def test_all_cases_are_asked() -> None:
    found = [challenge.chosen("0" * 64, index, rows) for index, rows in enumerate([1, 72, 12288])]
    assert [len(rows) for rows in found] == [1, ROWS, LARGE_ROWS]


@given(SEED, st.integers(0, 9999), st.lists(st.integers(0, 1 << 20), min_size=1, unique=True), st.integers(0, 512))
def test_one_row_of_a_group_is_of_it(seed: str, index: int, rows: list[int], group: int) -> None:
    assert challenge.one_of(np.array(rows), seed, index, group) in rows


def test_every_row_of_a_group_can_be_chosen() -> None:
    rows = np.array([3, 5, 8, 13])
    found = {challenge.one_of(rows, f"{seed:064x}", 0, group) for seed in range(8) for group in range(8)}
    assert found == set(rows.tolist())


def test_a_row_stands_for_itself_alone() -> None:
    values = np.arange(256, dtype=np.float32)
    one = challenge.row_bytes("p", "c", 3, values)
    assert one.endswith(values.tobytes())
    others = {
        challenge.row_bytes("q", "c", 3, values),
        challenge.row_bytes("p", "d", 3, values),
        challenge.row_bytes("p", "c", 4, values),
        challenge.row_bytes("p", "c", 3, -values),
    }
    assert len(others | {one}) == 5
