"""Router and combining on lanes: every recipe passes whole. What must fail stands in the controls."""

from __future__ import annotations

import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS
from validation import around_case, runner
from validation.experts.around_recipes import RECIPES
from validation.experts.case import ExpertCase
from validation.settings import Settings
from validation.verdict import Verdict


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, name: str) -> None:
    for tokens, experts, top, n in ((7, 70, 10, 256), (3, 5, 1, 512)):
        case = ExpertCase(name, 3, tokens, experts, top, n, 64)
        found = around_case.run(case, PATHS[f"{RECIPES[name].operation}/fp32/simt"], lanes, Settings())
        assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
