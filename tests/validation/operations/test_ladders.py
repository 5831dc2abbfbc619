"""Recipes that sweep a scale reach the regimes that they are for: what crosses which threshold, counted from data."""

from __future__ import annotations

import numpy as np
import pytest

from strata.kernels.pool import HEAD_DIM, MODES
from validation.controls import data
from validation.core.control import Control, answer
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import values
from validation.operations.combine import inputs as combine_inputs
from validation.operations.combine import plan as combine_plan
from validation.operations.experts import blobs
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import build as build_experts
from validation.operations.experts.plan import small
from validation.operations.kv_pack.case import Case
from validation.operations.router import inputs as router_inputs
from validation.operations.router import plan as router_plan

#: The size of quick cases; the smaller of the chunks that kernels take.
CONTEXT, QUERIES, CHUNK = 211, 3, 32
LOG2E = 1.4426950408889634


def made(name: str, mode: str) -> tuple[Inputs, np.ndarray]:
    """Inputs of the quick size, and scores in units of log2, [n_q, kv, group, cells], absent cells left out."""
    inputs = build(Case(name, 1, CONTEXT, QUERIES), mode)
    ids = inputs.ids[-1, : int(inputs.widths[-1])].astype(np.int64)
    here = inputs.pool.table[ids // inputs.pool.page_size] >= 0
    k, _ = values(inputs.pool, ids[here])
    q = inputs.q.astype(np.float64).reshape(QUERIES, k.shape[1], -1, HEAD_DIM)
    return inputs, np.einsum("qhgd,chd->qhgc", q, k) / 16 * LOG2E


def octaves(numbers: np.ndarray) -> set[int]:
    """Powers of two that positive numbers lie at."""
    return set(np.frexp(numbers[numbers > 0])[1].tolist())


@pytest.mark.parametrize("mode", MODES)
def test_rises_of_the_maximum_go_through_every_power_of_two(mode: str) -> None:
    """From far below a rise that may be left out to one beyond the last weight that is not zero."""
    _, scores = made("q_ladder", mode)
    highest = np.maximum.accumulate(scores, axis=-1)[..., CHUNK - 1 :: CHUNK]
    rises = octaves(np.diff(highest[:, 0], axis=-1))
    assert rises >= set(range(-18, 13))
    falling = octaves(-scores[:, 1])
    assert min(falling) < -100
    assert max(falling) > 110
    assert float(scores[:, 1].max(axis=-1).min()) < -1e30


@pytest.mark.parametrize("mode", MODES)
def test_hundreds_of_cells_weigh_next_to_nothing_beside_one(mode: str) -> None:
    """A step of at most two octaves of weight from one head to the next, up to 2**-40."""
    _, scores = made("v_ladder", mode)
    for head, alone in ((0, 0), (1, -1)):
        top = scores[:, head, :, alone]
        gaps = np.sort((top - np.median(scores[:, head], axis=-1)).ravel())
        assert gaps[0] < 1
        assert gaps[-1] > 40
        assert np.diff(gaps[(gaps > 1) & (gaps < 20)]).max() < 4


@pytest.mark.parametrize("mode", MODES)
def test_halves_of_q_are_subnormal_and_vanish(mode: str) -> None:
    """In units in which the largest element of a head lies between 2**13 and 2**14, as the kernel has them."""
    inputs, scores = made("k_ladder", mode)
    largest = np.abs(inputs.q).max(axis=-1, keepdims=True)
    raised = np.ldexp(inputs.q.astype(np.float64), 14 - np.frexp(largest)[1])
    hi = raised.astype(np.float16)
    lo = (raised - hi.astype(np.float64)).astype(np.float16)
    normal = np.finfo(np.float16).tiny
    subnormal = np.abs(lo[:, :12]) < normal
    assert 0.1 < subnormal.mean() < 0.9
    assert (np.abs(hi[:, 12:]) < normal).mean() > 0.01
    assert ((lo[:, 12:] == 0) & (hi[:, 12:] != 0)).mean() > 0.01
    # Every step of dims has its part in the scores: what is lost in one of them shows.
    assert np.abs(scores).max() > 2.0**-6


@pytest.mark.parametrize("mode", MODES)
def test_sunken_scores_lie_below_finite_stand_ins_for_minus_infinity(mode: str) -> None:
    inputs, scores = made("sunken_ladder", mode)
    assert scores.max() < 0
    assert scores[:, 0].min() < -1e4 < -30 < scores[:, 0].max()
    largest = np.frexp(np.abs(inputs.q).max(axis=-1))[1].reshape(QUERIES, 2, -1, 1)
    raw = np.ldexp(scores * 16 / LOG2E, 14 - largest)
    assert raw[:, 1].max() < -1e9


def test_logits_sums_and_gates_go_through_every_threshold() -> None:
    logits = router_inputs.logits(ExpertCase("router_ladder", 1, router_plan.LADDER_ROWS, 70, 10))
    spread = np.ptp(logits.astype(np.float64), axis=1)
    assert np.isfinite(logits).all()
    assert all({k, k + 1, k + 2} & octaves(spread) for k in range(-20, 8))
    assert max(octaves(spread)) > 110
    assert min(octaves(spread)) <= -126
    assert logits.max(axis=1).min() < -1e34
    sums = combine_inputs.sums(ExpertCase("combine_ladder", 1, router_plan.LADDER_ROWS, 64, 10, 256))
    assert sums.gate is not None
    assert np.isfinite(sums.rows).all()
    assert (sums.gate > 88).any()
    assert (sums.gate < -88).any()
    assert {sign for gate in sums.gate[np.abs(sums.gate) < 2.0**-12] for sign in (np.sign(gate),)} == {-1, 1}
    assert (np.abs(sums.rows[sums.rows != 0]) < 2.0**-126).any()
    assert sums.weights.min() < 2.0**-60


def routed(name: str) -> np.ndarray:
    return router_inputs.logits(ExpertCase(name, 1, *router_plan.EDGES[name], 256, 64))


def summed(name: str) -> combine_inputs.Sums:
    tokens, top, n = combine_plan.EDGES[name]
    return combine_inputs.sums(ExpertCase(name, 1, tokens, 64, top, n, 64))


def beside(numbers: np.ndarray, edge: float) -> None:
    """Numbers lie on both sides of an edge, from two away, each half as far as the one before, to 2**-16."""
    off = numbers.astype(np.float64) - edge
    for side in (off[off > 0], -off[off < 0]):
        found = np.unique(side)
        assert all((np.abs(found / 2.0**-k - 1) < 2.0**-3).any() for k in range(-1, 14))
        assert found.min() < 2.0**-15


def test_shares_and_gates_lie_on_both_sides_of_the_edges_of_the_exponential() -> None:
    logits = routed("router_edge")
    assert (logits.max(axis=1) == 0).all()
    for token in logits:
        beside(token[token < 0].astype(np.float64) * LOG2E, router_inputs.SHARE_EDGE)
    sums = summed("combine_gates")
    assert sums.gate is not None
    assert sums.shared is not None
    for sign in (-1, 1):
        beside(sign * sums.gate[np.sign(sums.gate) == sign].astype(np.float64) * LOG2E, combine_inputs.GATE_EDGE)
    # A sigmoid of 2**-128 still moves a sum.
    assert np.median(np.abs(sums.shared[sums.gate < 0])) > 2.0**108 * np.median(np.abs(sums.rows))


def test_a_lane_holds_every_number_of_nans_and_infinities() -> None:
    logits = routed("router_counts")
    lanes = logits.reshape(len(logits), -1, 32)
    for kind in (np.isnan(lanes), np.isinf(lanes)):
        assert set(kind.sum(axis=1).ravel().tolist()) == set(range(33))
    assert np.isnan(logits).all(axis=1).any()
    assert np.isinf(logits).all(axis=1).any()


def test_a_thread_loses_every_number_of_its_columns_each_more_often_than_all_smaller_ones() -> None:
    lost = ~np.isfinite(summed("combine_counts").rows).all(axis=1)
    number, often = np.unique(lost[:-1].reshape(-1, 4).sum(axis=1), return_counts=True)
    assert number.tolist() == [1, 2, 3, 4]
    assert (often[1:] > 1.5 * often[:-1]).all()
    assert not lost[-1].any()


def test_one_of_equal_logits_has_the_least_share_there_may_be() -> None:
    assert {(top, experts) for _, experts, top in router_plan.EQUAL_SIZES} == {(1, 1024), (1, 512)}


def test_gates_of_experts_go_through_every_way_of_the_activation() -> None:
    case = small("experts_ladder", 1)
    inputs = build_experts(case, "iq3_xxs/iq4_nl")
    gates = []
    for token, expert in enumerate(inputs.ids[:, 0].tolist()):
        weights = inputs.matrices(expert).gate
        decoded = weights.q.astype(np.float64) * weights.scale.astype(np.float64).repeat(
            weights.q.shape[1] // weights.scale.shape[1], axis=1
        )
        gates.append(decoded @ inputs.x[token].astype(np.float64))
    seen = octaves(np.abs(np.concatenate(gates)))
    assert seen >= set(range(-30, 10))
    assert min(seen) < -126
    assert max(seen) > 40
    inside = np.abs(np.concatenate(gates))
    assert ((inside > 80) & (inside < 90)).any()
    assert blobs.LADDER == (-24, 15)


@pytest.mark.parametrize("control", [c for c in data.soft() if "ladder" in c.name], ids=lambda c: c.name)
def test_soft_ladders_are_void(control: Control) -> None:
    got = answer(control)
    assert got.right, got.line()
