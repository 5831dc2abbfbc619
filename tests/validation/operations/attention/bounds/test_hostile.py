"""The derived bounds cover kernels whose every operation is as wrong as it may be, all in the worst direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS
from tests.validation.operations.attention.bounds import hostile
from tests.validation.stub import StubExecutor
from validation.core.random_streams import Stream
from validation.operations.attention.bound import bound
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend
from validation.operations.kv_pack.case import Case

RECIPES = ["signed_decades", "outliers", "scale_extremes", "small_q", "peaked", "flat", "climbing", "absent_pages"]
PATHS_JUDGED = [path.name for path in PATHS.values() if path.operation.endswith("_attention")]


def share(path: str, rule: str, recipe: str, cells: int, seed: int, exponent: int | None, direction: int) -> float:
    """The largest error of the hostile kernel over its bound, and NaN as infinity."""
    of = PATHS[path]
    inputs = build(Case(recipe, seed, cells, 1, 4, n_head_kv=1, group=4), of.mode)
    if exponent is not None:
        inputs = replace(inputs, q=Stream.of(seed, "q").normals(inputs.q.shape, exponent))
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0])
    executor = StubExecutor()
    executor.rule = RULES[rule]  # type: ignore[attr-defined]
    limit = bound(of, inputs, reference, executor)[0]
    ids, exact, dim = inputs.ids[0, : int(inputs.widths[0])], reference.out[0], seed % 256
    if of.operation == "prompt_attention":
        got = hostile.prompt(of, RULES[rule], inputs.q[0], inputs.pool, ids, exact, dim, direction)
    else:
        got = hostile.decode(inputs.q[0], inputs.pool, ids, exact, dim, direction)
    error = np.abs(got - exact)
    worst = np.where(error == 0, 0.0, error / np.where(limit > 0, limit, np.finfo(float).tiny))
    return float(np.where(np.isnan(worst), np.inf, worst).max())


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(PATHS_JUDGED),
    st.sampled_from(["sm_75", "sm_80", "sm_90", "exact"]),
    st.sampled_from(RECIPES),
    st.integers(1, 200),
    st.integers(0, 2**32),
    st.sampled_from([None, None, -140, -30, -6, 3, 8, 30, 60]),
    st.sampled_from([-1, 1]),
)
def test_no_hostile_kernel_exceeds_its_bound(
    path: str, rule: str, recipe: str, cells: int, seed: int, exponent: int | None, direction: int
) -> None:
    assert share(path, rule, recipe, cells, seed, exponent, direction) <= 1


@pytest.mark.parametrize("path", PATHS_JUDGED)
def test_the_bound_is_not_much_wider_than_the_hostile_kernel(path: str) -> None:
    # Twice for the error of the largest score, and |v| + |out| for |v - out|, cost a factor of four at most; sizes of
    # addends that the bound does not know, another two.
    worst = max(share(path, "sm_90", "signed_decades", 150, seed, None, 1) for seed in range(4))
    assert 1 / 8 < worst <= 1
