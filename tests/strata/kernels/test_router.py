"""The router on lanes: choice and weights against FP64 and against their very bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import router
from validation.core.random_streams import Stream
from validation.core.verdict import within
from validation.operations.router import bound as bounds
from validation.operations.router import reference

INF = np.float32(np.inf)
NAN = np.float32(np.nan)


def drawn(seed: int, tokens: int, experts: int, exponent: int = 0) -> np.ndarray:
    """float32 logits [tokens, experts]."""
    return Stream.of(seed, "logits").normals((tokens, experts), exponent)


def assert_routed(executor: LanesExecutor, logits: np.ndarray, ranks: int, blocks: int | None = None) -> router.Routing:
    """Ids exact, weights within their bound of FP64 and equal to the predicted bits."""
    got = router.run(executor, logits, ranks, blocks)
    want = reference.route(logits, ranks)
    assert got.guards_ok
    assert np.array_equal(got.ids, want.ids)
    check = within("weights", got.weights, want.weights, bounds.weights(want, logits.shape[1]))
    assert check.verdict.passes, check.reason
    assert np.array_equal(got.weights.view(np.uint32), reference.weight_bits(logits, ranks).view(np.uint32))
    assert got.nans == int(np.isnan(logits).sum())
    assert got.infinities == int(np.isinf(logits).sum())
    return got


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_drawn_logits_of_any_size(checked: LanesExecutor, data: st.DataObject) -> None:
    experts = data.draw(st.integers(1, router.MOST_EXPERTS), "experts")
    ranks = data.draw(st.integers(1, min(experts, router.MOST_RANKS)), "ranks")
    exponent = data.draw(st.integers(-30, 6), "exponent")
    assert_routed(checked, drawn(data.draw(st.integers(0, 2**32), "seed"), 5, experts, exponent), ranks)


def test_every_number_of_experts(fast: LanesExecutor) -> None:
    for experts in range(1, router.MOST_EXPERTS + 1):
        ranks = min(experts, 10)
        got = router.run(fast, drawn(experts, 1, experts, 1), ranks)
        want = reference.route(drawn(experts, 1, experts, 1), ranks)
        assert np.array_equal(got.ids, want.ids), experts
        bits = reference.weight_bits(drawn(experts, 1, experts, 1), ranks)
        assert np.array_equal(got.weights.view(np.uint32), bits.view(np.uint32)), experts


@pytest.mark.parametrize("experts", [1, 31, 32, 33, 256, 512, router.MOST_EXPERTS])
def test_as_many_ranks_as_experts_or_the_most(checked: LanesExecutor, experts: int) -> None:
    ranks = min(experts, router.MOST_RANKS)
    got = assert_routed(checked, drawn(2, 6, experts), ranks)
    assert all(len(set(row.tolist())) == ranks for row in got.ids)


@pytest.mark.parametrize("experts", [1, 40, 256, 512])
@pytest.mark.parametrize("value", [0.0, -3.5, 1e30])
def test_equal_logits_go_to_the_smallest_ids(checked: LanesExecutor, experts: int, value: float) -> None:
    ranks = min(10, experts)
    got = assert_routed(checked, np.full((3, experts), value, np.float32), ranks)
    assert np.array_equal(got.ids, np.broadcast_to(np.arange(ranks), (3, ranks)))
    assert len(np.unique(got.weights)) == 1


def test_twelve_equal_logits_for_ten_places(checked: LanesExecutor) -> None:
    """The twelve lie in lanes apart, in one lane, and on both sides of each lane's first expert."""
    places = [np.arange(12) * 41, 7 + np.arange(12) * 32, np.r_[500:512], np.r_[26:38], np.r_[0:6, 506:512]]
    logits = np.minimum(drawn(3, len(places), 512), np.float32(2))
    for row, place in zip(logits, places, strict=True):
        row[place] = 3
    got = assert_routed(checked, logits, 10)
    assert np.array_equal(got.ids, np.stack([place[:10] for place in places]))


def test_a_tie_at_the_cut(checked: LanesExecutor) -> None:
    """Nine stand above it; of two that are equal for the last place the smaller id gets it, wherever they lie."""
    pairs = [(3, 4), (3, 35), (4, 35), (31, 32), (0, 511), (100, 99 + 32)]
    logits = np.full((len(pairs), 512), -1, np.float32)
    for row, (first, second) in zip(logits, pairs, strict=True):
        row[200:209] = np.arange(9) + 5
        row[[first, second]] = 1
    got = assert_routed(checked, logits, 10)
    assert got.ids[:, 9].tolist() == [first for first, _ in pairs]


def test_logits_one_float_apart_are_no_tie(checked: LanesExecutor) -> None:
    """Their exponentials are equal floats: a choice by those would take the smaller id."""
    logits = np.full((1, 64), -20, np.float32)
    logits[0, 5], logits[0, 40] = np.nextafter(np.float32(1), np.float32(0)), 1
    logits[0, 7] = 8
    got = assert_routed(checked, logits, 2)
    assert got.ids.tolist() == [[7, 40]]
    below = logits[0, [5, 40]] - logits[0, 7]
    assert below[0] == below[1]


def test_zeros_of_both_signs_are_equal(checked: LanesExecutor) -> None:
    logits = np.where(Stream.of(1, "signs").below(2, (4, 70)) == 0, 0.0, -0.0).astype(np.float32)
    got = assert_routed(checked, logits, 8)
    assert (got.ids == np.arange(8)).all()


def test_a_dominant_expert(checked: LanesExecutor) -> None:
    logits = drawn(4, 3, 256)
    logits[:, 77] = [200, 1e4, 3e38]
    got = assert_routed(checked, logits, 10)
    assert (got.ids[:, 0] == 77).all()
    assert (got.weights[:, 0] == 1).all()
    assert not got.weights[:, 1:].any()


def test_nans_count_as_the_smallest_and_are_reported(checked: LanesExecutor) -> None:
    logits = drawn(5, 5, 48)
    logits[1] = NAN
    logits[2, ::2] = NAN
    logits[3, 1:] = NAN
    logits[4].view(np.uint32)[:] = 0xFFC00001 + np.arange(48, dtype=np.uint32)  # negative, with payloads
    got = assert_routed(checked, logits, 30)
    assert got.nans == 48 + 24 + 47 + 48
    assert np.array_equal(got.ids[1], np.arange(30))
    assert (got.weights[1] == got.weights[1, 0]).all()
    assert (got.ids[2, :24] % 2 == 1).all()
    assert got.ids[2, 24:].tolist() == [0, 2, 4, 6, 8, 10]
    assert got.weights[3, 0] == 1
    assert np.isfinite(got.weights).all()


def test_infinities_count_as_the_largest_and_are_reported(checked: LanesExecutor) -> None:
    logits = drawn(6, 4, 40)
    logits[0, [4, 9, 31]] = INF
    logits[1] = -INF
    logits[2, 3], logits[2, 5] = INF, reference.LARGEST
    logits[3, ::2] = -INF
    got = assert_routed(checked, logits, 21)
    assert got.infinities == 3 + 40 + 1 + 20
    assert got.ids[0, :3].tolist() == [4, 9, 31]
    assert (got.weights[0, :3] == np.float32(1) / np.float32(3)).all()
    assert got.ids[2, :2].tolist() == [3, 5]
    assert got.weights[2, 0] == got.weights[2, 1] == 0.5
    assert (got.ids[3, 20:] == 0).all()


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_bits_do_not_depend_on_the_grid_or_on_other_tokens(checked: LanesExecutor, blocks: int) -> None:
    logits = drawn(7, 23, 100)
    whole = router.run(checked, logits, 9)
    other = router.run(checked, logits, 9, blocks)
    assert np.array_equal(whole.ids, other.ids)
    assert np.array_equal(whole.weights.view(np.uint32), other.weights.view(np.uint32))
    assert other.witnesses[0].blocks_run == blocks
    alone = router.run(checked, logits[11:12], 9)
    assert np.array_equal(whole.weights[11].view(np.uint32), alone.weights[0].view(np.uint32))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), shift=st.integers(0, 40))
def test_permuted_experts_are_chosen_the_same(checked: LanesExecutor, seed: int, shift: int) -> None:
    """With distinct logits the choice follows the experts; the first weight stays within twice the bound."""
    logits = (Stream.of(seed, "ranks").permutation(90)[None] - 45).astype(np.float32) / 16
    got, moved = router.run(checked, logits, 6), router.run(checked, np.roll(logits, shift, axis=1), 6)
    assert np.array_equal((got.ids + shift) % 90, moved.ids)
    limit = 2 * bounds.weights(reference.route(logits, 6), 90)
    assert (np.abs(got.weights.astype(np.float64) - moved.weights) <= limit).all()


def test_bad_sizes_are_refused(checked: LanesExecutor) -> None:
    good = drawn(8, 2, 12)
    for logits, ranks, said in (
        (good.astype(np.float64), 1, "expected float32"),
        (good[0], 1, "expected float32"),
        (good[:0], 1, "expected float32"),
        (good, 0, "0 experts a token, expected 1 to 12"),
        (good, 13, "13 experts a token, expected 1 to 12"),
        (drawn(8, 1, 64), 33, "33 experts a token, expected 1 to 32"),
        (drawn(8, 1, 1025), 1, "1025 experts, expected 1 to 1024"),
    ):
        with pytest.raises(StrataError, match=said):
            router.run(checked, logits, ranks)
    with pytest.raises(StrataError, match="0 blocks"):
        router.run(checked, good, 1, 0)
