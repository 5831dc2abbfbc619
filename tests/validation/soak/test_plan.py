"""Plans of a soak are pure and reach every path, recipe and size."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import GROUPS
from validation.core.operation import Recipe
from validation.operations import registry
from validation.operations.attention import random_cases
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import Routing, Values, Weights
from validation.operations.kv_pack import random_cases as pool_cases
from validation.operations.kv_pack.case import Case
from validation.run.runner import Job
from validation.soak import plan as soak_plan


def recipes(path: Path) -> list[Recipe]:
    """The synthetic recipes of a path's kind of data."""
    return [recipe for recipe in registry.of_kind(registry.of_path(path)) if recipe.name != "captured"]


#: Runs within which every path has met every recipe: each path comes once a cycle, with the next recipe, and those of
#: experts have one of drawn parts in between.
MEETINGS = len(soak_plan.CYCLE) * 2 * max(len(recipes(path)) for path in soak_plan.CYCLE)


def of(one: Job) -> Case:
    """The attention or packing case of a job."""
    assert isinstance(one.case, Case)
    return one.case


def _jobs(seed: int, count: int) -> list[Job]:
    return [soak_plan.job(seed, index) for index in range(count)]


def _attention(jobs: list[Job]) -> list[Case]:
    return [of(job) for job in jobs if job.path.operation.endswith("_attention")]


@given(st.integers(0, 2**63), st.integers(0, 1 << 20))
def test_a_run_is_a_function_of_seed_and_index(seed: int, index: int) -> None:
    job = soak_plan.job(seed, index)
    assert soak_plan.job(seed, index) == job
    assert registry.parse(job.case.text()) == job.case
    assert isinstance(job.case, ExpertCase) == (registry.of_path(job.path) in ("expert", "router", "combine"))
    if isinstance(job.case, Case):
        low, high = pool_cases.CONTEXTS
        assert low <= job.case.context <= high
        assert job.case.queries <= random_cases.EDGE_QUERIES


def test_every_path_meets_every_recipe_of_its_operation() -> None:
    met = {(job.path.name, job.case.recipe) for job in _jobs(1, MEETINGS)}
    wanted = {(path.name, recipe.name) for path in PATHS.values() for recipe in recipes(path)}
    put_together = {(path, recipe) for path, recipe in met if ":" in recipe}
    assert met - put_together == wanted
    assert {recipe for _, recipe in wanted} == set(registry.recipes_of_all()) - {"captured"}
    words = {word for _, recipe in put_together for word in recipe.split(":")[1:]}
    assert words == {part.value.replace(" ", "_") for kind in (Weights, Routing, Values) for part in kind}


def test_a_pattern_chooses_the_paths() -> None:
    paths = soak_plan.cycle("expert_fused/iq2_*/sm75")
    assert {path.operation for path in paths} == {"expert_fused"}
    jobs = [soak_plan.job(1, index, paths) for index in range(2 * len(paths))]
    assert [job.path for job in jobs] == [*paths, *paths]


def test_each_path_comes_as_often_as_its_operation_says() -> None:
    turns = Counter(soak_plan.CYCLE)
    assert turns == {path: registry.of(path).soak_turns for path in PATHS.values()}
    assert {path.operation for path, often in turns.items() if often > 1} == {"prompt_attention"}


def test_every_size_occurs() -> None:
    attention = _attention(_jobs(1, MEETINGS))
    assert {case.page_size for case in attention} == set(pool_cases.PAGE_SIZES)
    assert {case.n_head_kv for case in attention} == set(pool_cases.KV_HEADS)
    assert {case.group for case in attention} == set(GROUPS)
    assert {case.queries for case in attention} == {*range(1, random_cases.QUERIES + 1), random_cases.EDGE_QUERIES}
    assert any(case.top < case.context for case in attention)
    assert any(case.top > case.context for case in attention)


def test_the_checked_build_reaches_every_path_in_one_group() -> None:
    checked = [job for job in _jobs(1, soak_plan.CHECKED_EVERY * len(soak_plan.CYCLE)) if job.flavor == "checked"]
    assert {job.path.name for job in checked} == set(PATHS)
    assert {case.group for case in _attention(checked)} == {random_cases.CHECKED_GROUP}


def test_seeds_are_fresh() -> None:
    jobs = [*_jobs(1, MEETINGS), *_jobs(2, MEETINGS)]
    assert len({job.case.seed for job in jobs}) == len(jobs)


def test_schedules_differ() -> None:
    assert len({job.schedule for job in _jobs(1, len(soak_plan.CYCLE))}) == soak_plan.SCHEDULES
