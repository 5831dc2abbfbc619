"""Visible cells on lanes: every recipe passes whole, far addresses too; the model and the cases are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import visible_cells
from strata.kernels.paths import PATHS
from strata.kernels.visible_cells import LAST
from validation.core.case import CaseError
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.visible_cells import far, fuzz, reference
from validation.operations.visible_cells.case import CellsCase
from validation.operations.visible_cells.inputs import Inputs
from validation.operations.visible_cells.operation import VisibleCells
from validation.operations.visible_cells.recipes import RECIPES
from validation.run import runner

PATH = PATHS["visible_cells/causal/simt"]


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, recipe: str) -> None:
    operation = VisibleCells()
    for case in (CellsCase(recipe, 3, 5, 7, 9), operation.random_case(recipe, list(range(5, 16)), True)):
        found = operation.judge(Trial(operation, case, PATH, lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]


def test_many_rows_are_repeated_in_part(lanes: LanesExecutor) -> None:
    operation = VisibleCells()
    case = CellsCase("cells_chunk", 3, 5, 60, 9)
    trial = Trial(operation, case, PATH, lanes, Settings(), Memo())
    found = operation.judge(trial)
    assert runner.settle(found.checks) is Verdict.EXACT
    assert trial.again is not None
    assert len(trial.again.outputs["ids_local"]) == 24
    assert trial.again.outputs["steps_global"][:, 0].max() == 64


def test_far_addresses_are_exact(lanes: LanesExecutor) -> None:
    found = [part.ask() for part in far.parts(CellsCase("cells_far", 1, 2, 2), lanes)]
    assert [(one.name, one.verdict) for one in found] == [(name, Verdict.EXACT) for name in ("far ids", "far steps")]


def test_the_definition_by_hand() -> None:
    cells = np.array([0, 1, 4])
    assert reference.ids(cells, 3).tolist() == [[0, -1, -1], [0, 1, -1], [2, 3, 4]]
    assert reference.steps(cells, 3).tolist() == [[0, 0, 0, 1], [1, 0, 0, 2], [4, 0, 0, 3]]
    assert reference.steps(cells, None).tolist() == [[0, 0, 0, 1], [1, 0, 0, 2], [4, 0, 0, 5]]


def test_rows_in_another_order_are_a_launch_for_each_run_of_cells() -> None:
    assert [one.tolist() for one in Inputs(np.array([4, 5, 6, 2, 3, 9]), 7).chunks()] == [[4, 5, 6], [2, 3], [9]]


def test_cases_that_cannot_be_are_refused() -> None:
    with pytest.raises(CaseError, match=f"first is {LAST}, expected up to {LAST - 1} for 2 rows"):
        CellsCase("cells_chunk", 1, LAST, 2)
    with pytest.raises(CaseError, match="window is 2147483647, expected up to 67108864 for 2 rows"):
        CellsCase("cells_chunk", 1, 0, 2, LAST + 1)


def test_fuzzed_configurations_are_pure_and_sound(lanes: LanesExecutor) -> None:
    for index in range(6):
        what = fuzz.configuration(1, index)
        assert what == fuzz.configuration(1, index, checked=True)
        assert fuzz.compare(lanes, 1, what, PATH).sound
    with pytest.raises(StrataError, match="expected one of visible_cells"):
        fuzz.compare(lanes, 1, what, PATHS["combine/fp32/simt"])


@pytest.mark.parametrize("field", ["ids_local", "steps_global", "steps_local"])
def test_a_wrong_word_is_seen(lanes: LanesExecutor, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = visible_cells.run

    def run(*given: Any) -> Any:
        made = sound(*given)
        getattr(made, field)[0, 0] += 1
        return made

    monkeypatch.setattr(visible_cells, "run", run)
    assert not fuzz.compare(lanes, 1, fuzz.configuration(1, 0), PATH).sound
