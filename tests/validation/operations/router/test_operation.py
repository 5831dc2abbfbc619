"""Router and combining on lanes: every recipe passes whole. What must fail stands in the controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine
from strata.kernels.combine import Combined
from strata.kernels.paths import PATHS
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Operation, Trial
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.operations.combine.operation import Combine
from validation.operations.experts.case import ExpertCase
from validation.run import runner

RECIPES = [*registry.of_kind("router"), *registry.of_kind("combine")]


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


def judged(operation: Operation, case: ExpertCase, lanes: LanesExecutor) -> Findings:
    path = PATHS[f"{operation.name}/fp32/simt"]
    return operation.judge(Trial(operation, case, path, lanes, Settings(), Memo()))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_is_exact(lanes: LanesExecutor, recipe: Any) -> None:
    for tokens, experts, top, n in ((7, 70, 10, 256), (3, 5, 1, 512)):
        case = ExpertCase(recipe.name, 3, tokens, experts, top, n, 64)
        found = judged(registry.found()[recipe.operation], case, lanes)
        assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]


@pytest.mark.parametrize(("tokens", "top"), [(9, 10), (3, 1), (5, 10)])
def test_a_row_under_a_weight_of_0_is_not_left_out(lanes: LanesExecutor, tokens: int, top: int) -> None:
    """Whether it counts what it then gives or not: the reference says what is lost."""

    def skipping(executor: Executor, rows: np.ndarray, weights: np.ndarray, *others: Any) -> Combined:
        return combine.run(executor, np.where(weights[..., None] == 0, np.float32(0), rows), weights, *others)

    case = ExpertCase("combine_broken", 1, tokens, 64, top, 256, 64)
    found = judged(Combine(skipping), case, lanes)
    assert {"bits", "broken", "lost"} <= {check.name for check in found.checks if not check.verdict.passes}


def test_a_case_without_a_finite_token_is_judged(lanes: LanesExecutor) -> None:
    case = ExpertCase("combine_broken", 1, 1, 64, 3, 256, 64)
    found = judged(Combine(), case, lanes)
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    assert "bound" not in {check.name for check in found.checks}
