"""The cases of mutants of expert kernels: every recipe once, small, without a baseline."""

from __future__ import annotations

from strata.kernels.experts import MAX_EXPERTS
from strata.kernels.paths import PATHS
from validation.core.verdict import Verdict
from validation.mutants import quick
from validation.operations.experts import inputs, mutant_cases, preconditions
from validation.operations.experts.recipes import RECIPES
from validation.operations.experts.sampling import REFERENCED, work

MODE = "iq2_s/q2_0"


def test_every_recipe_comes_up_and_keeps_its_promise() -> None:
    made = mutant_cases.cases(1)
    assert [case.recipe for case in made[:-1]] == list(RECIPES)
    for case in made:
        check = preconditions.kept(case, inputs.build(case, MODE))
        assert check.verdict is Verdict.EXACT, check.reason


def test_every_bit_of_every_case_is_looked_at() -> None:
    assert all(work(case, case.pairs) <= REFERENCED for case in mutant_cases.cases(1))


def test_one_case_has_more_experts_than_lanes_and_more_pairs_than_threads() -> None:
    """A block of the grouping has a thread for each expert there may be."""
    assert any(case.experts > 32 and case.pairs > MAX_EXPERTS for case in mutant_cases.cases(1))


def test_one_case_has_more_groups_in_k_than_a_warp_has_lanes() -> None:
    """A warp of the decode kernel takes a group of 32 a lane, and goes round again."""
    assert any(case.n > 32 * 32 for case in mutant_cases.cases(1))


def test_the_path_runs_alone_and_likely_killers_go_first() -> None:
    path = PATHS[f"expert_fused/{MODE}/sm75"]
    jobs = quick.jobs_of(path.name, ["experts_ties", "experts_stray"], 1)
    assert [job.case.recipe for job in jobs[:2]] == ["experts_ties", "experts_stray"]
    assert len(jobs) == len(RECIPES) + 1
    assert {job.path.baseline for job in jobs} == {None}
    assert {job.path.name for job in jobs} == {path.name}
    assert {job.flavor for job in jobs} == {"checked"}
