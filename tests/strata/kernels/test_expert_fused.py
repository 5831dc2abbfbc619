"""Fused experts on lanes against the exact model: every format, tier and shape, cuts, orders, hostile routing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_fused
from strata.kernels.experts import EXPERT_MODES, Experts, Geometry, place
from strata.kernels.paths import PATHS
from tests.strata.kernels.expert_small import Layer, differences, expected, fused, layer, same_bits

MODE = "iq3_xxs/iq4_nl"
WAYS = [(tier, shape) for tier in (75, 80) for shape in expert_fused.SHAPES]
#: Around the edges of groups of 16 columns and of both tiles.
ROWS = (1, 2, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 130)


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor()


#: Modes, and the work shape of sm80 in which the checked build runs them: every format of gate and up, both of down.
CHECKED = {
    "iq3_xxs/q2_0": 2,
    "iq3_s/iq4_nl": 4,
    "iq4_xs/q2_0": 4,
    "iq2_xxs/iq4_nl": 2,
    "iq2_xs/q2_0": 2,
    "iq2_s/iq4_nl": 4,
    "iq4_xs/iq4_nl": 2,
}
#: Modes, and the work shape of sm75 in which the fast build runs them: every format again.
FAST = {
    "iq3_xxs/iq4_nl": 4,
    "iq3_s/q2_0": 2,
    "iq4_xs/iq4_nl": 4,
    "iq2_xxs/q2_0": 2,
    "iq2_xs/iq4_nl": 4,
    "iq2_s/q2_0": 2,
}


@pytest.mark.parametrize("mode", EXPERT_MODES)
def test_every_mode_gives_the_bits_of_the_model(lanes: LanesExecutor, mode: str) -> None:
    made = layer(mode, tokens=13, experts=3, top=2, n=512, ff=192)
    want = expected(made)
    assert (want.rows != 0).mean() > 0.4
    assert np.isfinite(want.rows).all()
    if mode in FAST:
        got = fused(lanes, made, 75, shape=FAST[mode], trace=True)
    else:
        got = fused(LanesExecutor(flavor="checked"), made, 80, shape=CHECKED[mode], trace=True)
    assert differences(got, want) == []
    assert got.ignored == ((made.ids < 0) | (made.ids >= 3)).sum() > 0
    assert got.status == (0, 0, 0)


@pytest.mark.parametrize(("mode", "shape"), CHECKED.items())
def test_rows_of_several_chunks_at_every_address(mode: str, shape: int) -> None:
    """Three chunks of weights and more a row, whose last is cut short: 9 blocks of Q2_0. Nothing outside of a blob is
    read, wherever in 16 bytes it lies."""
    made = layer(mode, tokens=6, experts=8, top=2, n=768, ff=576)
    made = replace(made, experts=replace(made.experts, offsets=[2 * e for e in range(8)]))
    got = fused(LanesExecutor(flavor="checked"), made, 80, shape=shape, trace=True)
    assert differences(got, expected(made)) == []


def test_tiers_shapes_and_cuts_agree(lanes: LanesExecutor) -> None:
    made = layer(MODE, tokens=90, experts=5, top=3)
    want = expected(made)
    cuts = ([(0, 5)], [(0, 1), (1, 3), (3, 5)], [(0, 0), (0, 4), (4, 5)])
    for tier, shape in WAYS:
        for cut in cuts:
            assert differences(fused(lanes, made, tier, shape=shape, cuts=cut, trace=True), want) == [], (tier, shape)
    mixed = fused(lanes, made, 75, shape=(4, 2))
    assert same_bits(mixed.rows, want.rows)
    assert mixed.gate is None


def test_order_of_tokens_ranks_and_lanes_changes_nothing(lanes: LanesExecutor) -> None:
    made = layer(MODE, tokens=40, experts=4, top=3)
    plain = fused(lanes, made, 80)
    turned, ranks = np.argsort(np.arange(40) * 17 % 41), [2, 0, 1]
    moved = Layer(made.experts, made.x[turned], np.ascontiguousarray(made.ids[turned][:, ranks]))
    assert same_bits(fused(lanes, moved, 80).rows, np.ascontiguousarray(plain.rows[turned][:, ranks]))
    for seed in (None, 3):
        assert same_bits(fused(LanesExecutor(seed=seed), made, 80).rows, plain.rows)


@pytest.mark.parametrize("rows", ROWS)
def test_all_rows_to_one_expert(lanes: LanesExecutor, rows: int) -> None:
    made = layer(MODE, tokens=rows, experts=3, top=1)
    made = replace(made, ids=np.full((rows, 1), 1, np.int32))
    tier, shape = WAYS[rows % len(WAYS)]
    got = fused(lanes, made, tier, shape=shape, trace=True)
    assert differences(got, expected(made)) == []
    assert got.offsets is not None
    assert got.offsets.tolist() == [0, 0, rows, rows]


def test_grouping(lanes: LanesExecutor) -> None:
    """Every pair has a row of its own inside its expert's, and the row knows its token."""
    made = layer(MODE, tokens=50, experts=7, top=4)
    made.ids[3] = 5  # one expert in every rank
    got = fused(lanes, made, 80)
    assert got.slot is not None
    assert got.source is not None
    assert got.offsets is not None
    flat = made.ids.reshape(-1)
    named = (flat >= 0) & (flat < 7)
    assert (got.slot[~named] == -1).all()
    assert not got.rows.reshape(200, -1)[~named].any()
    slot = got.slot[named]
    assert sorted(slot.tolist()) == list(range(int(named.sum())))
    assert (got.source[slot] == np.arange(200)[named] // 4).all()
    assert (np.searchsorted(got.offsets, slot, side="right") - 1 == flat[named]).all()
    assert same_bits(got.rows, expected(made).rows)


def test_nobody_is_named(lanes: LanesExecutor) -> None:
    made = layer(MODE, tokens=5, experts=2, top=2)
    made = replace(made, ids=np.full((5, 2), np.iinfo(np.int32).min, np.int32))
    got = fused(lanes, made, 80)
    assert got.ignored == 10
    assert same_bits(got.rows, np.zeros_like(got.rows))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_and_is_counted(lanes: LanesExecutor, bad: float) -> None:
    made = layer(MODE, tokens=6, experts=2, top=1)
    made = replace(made, ids=np.zeros((6, 1), np.int32))
    made.x[2, 70] = bad
    made.x[4] = np.float32(3e38)  # finite codes, products that overflow
    want = expected(made)
    got = fused(lanes, made, 80, trace=True)
    assert differences(got, want) == []
    assert np.isnan(got.rows[2]).all()
    assert np.isfinite(got.rows[[0, 1, 3, 5]]).all()
    features, lost = 64 // 32, ~np.isfinite(want.rows)
    assert got.status is not None
    assert got.status[0] == 1
    assert got.status[1] >= features
    assert got.status[2] == lost.sum() >= 256


def test_a_token_of_zeros_gives_zeros(lanes: LanesExecutor) -> None:
    made = layer("iq2_s/q2_0", tokens=4, experts=2, top=2)
    made = replace(made, ids=np.array([[0, 1]] * 4, np.int32))
    for shape in expert_fused.SHAPES:
        got = fused(lanes, made, 80, shape=shape)
        assert same_bits(got.rows[1], np.zeros_like(got.rows[1]))
        assert got.rows[0].any()


@pytest.mark.parametrize("tier", [75, 80])
def test_the_checked_build_finds_nothing(checked: LanesExecutor, tier: int) -> None:
    made = layer(MODE, tokens=21, experts=3, top=2, n=512, ff=128)
    assert differences(fused(checked, made, tier, shape=2, trace=True), expected(made)) == []


def test_again_on_the_same_buffers(lanes: LanesExecutor) -> None:
    """A second launch on used workspaces gives the same; that is what a benchmark repeats."""
    made = layer(MODE, tokens=30, experts=3, top=2)
    placed = place(lanes, made.experts)
    path = PATHS[f"expert_fused/{MODE}/sm80"]
    ready = expert_fused.prepare(lanes, path, placed, made.x, made.ids)
    first = ready.result(ready.launch())
    again = ready.result(ready.launch())
    assert same_bits(first.rows, again.rows)
    assert same_bits(first.rows, expected(made).rows)
    assert again.ignored == first.ignored


def test_what_does_not_fit_is_refused(lanes: LanesExecutor) -> None:
    made = layer(MODE, tokens=2, experts=2, top=1)
    for options, words in (({"shape": 3}, "work shape 3"), ({"cuts": [(0, 1)]}, "expected 0 to 2 without gaps")):
        with pytest.raises(StrataError, match=words):
            fused(lanes, made, 80, **options)
    other = PATHS["expert_fused/iq3_s/iq4_nl/sm80"]
    with pytest.raises(StrataError, match="cannot run on iq3_xxs/iq4_nl experts"):
        expert_fused.run(lanes, other, made.experts, made.x, made.ids)
    with pytest.raises(StrataError, match="expected float32"):
        expert_fused.run(lanes, PATHS[f"expert_fused/{MODE}/sm80"], made.experts, made.x[:, :-1], made.ids)
    with pytest.raises(StrataError, match="tier 70"):
        expert_fused.kernel("iq3_xxs", 70, 4)


def test_experts_refuse_what_is_not_theirs() -> None:
    for n, ff in ((128, 64), (2560, 96)):
        with pytest.raises(StrataError, match="multiples of 256 and of 64"):
            Geometry(n, ff)
    blob = layer(MODE, 1, 1, 1).experts.blobs[0]
    with pytest.raises(StrataError, match="expected an even number"):
        Experts("iq3_xxs", "iq4_nl", Geometry(256, 64), [blob], [3])
    with pytest.raises(StrataError, match="blob of expert 0"):
        Experts("iq3_s", "iq4_nl", Geometry(256, 64), [blob])
