"""Expert cases on lanes and on the stand-in: every recipe comes out exact. What must fail stands in the controls."""

from __future__ import annotations

import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS
from validation import expert_case, runner
from validation.attention_case import Memo
from validation.controls.stand_in import StubExecutor
from validation.experts import routing, stand_in
from validation.experts.case import ExpertCase
from validation.experts.kernels import OPERATIONS
from validation.experts.recipes import RECIPES, Routing
from validation.settings import Settings
from validation.verdict import Verdict

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
    found = expert_case.run(case, path, StubExecutor(), Settings(), Memo(), {"expert_fused": stand_in.kernel()})
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
    found = expert_case.run(case_of(recipe), path, lanes, Settings(), Memo(), OPERATIONS)
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    if OPERATIONS[operation].refuses_strays and recipe == "experts_stray":
        assert [check.name for check in found.checks] == ["data", "refuses"]


def test_a_case_without_a_check_of_its_kernel_is_told() -> None:
    """The runner gives each operation's own cases, and another kind of data is no case of a path."""
    from validation.profiles import fits

    assert fits(case_of("experts_plain"), PATHS["expert_decode/iq3_s/q2_0/simt"])
    assert not fits(case_of("experts_plain"), PATHS["router/fp32/simt"])
    assert not fits(case_of("experts_plain"), PATHS["prompt_attention/fp16/sm80"])
