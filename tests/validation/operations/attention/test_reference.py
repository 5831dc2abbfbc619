"""The FP64 reference against sums over cells written out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.pool import MODES
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend, values
from validation.operations.kv_pack import reference as kv_pack
from validation.operations.kv_pack.case import Case


def slow(case: Case, mode: str, query: int, head: int) -> np.ndarray:
    """One output row by the row formula of the specification, in Python floats with exact sums."""
    inputs = build(case, mode)
    pool = inputs.pool
    kv = head // case.group
    scores, rows = [], []
    for cell in inputs.ids[query, : inputs.steps[query, 3]].tolist():
        page = int(pool.table[cell // pool.page_size])
        if page < 0:
            continue
        row = (page * pool.n_head_kv + kv) * pool.page_size + cell % pool.page_size

        def value(data: np.ndarray, scale: np.ndarray | None, row: int = row) -> np.ndarray:
            flat = data.reshape(-1, data.shape[-1])[row]
            if scale is not None:
                return kv_pack.unpack_int8(flat, scale.reshape(-1, 4)[row])
            return kv_pack.unpack_q4_0(flat) if flat.dtype == np.uint8 else flat.astype(np.float64)

        k = value(pool.k, pool.k_scale)
        rows.append(value(pool.v, pool.v_scale))
        scores.append(math.fsum((inputs.q[query, head].astype(np.float64) * k).tolist()) / 16)
    if not scores:
        return np.zeros(256)
    weights = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(weights)
    return np.array(
        [math.fsum(w * float(v[d]) for w, v in zip(weights, rows, strict=True)) / total for d in range(256)]
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", ["signed_decades", "absent_pages", "shuffled", "peaked", "tiny_q"])
def test_the_reference_is_the_definition(mode: str, recipe: str) -> None:
    case = Case(recipe, 3, 150, 3, 4, top=90)
    inputs = build(case, mode)
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [2, 0])
    assert reference.queries.tolist() == [2, 0]
    for row, query in enumerate([2, 0]):
        for head in (0, 13, 23):
            want = slow(case, mode, query, head)
            # FP64 sums of at most 256 and 90 terms: errors far below 1e-12 of the terms' magnitude.
            size = reference.magnitude[row, head]
            assert (np.abs(reference.out[row, head] - want) <= 1e-12 * (size + np.abs(want))).all()
            assert (np.abs(reference.out[row, head]) <= size * (1 + 1e-12)).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", ["zeros", "all_absent"])
def test_no_cell_left_gives_zeros(mode: str, recipe: str) -> None:
    inputs = build(Case(recipe, 1, 70, 2), mode)
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0, 1])
    assert not reference.out.any()


def test_v_rounded_to_fp16_is_reported_for_k8v4_alone() -> None:
    case = Case("signed_decades", 1, 70, 2)
    for mode in MODES:
        inputs = build(case, mode)
        reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0, 1])
        assert (reference.rounded is not None) == (mode == "k8v4")
        if reference.rounded is not None:
            gap = np.abs(reference.rounded - reference.out)
            assert gap.max() > 0
            # Each V moves by at most half an FP16 ulp of itself.
            assert (gap <= reference.magnitude * 2.0**-11 + 2.0**-25).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(MODES))
def test_the_order_of_cells_does_not_matter(seed: int, mode: str) -> None:
    inputs = build(Case("signed_decades", seed, 60, 1), mode)
    width = int(inputs.steps[0, 3])
    turned = inputs.ids.copy()
    turned[0, :width] = turned[0, :width][::-1]
    one, two = (attend(inputs.q, inputs.pool, ids, inputs.steps, [0]) for ids in (inputs.ids, turned))
    assert (np.abs(one.out - two.out) <= 1e-12 * one.magnitude).all()


def test_huge_scores_stay_finite() -> None:
    inputs = build(Case("huge_q", 1, 70, 2), "int8")
    assert np.isfinite(attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0, 1]).out).all()


def test_an_absent_cell_has_no_value() -> None:
    inputs = build(Case("all_absent", 1, 70, 1), "fp16")
    with pytest.raises(ValueError, match="absent"):
        values(inputs.pool, np.array([0]))
