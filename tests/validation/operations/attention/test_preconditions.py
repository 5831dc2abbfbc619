"""Promises hold of every recipe in every mode, seed after seed, and soft generators break them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.kernels.paths import PATHS
from strata.kernels.pool import MODES
from validation.core.random_streams import Stream
from validation.core.stub_executor import StubExecutor
from validation.core.verdict import Verdict
from validation.operations.attention import kv_preconditions, preconditions
from validation.operations.attention.operation import judged
from validation.operations.attention.pools import build
from validation.operations.attention.stub_kernels import healthy
from validation.operations.kv_pack import planes
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import find, of_operation
from validation.run.runner import settle

CASE = Case("signed_decades", 3, 90, 3, 4, n_head_kv=2, group=4, top=61)
NAMES = [recipe.name for recipe in of_operation("prompt_attention") if recipe.name != "captured"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_recipes_keep_their_promises(name: str, mode: str) -> None:
    for case in (
        replace(CASE, recipe=name),
        replace(CASE, recipe=name, seed=2**64 - 1, context=211, queries=20, page_size=16, top=2051),
        replace(CASE, recipe=name, context=1, queries=1, page_size=1, n_head_kv=1),
        replace(CASE, recipe=name, context=64, queries=64, page_size=64, n_head_kv=3),
    ):
        assert preconditions.kept(case, mode, build(case, mode)).reason == ""


@pytest.mark.parametrize("side", ["k", "v"])
@pytest.mark.parametrize("mode", ["int8", "k8v4", "q4_0"])
def test_scales_all_positive_void_the_case(mode: str, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = planes._scales

    def soft(stream: Stream, *rest: object) -> np.ndarray:
        scale = plain(stream, *rest)  # type: ignore[arg-type]
        return np.abs(scale) if stream == CASE.stream(side) else scale

    monkeypatch.setattr(planes, "_scales", soft)
    path = PATHS[f"prompt_attention/{mode}/sm80"]
    found = judged(CASE, path, StubExecutor(), kernels=healthy())
    assert settle(found.checks) is Verdict.VOID
    check = next(check for check in found.checks if not check.verdict.passes)
    assert check.name == "data"
    assert check.reason.startswith(f"this recipe promises both signs of {side.upper()} scales, all ")
    assert check.reason.endswith(" are positive")


@pytest.mark.parametrize(
    ("recipe", "side", "drawn", "said"),
    [
        ("all_negative", "k", "signed_decades", "groups of negative K scales"),
        ("scale_extremes", "v", "signed_decades", "special V scales alone"),
        ("signed_decades", "v", "uniform", "both signs of V scales"),
        ("signed_decades", "k", "flat", "cells of their own in K"),
        ("flat", "k", "signed_decades", "one row in K"),
        ("climbing", "k", "peaked", "one direction in K"),
        ("outliers", "v", "signed_decades", "four loud channels in V"),
        ("absent_pages", "v", "signed_decades", "V scale patterns"),
    ],
)
@pytest.mark.parametrize("mode", ["int8", "q4_0"])
def test_a_plane_drawn_as_another_is_told(recipe: str, side: str, drawn: str, said: str, mode: str) -> None:
    if (drawn, mode) == ("uniform", "q4_0"):
        return  # there the published scales have both signs
    pool = build(replace(CASE, recipe=drawn), mode).pool
    k, v = kv_preconditions.stored(pool, np.arange(CASE.context))
    told = list(kv_preconditions.broken(getattr(find(recipe), side), {"k": k, "v": v}[side]))
    assert any(clause.startswith(said) for clause in told)


def test_poison_is_looked_for_in_every_plane_behind_the_last_cell() -> None:
    case = replace(CASE, context=89)
    inputs = build(case, "int8")
    page = int(inputs.pool.table[89 // 4])
    for name in ("k", "v", "k_scale", "v_scale"):
        plane = getattr(inputs.pool, name).copy()
        plane[page, 1, 3] = 0
        check = preconditions.kept(case, "int8", replace(inputs, pool=replace(inputs.pool, **{name: plane})))
        assert check.verdict is Verdict.VOID
        assert f"page and slot [{page}, 3]" in check.reason


def test_large_pools_are_looked_at_in_steps_that_reach_both_ends() -> None:
    for count in (0, 1, 2, 511, 512, 513, 5000):
        steps = preconditions._even(count)
        assert len(steps) == min(count, preconditions.LOOKED_AT)
        assert steps.tolist() == sorted(set(steps.tolist()))
        if count:
            assert (steps[0], steps[-1]) == (0, count - 1)


def test_the_edge_widths_are_those_of_the_kernels_tiles() -> None:
    case = replace(CASE, recipe="width_edges", context=200, queries=80, top=2051)
    widths = build(case, "q4_0").widths
    assert list(preconditions._edges(case, "q4_0", widths)) == []
    for width in (0, 31, 32, 33, 63, 64, 65, 127, 129):
        without = np.where(widths == width, 37, widths)
        assert any("edge" in clause for clause in preconditions._edges(case, "q4_0", without))
