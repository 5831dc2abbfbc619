"""Profiles plan every recipe, size and geometry that they promise."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.kernels.decode_attention import BATCH
from strata.kernels.paths import PATHS, select
from strata.kernels.pool import GROUPS
from validation.operations.attention import plan
from validation.operations.attention.pools import TILES
from validation.operations.kv_pack import plan as pack_plan
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import page_table
from validation.operations.kv_pack.recipes import RECIPES, find
from validation.run import plan as profiles
from validation.run.plan import Entry
from validation.run.runner import Job


def listed(profile: str, seed: int = 1) -> list[Entry]:
    """The attention cases of a profile."""
    return [Entry(*one) for one in plan.planned(seed, profile)]


def packed() -> list[Entry]:
    return [Entry(*one) for one in pack_plan.planned(1, "quick")]


ATTENTION = select("prompt_attention/*")


def of(one: Entry | Job) -> Case:
    """The attention or packing case of an entry or a job."""
    assert isinstance(one.case, Case)
    return one.case


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_every_recipe_page_size_and_group_is_there(name: str) -> None:
    cases = [of(entry) for entry in listed(name)]
    judged = {r.name for r in RECIPES.values() if r.operation == "prompt_attention"}
    assert judged - {"captured"} <= {case.recipe for case in cases}
    assert {case.page_size for case in cases} >= set(pack_plan.PAGE_SIZES)
    assert {case.group for case in cases} == set(GROUPS)
    assert any(case.top < case.context for case in cases)
    assert any(case.top == 2051 < case.context for case in cases)


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_all_modes_and_tiers_run_every_recipe(name: str) -> None:
    jobs = profiles.plan(ATTENTION, listed(name), lanes=True)
    assert len(jobs) == len(set(jobs))
    recipes = {job.case.recipe for job in jobs}
    for path in ATTENTION:
        assert {job.case.recipe for job in jobs if job.path == path} == recipes


def test_quick_runs_checked_and_fast_builds_and_both_schedules() -> None:
    jobs = profiles.plan(ATTENTION, listed("quick"), lanes=True)
    assert {job.flavor for job in jobs} == {"checked", "fast"}
    assert {job.schedule is None for job in jobs} == {True, False}
    for path in ATTENTION:
        assert any(job.path == path and job.schedule is not None for job in jobs)
    assert all(job.schedule is None for job in profiles.plan(ATTENTION, listed("quick"), lanes=False))


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_the_laws_are_planned_once_a_path_small_and_checked(name: str) -> None:
    jobs = [job for job in profiles.plan(ATTENTION, listed(name), lanes=True) if find(job.case.recipe).relations]
    assert [job.path for job in jobs] == sorted(ATTENTION, key=lambda path: path.mode)
    for job in jobs:
        assert job.flavor == "checked"
        # More than two chunks of each path, and the last one unfinished.
        assert 2 * max(TILES) < of(job).context - of(job).queries + 1
        assert all(of(job).context % tile for tile in TILES)


def test_quick_has_a_second_batch_of_the_baseline_in_every_mode_and_a_checked_build() -> None:
    jobs = [job for job in profiles.plan(ATTENTION, listed("quick"), lanes=True) if job.flavor == "checked"]
    batched = [job for job in jobs if of(job).queries > BATCH and of(job).queries % BATCH]
    assert {job.path for job in batched} == set(ATTENTION)


def test_quick_has_pools_whose_rows_need_more_than_16_bits() -> None:
    for entries, operation in ((listed("quick"), "prompt_attention"), (packed(), "kv_pack")):
        large = [e for e in entries if of(e).page_size > max(pack_plan.PAGE_SIZES)]
        assert [find(entry.case.recipe).operation for entry in large] == [operation]
        case = of(large[0])
        table, _ = page_table(case.stream("pages"), find(case.recipe).pages, case.context, case.page_size)
        assert table[0] * case.n_head_kv * case.page_size >= 1 << 16


def test_in_quick_the_table_in_order_ends_with_a_ragged_page() -> None:
    (case,) = [of(entry) for entry in listed("quick") if entry.case.recipe == "in_order"]
    assert case.context % case.page_size != 0


def test_full_has_the_published_sizes() -> None:
    cases = [of(entry) for entry in listed("full")]
    assert {(32768, 2048), (1500, 1500), (2100, 256)} <= {(case.context, case.queries) for case in cases}


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_seeds_change_every_case(name: str) -> None:
    one, two = ({entry.case.text() for entry in listed(name, seed)} for seed in (100, 90000))
    assert not one & two
    assert {entry.case.text() for entry in listed(name, 100)} == one


def test_cases_go_to_paths_of_their_operation() -> None:
    paths = select("*")
    entries = [*listed("quick"), *packed()]
    for job in profiles.plan(paths, entries, lanes=True):
        assert (job.path.operation == "kv_pack") == (find(job.case.recipe).operation == "kv_pack")
    said = "the cases are of prompt_attention, expected recipes of kv_pack, router"
    with pytest.raises(StrataError, match=f"no planned case fits the selected paths: {said}"):
        profiles.plan([*select("kv_pack/*"), *select("router/*")], listed("quick"), lanes=True)
    with pytest.raises(
        StrataError,
        match="no planned case fits the selected paths: expected recipes of prompt_attention, and a profile",
    ):
        profiles.plan(ATTENTION, [], lanes=True)


def test_tiers_of_a_mode_follow_one_another() -> None:
    jobs = profiles.plan(ATTENTION, listed("quick")[:1], lanes=True)
    assert [job.path.name for job in jobs[:2]] == ["prompt_attention/fp16/sm75", "prompt_attention/fp16/sm80"]


def test_captured_cases_are_packed_by_us_and_by_gguf_where_it_has_the_format() -> None:
    entries = [Entry(*one) for one in plan.captured(1, [0, 5], 2048, (1, 4), "quick")]
    assert {of(entry).option("layer", "") for entry in entries} == {"0", "5"}
    jobs = profiles.plan(ATTENTION, entries, lanes=True)
    by_gguf = {job.path.mode for job in jobs if of(job).option("packer", "") == "gguf"}
    by_us = {job.path.mode for job in jobs if of(job).option("packer", "") == "kernel"}
    assert by_gguf == {"k8v4", "q4_0"}
    assert by_us == {"fp16", "int8", "k8v4", "q4_0"}
    whole = [Entry(*one) for one in plan.captured(1, [0], 2048, (1, 4), "full")]
    assert all(of(entry).queries == 2048 for entry in whole)


def test_one_recipe_can_be_picked_from_any_profile() -> None:
    entries = listed("quick")
    assert {e.case.recipe for e in profiles.with_recipe(entries, "flat")} == {"flat"}
    assert [e.case.recipe for e in profiles.with_recipe(entries, "captured")] == ["captured"]
    with pytest.raises(StrataError, match="nearest"):
        profiles.with_recipe(entries, "flatt")


def test_entries_can_be_kept_to_modes() -> None:
    entry = Entry(Case("uniform", 1, 64, 2), ("int8",), "fast")
    jobs = profiles.plan(ATTENTION, [entry], lanes=True)
    assert {job.path.mode for job in jobs} == {"int8"}
    assert {job.flavor for job in jobs} == {"fast"}
    assert PATHS["prompt_attention/int8/sm75"] in {job.path for job in jobs}


@pytest.mark.parametrize("operation", ["prompt_attention", "expert_fused"])
@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_a_record_plans_each_case_once_on_every_path_and_the_required_sizes(profile: str, operation: str) -> None:
    paths = select(f"{operation}/*/sm75")
    jobs = profiles.record_plan(paths, profile, 3)
    pairs = [(job.path.name, job.case.text()) for job in jobs]
    assert len(set(pairs)) == len(pairs)
    planned = profiles.plan(paths, profiles.entries(3, profile, paths), False)
    usual = {(job.path.name, job.case.text()) for job in planned}
    required = [entry.case for entry in profiles.required(3)]
    sizes = {(path.name, case.text()) for path in paths for case in required if profiles.fits(case, path)}
    assert set(pairs) == usual | sizes
    assert len(sizes) == {"prompt_attention": 2, "expert_fused": 7}[operation] * len(paths)
    on_lanes = profiles.record_plan(paths, profile, 3, lanes=True)
    assert [(job.path.name, job.case.text()) for job in on_lanes] == pairs
