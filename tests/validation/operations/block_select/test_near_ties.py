"""What is a near tie, and what is not: pairs made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from validation.core.verdict import Check, Verdict
from validation.operations.block_select import near_ties
from validation.operations.block_select.lengths import steps
from validation.operations.block_select.near_ties import Scored

#: One query of five blocks and an incomplete one; scores and bounds of the blocks.
STEPS = steps(np.array([22]), np.array([6]))
SCORES = np.array([3.0, 1.0, 1.001, 0.5, 2.0])


def ids(*blocks: int, tail: tuple[int, ...] = (20, 21)) -> np.ndarray:
    return np.array([sorted([*(4 * block + cell for block in blocks for cell in range(4)), *tail])], np.int32)


def asked(new: np.ndarray, old: np.ndarray, new_bound: Any, old_bound: Any, of: np.ndarray = SCORES) -> Check:
    bounds = [np.broadcast_to(np.asarray(one, np.float64), of.shape) for one in (new_bound, old_bound)]
    return near_ties.check(new, old, STEPS, lambda row, blocks: Scored(of[blocks], *(one[blocks] for one in bounds)))


def test_equal_selections_are_no_difference() -> None:
    check = asked(ids(0), ids(0), 0, 0)
    assert check.verdict is Verdict.EXACT
    assert (check.figures["queries"], check.figures["pairs"]) == (0, 0)


@pytest.mark.parametrize(("bound", "legal"), [(0.0005, True), (0.00049, False), (0.01, True), (0.0, False)])
def test_the_bounds_of_the_one_that_chose_the_smaller_score_decide(bound: float, legal: bool) -> None:
    """The new one chose block 1 for block 2, whose score is 0.001 larger. The baseline's own bound is none."""
    check = asked(ids(1), ids(2), bound, 0)
    assert check.verdict is (Verdict.EXACT if legal else Verdict.EXCEEDS)
    turned = asked(ids(2), ids(1), 0, bound)
    assert turned.verdict is check.verdict
    assert (check.figures["queries"], check.figures["cells"], check.figures["pairs"]) == (1, 4, 1)


def test_each_bound_is_its_own_blocks() -> None:
    bounds = np.array([0, 0.001, 0, 0, 0])
    assert asked(ids(1), ids(2), bounds, 0).verdict is Verdict.EXACT
    assert asked(ids(1), ids(2), bounds[::-1], 0).verdict is Verdict.EXCEEDS


def test_every_pair_is_asked() -> None:
    """Blocks 1 and 2 are near, 3 is not; of several, one wrong pair is enough, and it is named."""
    one, two = ids(1, 3, tail=()), ids(2, 4, tail=())
    check = near_ties.check(
        one, two, steps(np.array([22]), np.array([8])), lambda row, at: Scored(SCORES[at], 0 * at + 0.01, 0 * at + 0.01)
    )
    assert check.verdict is Verdict.EXCEEDS
    assert check.figures["pairs"] == 4
    assert "query 0: block 3 for block 4" in check.reason
    assert check.figures["nearest"] == pytest.approx(1.5 / 0.02)


def test_what_is_not_promised_is_counted_apart() -> None:
    bounds = np.array([0, np.inf, 0, 0, 0])
    check = asked(ids(1), ids(2), bounds, bounds, np.array([3.0, np.nan, 1.0, 0.5, 2.0]))
    assert check.verdict is Verdict.EXACT
    assert (check.figures["pairs"], check.figures["unknown"]) == (0, 1)


@pytest.mark.parametrize("bounds", [(0.0, np.inf), (np.inf, 0.0)])
def test_a_side_without_a_bound_promises_nothing(bounds: tuple[float, float]) -> None:
    assert asked(ids(1), ids(2), *bounds).figures["unknown"] == 1


def test_a_cut_block_counts_by_its_cells() -> None:
    """Both cut block 4, at other cells, so that the one has another block's cell more."""
    new, old = np.array([[0, 1, 2, 3, 16, 17]], np.int32), np.array([[0, 1, 2, 3, 8, 16]], np.int32)
    check = asked(new, old, 0.5, 0.5)
    assert (check.verdict, check.figures["cells"]) == (Verdict.EXACT, 1)
    assert asked(new, old, 0.4, 0.4).verdict is Verdict.EXCEEDS


def test_cells_without_a_score_are_no_near_ties() -> None:
    check = asked(ids(0), ids(0, tail=(16, 20)), 1, 1)
    assert check.verdict is Verdict.EXCEEDS
    assert "cell 21 has no score" in check.reason


def test_a_cell_too_few_is_no_near_tie() -> None:
    short = ids(0)
    short[0, 0] = short[0, 1]
    assert asked(short, ids(0), 1, 1).verdict is Verdict.EXCEEDS


def test_the_same_cells_in_another_order_are_another_checks_matter() -> None:
    check = asked(ids(0)[:, ::-1], ids(0), 0, 0)
    assert (check.verdict, check.figures["queries"]) == (Verdict.EXACT, 0)
