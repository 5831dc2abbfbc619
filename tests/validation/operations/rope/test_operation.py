"""Rope on lanes: every recipe passes whole, far addresses too, and a run in place is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import rope
from strata.kernels.paths import PATHS
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.rope import far, fuzz, random_cases
from validation.operations.rope.case import RopeCase
from validation.operations.rope.operation import Rope
from validation.operations.rope.recipes import RECIPES
from validation.run import runner

PATH = PATHS["rope/fp32/simt"]


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, recipe: str) -> None:
    operation = Rope()
    words = list(range(7, 18))
    for case in (RopeCase(recipe, 3, 5, 2, 24, 77), operation.random_case(recipe, words, True)):
        found = operation.judge(Trial(operation, case, PATH, lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
        assert {"in place", "witness in place", "guards in place"} <= {check.name for check in found.checks}


def test_far_addresses_are_exact(lanes: LanesExecutor) -> None:
    found = [part.ask() for part in far.parts(RopeCase("rope_sizes", 1, 2), lanes)]
    assert [(one.name, one.verdict) for one in found] == [
        (name, Verdict.EXACT) for name in ("far rows", "far heads", "far positions")
    ]


def test_fuzzed_configurations_are_pure_and_sound(lanes: LanesExecutor) -> None:
    for index in range(4):
        what = fuzz.configuration(1, index)
        assert what == fuzz.configuration(1, index, checked=True)
        assert fuzz.compare(lanes, 1, what, PATH).sound


@pytest.mark.parametrize("place", ["one", "two"])
def test_a_wrong_bit_of_either_run_is_seen(lanes: LanesExecutor, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound, calls = rope.run, []

    def run(*given: Any) -> Any:
        made = sound(*given)
        calls.append(1)
        if len(calls) == 1 + (place == "two"):
            made.out.view(np.uint32)[-1, -1, -1] ^= 1
        return made

    monkeypatch.setattr(rope, "run", run)
    got = fuzz.compare(lanes, 1, fuzz.configuration(1, 0), PATH)
    assert (got.differing, got.sound) == (1, False)


def test_another_operation_s_path_is_refused(lanes: LanesExecutor) -> None:
    with pytest.raises(StrataError, match="expected one of rope"):
        fuzz.compare(lanes, 1, fuzz.configuration(1, 0), PATHS["combine/fp32/simt"])


def test_random_cases_take_all_their_sizes() -> None:
    made = {random_cases.case("rope_zeros", 1, [i, i + 1, i + 2, i + 3]).d for i in range(40)}
    assert made == set(random_cases.WIDTHS)
