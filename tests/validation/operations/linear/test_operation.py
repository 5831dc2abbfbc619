"""Dense products on the seam: what is launched and measured, and plans that hold what records and sizes need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.kernels import linear, linear_dp4a, linear_f16, linear_quantise
from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.outcome import Outcome, Run
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.operations.linear import blocks, inputs, plan, random_cases
from validation.operations.linear.case import LinearCase
from validation.operations.linear.formats import HALVES
from validation.operations.linear.operation import OPERATIONS, Linear
from validation.operations.linear.recipes import RECIPES
from validation.operations.linear.stub_kernels import Asked, due, multiplier
from validation.run import runner
from validation.run.plan import SEED

PATH = PATHS["linear/q5_1/sm75"]
BROKEN = LinearCase("linear_broken", 1, 8, 14, 512)


def judged(case: LinearCase, path: str = PATH.name, memo: Memo | None = None) -> tuple[Findings, Linear]:
    name = PATHS[path].operation
    operation = Linear(name, {each.name: multiplier() for each in OPERATIONS})
    return operation.judge(Trial(operation, case, PATHS[path], StubExecutor(), Settings(), memo or Memo())), operation


@pytest.mark.parametrize("path", [PATH.name, "linear_dp4a/iq2_xs/simt", "linear_f16/f16/simt"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_model_passes_every_recipe(name: str, path: str) -> None:
    """And FP64 is held against the products of which something is promised, and against no other."""
    found, _ = judged(replace(BROKEN, recipe=name), path)
    assert runner.settle(found.checks) is Verdict.EXACT, [check for check in found.checks if not check.verdict.passes]
    names = {check.name for check in found.checks}
    assert {"bits", "bound", "self", "repeat", "parts"} <= names
    assert ("units" in names) == ("lost" in names) == (path != "linear_f16/f16/simt")
    assert ("baseline bits" in names) == path.startswith("linear/")


def test_a_case_without_a_sound_product_is_judged_by_its_bits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = blocks.matrix

    def all_nan(*args: Any) -> np.ndarray:
        made = plain(*args).reshape(14, -1, 24)
        made[:, 0, 0:2] = 0xFF
        return made.reshape(14, -1)

    monkeypatch.setattr(blocks, "matrix", all_nan)
    found, _ = judged(BROKEN)
    names = {check.name for check in found.checks}
    assert not {"bound", "self", "baseline bound"} & names
    assert {"bits", "self bits", "baseline bits"} <= names
    assert runner.settle(found.checks) is Verdict.EXACT


def test_rows_of_one_are_not_cut() -> None:
    found, _ = judged(LinearCase("linear_bell", 1, 1, 14, 512))
    assert "parts" not in {check.name for check in found.checks}


def test_tiers_of_a_mode_share_model_and_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, calls = Memo(), list[str]()
    plain = inputs.build

    def build(case: LinearCase, mode: str) -> inputs.Inputs:
        calls.append(mode)
        return plain(case, mode)

    monkeypatch.setattr(inputs, "build", build)
    for path in ("linear/q5_1/sm75", "linear/q5_1/sm80", "linear_dp4a/q5_1/simt", "linear/q4_0/sm75"):
        judged(BROKEN, path, memo)
    assert calls == ["q5_1", "q4_0"]


@pytest.mark.parametrize("rows", [3, 4, 5, 40])
def test_a_run_launches_the_kernel_of_its_rows_and_in_parts_that_of_each(rows: int) -> None:
    path, case = PATHS["linear_dp4a/q8_0/simt"], LinearCase("linear_bell", 1, rows, 5, 64)
    operation = registry.of(path)
    assert isinstance(operation, Linear)
    given = inputs.build(case, path.mode)
    outcome = Outcome({}, [], True)
    few = linear_dp4a.FEW.entry
    whole = [kernel.entry for kernel in operation.launched(case, Run(StubExecutor(), path, given, outcome))]
    assert whole == ["linear_quantise", few if rows <= 4 else linear_dp4a.MANY.entry]
    cut = {kernel.entry for kernel in operation.launched(case, Run(StubExecutor(), path, given, outcome, 1))}
    assert cut == {"linear_quantise", few} | ({linear_dp4a.MANY.entry} if rows > 5 else set())
    assert [kernel.entry for kernel in operation.kernels(path, case)] == whole


def test_kernels_of_paths_are_those_of_their_modules() -> None:
    assert registry.of(PATH).kernels(PATH) == linear.kernels(PATH)
    assert linear_quantise.kernel() in registry.of(PATH).kernels(PATH)
    halves = PATHS["linear_f16/f16/simt"]
    assert registry.of(halves).kernels(halves) == [linear_f16.kernel()]
    with pytest.raises(UnknownOperationError):
        registry.of(PATH).kernels(halves)


def test_every_mode_has_every_recipe_and_every_size_is_taken_where_it_is_asked() -> None:
    planned = plan.planned(SEED, "quick")
    for mode in (*LINEAR_FORMATS, HALVES):
        taken = [one for one in planned if (one.modes is None or mode in one.modes) and one.case.fits(mode)]  # type: ignore[attr-defined]
        assert {one.case.recipe for one in taken} >= {*RECIPES} - {"linear_sizes", "linear_far"}
        asked = [one for one in planned if one.modes is not None and mode in one.modes]
        assert all(one in taken for one in asked), mode
    assert {one.case.recipe for one in planned} == {*RECIPES}


@pytest.mark.parametrize("profile", ["standard", "full"])
def test_larger_profiles_begin_with_the_smaller_ones(profile: str) -> None:
    quick, larger = plan.planned(SEED, "quick"), plan.planned(SEED, profile)
    assert larger[: len(quick)] == quick
    assert all(
        one.modes is None or all(one.case.fits(mode) for mode in one.modes)  # type: ignore[attr-defined]
        for one in larger
    )


def test_cases_that_a_record_must_hold_are_planned_in_every_mode() -> None:
    planned = [one.case for one in plan.required(SEED)]
    (required,) = linear.DESCRIPTOR.required
    assert required.missing([case.text() for case in planned]) == ""
    assert all(
        registry.of(PATH).takes(case, PATHS[f"linear/{mode}/sm80"]) for case in planned for mode in LINEAR_FORMATS
    )


@pytest.mark.parametrize("name", RECIPES)
def test_random_cases_fit_every_mode(name: str) -> None:
    for word in range(40):
        case = random_cases.case(name, word, [7 * word, 5 * word, 3 * word])
        assert all(case.fits(mode) for mode in (*LINEAR_FORMATS, HALVES))
        assert name != "linear_cancelling" or case.width % 512 == 0


def test_what_a_stand_in_is_told() -> None:
    told: list[Asked] = []

    def watch(made: Outcome, asked: Asked) -> Outcome:
        told.append(asked)
        return made

    own = multiplier(watch)
    given = inputs.build(LinearCase("linear_bell", 1, 3, 2, 64), "q8_0")
    own.run(StubExecutor(), PATH, given)
    own.parts(StubExecutor(), PATH, given, 2)
    assert [(asked.cut, asked.run) for asked in told] == [(None, 1), (2, 2)]
    assert due(StubExecutor(), given).counts == {"lost": 0}
