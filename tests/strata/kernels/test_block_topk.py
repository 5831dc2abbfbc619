"""The top-k of block selection on lanes, both kernels, against cells that were sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import block_topk, selection, topk_kernels
from strata.kernels.topk_kernels import KERNELS, SHORT_BLOCKS
from tests.strata.kernels.selection_model import chosen
from validation.core.random_streams import Stream

INF = np.float32(np.inf)
NAN = np.float32(np.nan)


def assert_chosen(
    executor: LanesExecutor, scores: np.ndarray, steps: np.ndarray, cap: int | None = None, reach: int | None = None
) -> np.ndarray:
    """Both kernels give the cells of the definition, and write nothing else. The ids."""
    for kernel in KERNELS:
        got = block_topk.run(executor, scores, steps, cap, reach, kernel)
        assert got.guards_ok
        assert np.array_equal(got.ids, chosen(scores, steps, got.ids.shape[1])), kernel
        assert np.array_equal(got.scores.view(np.uint32), scores.view(np.uint32))
    return got.ids


def one(cells: int, width: int) -> np.ndarray:
    """The steps of one query."""
    return np.array([[cells - 1, cells, cells // 4, width]], np.int32)


def hostile(seed: int, queries: int, blocks: int) -> np.ndarray:
    """Scores with many ties, zeros of both signs, infinities and NaN of both signs."""
    stream = Stream.of(seed, "scores")
    odd = np.array([0.0, -0.0, INF, -INF, NAN, -NAN, 1e-45, -1e-45, 3e38, 1, 1, -1], np.float32)
    kind = stream.child("kind").below(3, (queries, blocks))
    picked = odd[stream.child("odd").below(len(odd), (queries, blocks))]
    few = stream.child("few").below(5, (queries, blocks)).astype(np.float32) - 2
    return np.where(kind == 0, picked, np.where(kind == 1, few, stream.child("n").normals((queries, blocks), 3)))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_hostile_scores_of_any_length_and_width(checked: LanesExecutor, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 1 << data.draw(st.integers(0, 12))), "capacity")
    cells = data.draw(st.lists(st.integers(0, 4 * capacity + 3), min_size=1, max_size=3), "cells")
    widths = [data.draw(st.integers(0, n), "width") for n in cells]
    steps = np.array([(n - 1, n, n // 4, width) for n, width in zip(cells, widths, strict=True)], np.int32)
    cap = max(1, *widths) + data.draw(st.integers(0, 3), "gap")
    scores = hostile(data.draw(st.integers(0, 99), "seed"), len(cells), capacity)
    assert_chosen(checked, scores, steps, cap, data.draw(st.sampled_from([None, capacity])))


@pytest.mark.parametrize("value", [0.0, 7.5, -INF, INF, NAN])
def test_equal_scores_go_to_the_first_cells(checked: LanesExecutor, value: float) -> None:
    """Of 8,207 cells: all of the incomplete block, and the first of the others, whatever the score."""
    ids = assert_chosen(checked, np.full((1, 2051), value, np.float32), one(8207, 2051))
    assert ids[0].tolist() == [*range(2048), 8204, 8205, 8206]


@pytest.mark.parametrize("width", range(1, 14))
def test_a_block_is_cut_by_cell(checked: LanesExecutor, width: int) -> None:
    """Three equal blocks stand highest, with others between them, then one; the tail of two cells is chosen first."""
    scores = np.array([[0, 5, -3, 5, 1, 5, 0]], np.float32)
    order = [28, 29, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]
    ids = assert_chosen(checked, scores, one(30, width))
    assert ids[0].tolist() == sorted(order[:width])


def test_a_cut_block_stands_before_whole_ones(checked: LanesExecutor) -> None:
    """The blocks behind it move up by the cells that it lacks."""
    scores = np.array([[1, 9, 1, 9, 9]], np.float32)
    ids = assert_chosen(checked, scores, one(20, 13))
    assert ids[0].tolist() == [0, *range(4, 8), *range(12, 20)]


def test_a_width_below_the_tail_takes_its_first_cells(checked: LanesExecutor) -> None:
    assert assert_chosen(checked, np.full((1, 2), INF), one(11, 2))[0].tolist() == [8, 9]
    assert assert_chosen(checked, np.full((1, 2), INF), one(11, 3))[0].tolist() == [8, 9, 10]


def test_the_tail_is_chosen_whatever_the_scores(checked: LanesExecutor) -> None:
    """Published kernels add 1e9 to it, which these scores exceed."""
    for value in (3e38, INF, NAN):
        assert assert_chosen(checked, np.full((1, 3), value, np.float32), one(14, 4))[0].tolist() == [0, 1, 12, 13]


def test_a_nan_is_last_and_minus_zero_is_zero(checked: LanesExecutor) -> None:
    scores = np.array([[NAN, -INF, -0.0, 0.0, -NAN, -1e-45, 1e-45]], np.float32)
    order = [6, 2, 3, 5, 1, 0, 4]
    for count in range(1, 7):
        ids = assert_chosen(checked, scores, one(28, 4 * count))
        assert sorted({cell // 4 for cell in ids[0].tolist()}) == sorted(order[:count])


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_scores_that_differ_in_one_byte_of_their_bits(checked: LanesExecutor, shift: int) -> None:
    """Each pass of the select decides alone; all 255 patterns stand in an order that is not theirs."""
    digits = Stream.of(1, "digits").permutation(255).astype(np.uint32)[None, :]
    scores = ((digits << np.uint32(shift)) ^ np.uint32(0 if shift == 24 else 0x3F800000)).view(np.float32)
    for width in (4, 300, 1016):
        assert_chosen(checked, scores, one(1023, width))


def test_few_cells_are_all_chosen(checked: LanesExecutor) -> None:
    for cells in range(8):
        ids = assert_chosen(checked, np.full((1, 2), NAN), one(cells, cells), cap=9)
        assert ids[0, :cells].tolist() == list(range(cells))


def test_the_edge_of_the_short_kernel(checked: LanesExecutor) -> None:
    """As many scores as the threads hold, and a block more, which only the long kernel reaches."""
    scores = hostile(3, 1, SHORT_BLOCKS + 1)
    assert_chosen(checked, scores, one(4 * SHORT_BLOCKS + 3, 2051))
    steps = one(4 * SHORT_BLOCKS + 4, 2051)
    got = block_topk.run(checked, scores, steps)
    assert np.array_equal(got.ids, chosen(scores, steps, 2051))
    with pytest.raises(StrataError, match=f"the short top-k for a reach of {SHORT_BLOCKS + 1} blocks, expected up to"):
        block_topk.run(checked, scores, steps, kernel="short")
    buffers = (checked.array(scores), checked.array(steps), checked.empty((1, 2051), np.int32))
    with pytest.raises(StrataError, match="the short top-k for a reach of"):  # nor by a launch on buffers of one's own
        topk_kernels.launch(checked, *buffers, SHORT_BLOCKS + 1, "short")


def test_the_kernel_follows_from_the_reach() -> None:
    assert [topk_kernels.choose(reach) for reach in (1, SHORT_BLOCKS, SHORT_BLOCKS + 1)] == ["short", "short", "long"]
    assert topk_kernels.choose(1, "long") == "long"
    with pytest.raises(StrataError, match="top-k kernel 'wide': expected short or long"):
        topk_kernels.choose(1, "wide")


def test_capacity_alone_asks_for_no_other_kernel(checked: LanesExecutor) -> None:
    """A short query in a cache of a million cells."""
    scores = np.full((1, selection.MOST_BLOCKS), NAN, np.float32)
    scores[0, :70] = hostile(4, 1, 70)
    got = block_topk.run(checked, scores, one(283, 100))
    assert dict(topk_kernels.kernel("short").defines)["EACH"] > 0
    assert [witness.image for witness in got.witnesses] == [checked.build(topk_kernels.kernel("short")).digest]
    assert np.array_equal(got.ids, chosen(scores, one(283, 100), 100))


@pytest.mark.parametrize(
    ("scores", "steps", "said"),
    [
        (np.zeros((1, 2)), one(8, 4), r"scores are float64 \(1, 2\), expected float32 \[queries, blocks\]"),
        (np.zeros((1, 2), np.float32), one(12, 4), "query 0 has 3 complete blocks, expected up to 2, for which"),
        (np.zeros((2, 2), np.float32), one(8, 4), r"steps is int32 \(1, 4\), expected int32 \[2, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, scores: np.ndarray, steps: np.ndarray, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        block_topk.run(checked, scores, steps)
