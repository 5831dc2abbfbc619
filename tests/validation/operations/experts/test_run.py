"""Expert cases on lanes and on the stand-in: every recipe comes out exact. What must fail stands in the controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_fused
from strata.kernels.paths import PATHS
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.core.verdict import Verdict
from validation.operations.experts import inputs, routing, stub_kernels
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.kernels import OPERATIONS
from validation.operations.experts.operation import judged
from validation.operations.experts.recipes import RECIPES, Routing
from validation.run import runner

MODE = "iq4_xs/q2_0"
#: What every recipe of a path with a baseline is asked, besides checks of its own data.
ASKED = {
    "data",
    "written",
    "guards",
    "witness",
    "images",
    "grouping",
    "ignored",
    "repeat",
    "in parts",
    "bits",
    "lost x",
}


def case_of(recipe: str) -> ExpertCase:
    if RECIPES[recipe].routing is Routing.EDGES:
        return ExpertCase(recipe, 3, routing.edge_tokens(8, 1), 8, 1, 256, 64)
    return ExpertCase(recipe, 3, 5, 5, 2, 256, 64)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_model_passes_every_recipe(recipe: str) -> None:
    path, case = PATHS["expert_fused/iq2_s/iq4_nl/sm75"], case_of(recipe)
    found = judged(case, path, StubExecutor(), Settings(), Memo(), {"expert_fused": stub_kernels.kernel()})
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    names = {check.name for check in found.checks}
    assert names >= ASKED - ({"bits"} if recipe == "experts_nobody" else set())
    if recipe == "experts_decades":
        assert {"gate", "up", "h", "down", "bound", "self", "self bits"} <= names


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("recipe", ["experts_decades", "experts_stray", "experts_broken"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kernels_on_lanes_are_exact(lanes: LanesExecutor, operation: str, recipe: str) -> None:
    tier = "simt" if operation == "expert_decode" else "sm80"
    path = PATHS[f"{operation}/{MODE}/{tier}"]
    found = judged(case_of(recipe), path, lanes, Settings(), Memo(), OPERATIONS)
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    if OPERATIONS[operation].refuses_strays and recipe == "experts_stray":
        assert [check.name for check in found.checks] == ["data", "refuses"]


def refused(lanes: LanesExecutor) -> set[str]:
    """Checks of a fused case that did not pass."""
    path = PATHS[f"expert_fused/{MODE}/sm80"]
    found = judged(case_of("experts_decades"), path, lanes, Settings(), Memo(), OPERATIONS)
    return {check.name for check in found.checks if not check.verdict.passes}


@pytest.mark.parametrize("forgotten", ["shape", "cuts"])
def test_a_run_that_forgets_its_work_shape_or_its_cuts_is_refused(
    lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """Else the comparison of work shapes compares one launch with itself."""
    real = expert_fused.prepare

    def prepare(executor: Any, path: Any, placed: Any, x: Any, ids: Any, *options: Any) -> Any:
        shape, cuts, trace = (*options, None, None, False)[:3]
        kept = (None, cuts, trace) if forgotten == "shape" else (shape, None, trace)
        return real(executor, path, placed, x, ids, *kept)

    monkeypatch.setattr(expert_fused, "prepare", prepare)
    assert refused(lanes) == {"shape 4-2 run", "shape 2-4 run"}


def test_of_every_repeat_is_asked_what_is_asked_of_the_first_run(
    lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = expert_fused.Prepared.result
    runs: list[int] = []

    def result(self: Any, witnesses: Any) -> Any:
        runs.append(1)
        made = real(self, witnesses)
        return made if len(runs) == 1 else replace(made, guards_ok=False, status=(99, 99, 99), ignored=77)

    monkeypatch.setattr(expert_fused.Prepared, "result", result)
    assert refused(lanes) == {"repeat run", "shape 4-2 run", "shape 2-4 run", "in parts run"}


def test_a_tier_runs_in_the_work_shape_that_is_served(lanes: LanesExecutor) -> None:
    """On sm75 the small one, whatever the rows an expert."""
    case = case_of("experts_decades")
    for tier, shape in (("sm75", 2), ("sm80", 4)):
        path = PATHS[f"expert_fused/{MODE}/{tier}"]
        due = {lanes.build(kernel).digest for kernel in expert_fused.kernels(path, (shape,))}
        data = inputs.build(case, MODE)
        ran = OPERATIONS["expert_fused"].run(lanes, path, data, None, False)
        assert {witness.image for witness in ran.witnesses} == due


def test_a_case_without_a_check_of_its_kernel_is_told() -> None:
    """The runner gives each operation's own cases, and another kind of data is no case of a path."""
    from validation.run.plan import fits

    assert fits(case_of("experts_plain"), PATHS["expert_decode/iq3_s/q2_0/simt"])
    assert not fits(case_of("experts_plain"), PATHS["router/fp32/simt"])
    assert not fits(case_of("experts_plain"), PATHS["prompt_attention/fp16/sm80"])
