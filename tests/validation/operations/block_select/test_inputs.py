"""Recipes of block selection reach what they are for: counted from the data."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.lanes import RULES
from strata.kernels.block_select import TILES
from strata.kernels.paths import PATHS
from strata.kernels.selection import BLOCK, DIMS, HEADS, prepare
from validation.core.stub_executor import StubExecutor
from validation.operations.block_select import inputs, lengths, model, plan, reference, sampling
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.choice import choose
from validation.operations.block_select.inputs import Inputs
from validation.operations.block_select.recipes import RECIPES

RULE = RULES["sm_90"]


def planned(name: str) -> SelectCase:
    """The first quick case of a recipe."""
    text = next(entry.case.text() for entry in plan.planned(1, "quick") if entry.case.recipe == name)
    return SelectCase.parse(text)


def made(name: str) -> Inputs:
    return inputs.build(planned(name))


def bits(name: str, path: str = "block_select_warp/fp32/simt") -> np.ndarray:
    given = made(name)
    got = model.scores(PATHS[path], given.q, given.keys[: given.blocks], RULE)
    assert got is not None
    return got


@pytest.mark.parametrize("name", RECIPES)
def test_inputs_are_taken_and_are_the_same_each_time(name: str) -> None:
    given, again = made(name), made(name)
    prepare(StubExecutor(), given.q, given.keys, given.steps, given.cap)
    assert given.q.tobytes() == again.q.tobytes()
    assert given.keys.tobytes() == again.keys.tobytes()


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ("select_sizes", "select_far")])
def test_quick_cases_choose_among_more_cells_than_they_may(name: str) -> None:
    """And some query has an incomplete block, and cuts one."""
    steps = made(name).steps
    _, n_kv, n_bid, width = steps.T
    assert (width < n_kv).any()
    rest = width - (n_kv - BLOCK * n_bid)
    assert ((n_kv % BLOCK > 0) & (rest > 0) & (rest % BLOCK > 0)).any()


def test_near_scores_are_ordered_differently_by_scorers() -> None:
    steps = made("select_near").steps
    chosen = [
        choose(bits("select_near", path), steps, 600)
        for path in ("block_select_warp/fp32/simt", "block_select/fp32/simt")
    ]
    assert (chosen[0] != chosen[1]).any(axis=1).sum() > len(steps) // 2


def test_decades_have_rows_of_many_sizes_and_exponents_on_both_sides_of_what_is_usual() -> None:
    """A tensor scorer multiplies by powers of two one by one where e - 14 is at most 30 in size."""
    given = made("select_decades")
    for rows in (given.q.reshape(-1, DIMS), given.keys[: given.blocks]):
        e = np.abs(model.halves(rows).exponent - 14)
        assert (e > 30).any()
        assert (e <= 30).any()


def test_zeros_have_no_score_above_zero_and_some_keys_of_zeros() -> None:
    given = made("select_zeros")
    assert not bits("select_zeros").any()
    assert (reference.dots(given.q, given.keys[: given.blocks]) < 0).any()
    assert (~given.keys.any(axis=1)).any()


def test_heads_differ_from_a_relu_after_the_sum_and_each_head_counts() -> None:
    given = made("select_heads")
    dots = reference.dots(given.q, given.keys[: given.blocks])
    scores = np.maximum(dots, 0).sum(axis=1)
    assert (np.maximum(dots.sum(axis=1), 0) < scores / 8).mean() > 0.5
    for head in range(HEADS):
        without = np.maximum(np.delete(dots, head, axis=1), 0).sum(axis=1)
        assert (without < scores / 4).any()


def test_cancelling_sums_are_far_below_their_products() -> None:
    given = made("select_cancelling")
    keys = given.keys[: given.blocks]
    size = np.abs(given.q.astype(np.float64)) @ np.abs(keys.astype(np.float64)).T
    assert np.median(np.abs(reference.dots(given.q, keys)) / size) < 1e-3


def test_lengths_are_not_in_order_and_the_longest_is_no_end_of_a_tile() -> None:
    n_kv = lengths.cells(planned("select_lengths"))
    for queries, _ in TILES.values():
        for first in range(0, len(n_kv), queries):
            tile = n_kv[first : first + queries]
            if len(tile) > 2:
                assert tile[0] <= max(lengths.FEW)
                assert tile[-1] <= max(lengths.FEW)
                assert tile.max() == n_kv.max() > 2 * BLOCK
    assert {0, 1, 2, 3} <= set(n_kv.tolist())


def test_broken_rows_give_nan_and_leave_others() -> None:
    got = bits("select_broken")
    assert 0.05 < np.isnan(got).mean() < 0.95
    assert np.isinf(got).any()
    assert np.isfinite(got).any()


def test_huge_scores_lie_on_both_sides_of_infinity() -> None:
    got = bits("select_huge")
    assert not np.isnan(got).all()
    assert np.isinf(got).any()
    assert ((got > 2.0**120) & np.isfinite(got)).any()


def test_tiny_scores_are_subnormal_and_rows_are_below_the_smallest_scale() -> None:
    got, given = bits("select_tiny"), made("select_tiny")
    assert ((got > 0) & (got < 2.0**-126)).any()
    assert (got > 2.0**-126).any()
    assert (got == 0).any()
    largest = np.abs(given.q).max(axis=2)
    assert ((largest > 0) & (largest < 2.0**-101)).any()
    assert (largest == 0).any()


def test_low_halves_add_up_to_more_than_any_bound() -> None:
    """A product that leaves one half out is off by 2**-12 of the score."""
    given = made("select_split")
    q, keys = model.halves(given.q.reshape(-1, DIMS)), model.halves(given.keys[: given.blocks])
    low = q.lo.astype(np.float64) @ keys.hi.astype(np.float64).T
    high = q.hi.astype(np.float64) @ keys.hi.astype(np.float64).T
    assert np.median(np.abs(low / high)) > 2.0**-13


def test_what_nobody_may_read_would_be_chosen() -> None:
    given = inputs.build(SelectCase("select_bell", 1, 64, 2, 8, 4096))
    assert given.blocks < len(given.keys)
    whole = reference.scores(given.q, given.keys)
    assert (whole[:, given.blocks :] > whole[:, : given.blocks].max()).any(axis=1).all()


def test_large_cases_are_measured_in_part() -> None:
    """Few queries and few blocks of many, the ends among them; of small ones all."""
    case = SelectCase("select_bell", 1, 200192, 2048)
    given = Inputs(
        np.zeros((2048, 1, 1), np.float32),
        np.zeros((0, 1), np.float32),
        lengths.steps(lengths.cells(case), np.zeros(2048, int)),
        1,
    )
    rows = sampling.rows(given, case.stream("rows"))
    blocks = sampling.blocks(given, len(rows), case.stream("blocks"))
    assert not sampling.whole(given)
    assert (rows[0], rows[-1]) == (0, 2047)
    assert (blocks[0], blocks[-1]) == (0, given.blocks - 1)
    assert len(rows) * given.blocks * HEADS <= sampling.MEASURED
    assert len(rows) * len(blocks) * HEADS <= sampling.MODELLED
    small = made("select_bell")
    assert sampling.whole(small)
    assert sampling.rows(small, case.stream("rows")).tolist() == list(range(len(small.q)))
