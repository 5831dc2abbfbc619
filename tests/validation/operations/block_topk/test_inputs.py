"""Recipes of scores reach what they are for: counted from the data."""

from __future__ import annotations

import numpy as np
import pytest

from strata.kernels.selection import BLOCK, check_steps
from validation.operations.block_select.case import SelectCase
from validation.operations.block_topk import inputs, plan
from validation.operations.block_topk.inputs import Inputs
from validation.operations.block_topk.recipes import RECIPES


def made(name: str) -> Inputs:
    """Of the first quick case of a recipe."""
    text = next(entry.case.text() for entry in plan.planned(1, "quick") if entry.case.recipe == name)
    return inputs.build(SelectCase.parse(text))


def of_blocks(given: Inputs) -> list[np.ndarray]:
    """uint32, the scores of each query's complete blocks."""
    return [row[:n].view(np.uint32) for row, n in zip(given.scores, given.steps[:, 2].tolist(), strict=True)]


@pytest.mark.parametrize("name", RECIPES)
def test_inputs_are_taken_and_are_the_same_each_time(name: str) -> None:
    given = made(name)
    check_steps(given.steps, len(given.scores), given.scores.shape[1], given.cap, None)
    assert given.scores.tobytes() == made(name).scores.tobytes()


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ("topk_sizes", "topk_far")])
def test_what_lies_behind_the_blocks_would_be_chosen_first(name: str) -> None:
    given = made(name)
    behind = [row[n:] for row, n in zip(given.scores, given.steps[:, 2].tolist(), strict=True)]
    assert sum(len(one) for one in behind)
    assert all((one == np.inf).all() for one in behind)


def test_digits_differ_in_one_octet_of_each_query_in_turn() -> None:
    """And each octet has more values than one pass needs to be wrong."""
    for query, bits in enumerate(of_blocks(made("topk_digits"))):
        differing = np.bitwise_or.reduce(bits ^ bits[0])
        assert int(differing) & ~(0xFF << 8 * (query % 4)) == 0
        assert len(np.unique(bits)) > 80
        assert np.isfinite(bits.view(np.float32)).all()


def test_nan_are_of_both_signs_and_several_payloads_and_one_query_has_nothing_else() -> None:
    rows = of_blocks(made("topk_nan"))
    values = [row.view(np.float32) for row in rows]
    assert np.isnan(values[0]).all()
    assert all(0.1 < np.isnan(one).mean() < 0.9 for one in values[1:])
    assert len(np.unique(rows[0])) == 6
    assert {bool(sign) for sign in np.signbit(values[0])} == {True, False}


def test_zeros_of_both_signs_stand_at_the_cut() -> None:
    """More numbers than are chosen are zero or above, and fewer are above."""
    given = made("topk_zeros")
    for row, (_, n_kv, n_bid, width) in zip(of_blocks(given), given.steps.tolist(), strict=True):
        scores = row.view(np.float32)
        needed = (width - (n_kv - BLOCK * n_bid)) / BLOCK
        assert (scores > 0).sum() < needed < (scores >= 0).sum()
        assert len({bool(sign) for sign in np.signbit(scores[scores == 0])}) == 2


def test_widths_are_at_every_edge() -> None:
    steps = made("topk_lengths").steps
    _, n_kv, n_bid, width = steps.T
    tail = n_kv - BLOCK * n_bid
    for kind in (
        width == 0,
        width == n_kv,
        width == n_kv - 1,
        (width < tail) & (width > 0),
        (width == tail) & (tail > 0),
    ):
        assert (kind & (n_kv > 4)).any()
    assert set(tail.tolist()) == {0, 1, 2, 3}


def test_levels_and_twins_are_many() -> None:
    for name in ("topk_levels", "topk_equal", "topk_infinities", "topk_subnormals"):
        for row in of_blocks(made(name)):
            assert len(np.unique(row)) <= 128
    assert SelectCase.parse("recipe=topk_equal seed=1 context=9 queries=2").recipe in RECIPES
