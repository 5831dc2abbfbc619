"""A selection is lawful where some scores within their bounds would give it, and never otherwise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.operations.block_select.choice import choose
from validation.operations.block_select.lawful import refusal

#: 4 complete blocks and 2 cells behind them, 8 of which are chosen: the 2, block 2, and half of block 0.
STEP = np.array([17, 18, 4, 8], np.int32)
SCORES = np.array([3.0, 1.0, 4.0, 2.0])
BOUNDS = np.full(4, 0.25)
CHOSEN = [0, 1, 8, 9, 10, 11, 16, 17]


def row(cells: list[int], cap: int = 10) -> np.ndarray:
    return np.array([*cells, *[-1] * (cap - len(cells))], np.int32)


def test_the_choice_by_the_scores_themselves_is_lawful() -> None:
    assert refusal(row(CHOSEN), STEP, SCORES, BOUNDS) == ""


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([0, 1, 8, 9, 10, 11, 16, 18], "place 7 holds cell 18, expected 0 to 17"),
        ([-1, 1, 8, 9, 10, 11, 16, 17], "place 0 holds cell -1, expected 0 to 17"),
        ([1, 0, 8, 9, 10, 11, 16, 17], "place 1 holds cell 0 behind 1, expected them to ascend"),
        ([0, 0, 8, 9, 10, 11, 16, 17], "place 1 holds cell 0 behind 0, expected them to ascend"),
        ([0, 1, 2, 8, 9, 10, 11, 17], r"1 cells behind the last complete block, expected \[16, 17\] before all others"),
        ([0, 4, 8, 9, 10, 11, 16, 17], "blocks 0 and 1 are chosen in part, expected one at most"),
        ([0, 2, 8, 9, 10, 11, 16, 17], r"cells \[0, 2\] of block 0 are chosen, expected its first 2"),
        ([4, 5, 8, 9, 10, 11, 16, 17], "block 1 with a score of 1 is chosen before block 0 with 3, and the bounds"),
        ([0, 1, 2, 3, 8, 9, 16, 17], "block 0 with a score of 3 is chosen before block 2 with 4"),
        ([0, 1, 8, 9, 10, 11, 16], "place 7 holds cell -1"),
    ],
)
def test_what_is_not_is_refused_by_name(cells: list[int], why: str) -> None:
    assert re.search(why, refusal(row(cells), STEP, SCORES, BOUNDS))


def test_nothing_may_stand_behind_the_width() -> None:
    ids = row(CHOSEN)
    ids[9] = 3
    assert refusal(ids, STEP, SCORES, BOUNDS) == "place 9 holds 3, expected -1 behind a width of 8"


def test_what_the_bounds_cannot_tell_apart_may_be_either() -> None:
    other = row([0, 1, 2, 3, 8, 9, 16, 17])
    assert refusal(other, STEP, SCORES, np.full(4, 0.5)) == ""
    assert refusal(other, STEP, SCORES, np.array([0.5, 0, 0.4, 0])) != ""
    assert refusal(other, STEP, np.array([np.nan, 1, 4, 2]), np.array([np.inf, 0, 0, 0])) == ""


@given(st.data())
def test_a_choice_by_scores_within_their_bounds_is_lawful(data: st.DataObject) -> None:
    """And whatever differs from every such choice by a block that is plainly lower is not."""
    blocks, tail = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 3))
    cells = 4 * blocks + tail
    step = np.array([cells - 1, cells, blocks, data.draw(st.integers(0, cells))], np.int32)
    whole = st.lists(st.integers(0, 6), min_size=blocks, max_size=blocks)
    scores, bounds = (np.array(data.draw(whole), np.float64) for _ in range(2))
    sides = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=blocks, max_size=blocks))
    moved = scores + bounds * np.array(sides, np.float64)
    (chosen,) = choose(moved.astype(np.float32)[None, :], step[None, :], cells + 2)
    assert refusal(chosen, step, scores, bounds) == ""
    counts = np.bincount(chosen[(chosen >= 0) & (chosen < 4 * blocks)] // 4, minlength=blocks)
    if len({*counts.tolist()} & {0, 4}) == 2:
        raised = scores.copy()
        raised[counts == 0] = scores.max() + 2 * bounds.max() + 1
        assert "is chosen before block" in refusal(chosen, step, raised, bounds)
