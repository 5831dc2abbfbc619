"""Which cases are planned: every recipe, about every input, at every edge, none too large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strata.executors.base import StrataError
from tests.validation.check.fake import kernel
from validation.check import Size, Values, plan
from validation.check.author import AuthorError
from validation.check.case import parse
from validation.check.load import Loaded
from validation.check.recipes import RECIPES


@pytest.mark.parametrize("profile", plan.PROFILES)
def test_a_profile_has_every_recipe_that_its_author_left_in(profile: str) -> None:
    cases = plan.cases(kernel(), profile, 1)
    assert {case.recipe for case in cases} == set(RECIPES) - {"subnormals"}
    assert len(cases) == len(set(cases))
    assert all(parse(case.text(), kernel().kernel) == case for case in cases)
    for case in cases:
        assert plan.elements(kernel(), case.by_name) <= plan.MOST_ELEMENTS[profile]


def test_the_quick_profile_visits_every_edge_of_every_size() -> None:
    cases = plan.cases(kernel(), "quick", 1)
    for name, size in kernel().kernel.sizes.items():
        visited = {case.by_name[name] for case in cases}
        assert set(size.edges()) <= visited
    assert {"rows": 1, "width": 1} in [case.by_name for case in cases]


def test_a_thread_without_an_element_is_planned_with_values_below_zero() -> None:
    widths = {case.by_name["width"] for case in plan.cases(kernel(), "quick", 1) if case.recipe == "negative"}
    assert min(widths) == 63 < kernel().kernel.sizes["width"].tiles[0]


def test_recipes_of_one_input_are_planned_for_each() -> None:
    cases = plan.cases(kernel(), "quick", 1)
    assert {case.seed % 2 for case in cases if case.recipe == "not_finite"} == {0, 1}


def test_the_larger_profiles_have_more() -> None:
    counts = [len(plan.cases(kernel(), profile, 1)) for profile in plan.PROFILES]
    assert counts == sorted(counts)
    assert len(set(counts)) == 3
    largest = {case.by_name["width"] for case in plan.cases(kernel(), "full", 1)}
    assert kernel().kernel.sizes["width"].largest in largest


def test_sizes_without_a_tile_shrink_where_arrays_would_be_too_large() -> None:
    own = kernel(sizes={"rows": Size(1, 1 << 20), "width": Size(1 << 15, 1 << 16, tile=1 << 15)})
    cases = plan.cases(own, "quick", 1)
    assert cases
    assert all(plan.elements(own, case.by_name) <= plan.MOST_ELEMENTS["quick"] for case in cases)


def test_a_kernel_without_a_size_that_fits_is_refused() -> None:
    own = kernel(sizes={"rows": Size(1 << 20, 1 << 21), "width": Size(1 << 20, 1 << 21)})
    with pytest.raises(StrataError, match="has no sizes with at most"):
        plan.cases(own, "quick", 1)


def test_a_kernel_that_leaves_everything_out_is_refused() -> None:
    with pytest.raises(StrataError, match="leaves every recipe out"):
        plan.cases(kernel(without=dict.fromkeys(RECIPES, "because")), "quick", 1)
    with pytest.raises(StrataError, match="the profile is 'fast', expected one of quick"):
        plan.cases(kernel(), "fast", 1)


@pytest.mark.parametrize(
    "axes", [("rows", "rows"), ("width", lambda sizes: sizes["rows"] + 1)], ids=["twice", "hidden"]
)
def test_an_axis_that_depends_on_the_independent_size_is_refused(axes: Any) -> None:
    own = kernel()
    inputs = {**own.kernel.inputs, "x": Values("float32", axes)}
    with pytest.raises(AuthorError, match=r"rows\.py: independent: the axes of x"):
        plan.cases(Loaded(replace(own.kernel, inputs=inputs), own.file), "quick", 1)


def test_random_cases_follow_from_the_seed_and_are_allowed() -> None:
    cases = plan.random_cases(kernel(), 60, 1)
    assert cases == plan.random_cases(kernel(), 60, 1)
    assert plan.random_cases(kernel(), 20, 1) == cases[:20]
    assert not set(cases) & set(plan.random_cases(kernel(), 60, 2))
    assert all(parse(case.text(), kernel().kernel) == case for case in cases)
    assert len({case.recipe for case in cases}) > 6
    widths = {case.by_name["width"] for case in cases}
    assert min(widths) < 8
    assert max(widths) > 256
    odd = kernel(sizes={"rows": Size(3, 3), "width": Size(64, 4096, multiple=32)})
    assert all(odd.kernel.sizes["width"].allows(case.by_name["width"]) for case in plan.random_cases(odd, 20, 1))


def test_lanes_run_small_cases_in_the_checked_build_and_in_other_orders() -> None:
    cases = plan.cases(kernel(), "quick", 1)
    jobs = plan.jobs(kernel(), cases, "quick")
    assert {job.case for job in jobs} == set(cases)
    assert {job.flavor for job in jobs} == {"checked", "fast"}
    assert None in {job.schedule for job in jobs}
    assert len({job.schedule for job in jobs}) > 2
    assert "sanitize" in {job.flavor for job in plan.jobs(kernel(), cases, "standard")}
    assert [job.flavor for job in plan.jobs(kernel(), cases[:1], None)] == ["checked"]
