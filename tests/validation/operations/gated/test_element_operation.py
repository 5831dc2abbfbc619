"""Operations on elements on the seam: recipes reach what they are for, every one passes whole, wrong ones show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS
from validation.core.case import CaseError
from validation.core.fuzz_numbers import NUMBERS
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Verdict
from validation.operations.gated import fuzz, plan, reference
from validation.operations.gated.case import ElementCase
from validation.operations.gated.inputs import build
from validation.operations.gated.launched import ELEMENTS
from validation.operations.gated.operation import OPERATIONS
from validation.operations.gated.recipes import RECIPES
from validation.run import far, runner

BY_NAME = {one.name: one for one in OPERATIONS}
PATH = {"gated": "gated/gelu_tanh/simt", "softcap": "softcap/fp32/simt", "residual": "residual/fp32/simt"}


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, name: str) -> None:
    operation = BY_NAME[RECIPES[name].operation]
    for rows, columns in ((7, 41), (1, 1)):
        case = ElementCase(name, 3, rows, columns)
        found = operation.judge(Trial(operation, case, PATHS[PATH[operation.name]], lanes, Settings(), Memo()))
        verdict = runner.settle(found.checks)
        assert verdict is Verdict.EXACT, [one for one in found.checks if not one.verdict.passes]
        over = {f"{what}over {one}" for what in ("", "guards ") for one in operation.elements.operands}
        due = {"bits", "repeat", *over} | ({"bound", "self"} if rows > 1 else set())
        assert due <= {one.name for one in found.checks}


@pytest.mark.parametrize(
    "text", ["recipe=softcap_ladder seed=1 rows=1 columns=3", "recipe=gated_ladder seed=1 rows=1 columns=4"]
)
def test_outputs_that_may_all_be_zero_are_judged_by_bits(lanes: LanesExecutor, text: str) -> None:
    """FP64 is asked where it can tell, and a case of a few elements is not void."""
    case = ElementCase.parse(text)
    operation = BY_NAME[case.recipe.partition("_")[0]]
    names = set()
    for seed in range(30):
        one = replace(case, seed=seed)
        found = operation.judge(Trial(operation, one, PATHS[PATH[operation.name]], lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [each for each in found.checks if not each.verdict.passes]
        names.add("bound" in {each.name for each in found.checks})
    assert False in names


def test_a_case_is_its_text() -> None:
    case = ElementCase("softcap_bell", 7, 3, 5, (("cap", "50"),))
    assert case.text() == "recipe=softcap_bell seed=7 rows=3 columns=5 cap=50"
    assert ElementCase.parse(case.text()) == case
    assert ElementCase.parse("recipe=softcap_bell seed=7 rows=3 columns=5").cap == 30
    for words, said in (
        ("recipe=softcap_bell cap=0", "cap is 0, expected 1.1754944e-38 to"),
        ("recipe=softcap_bell cap=1e39", "cap is inf"),
        ("recipe=softcap_bell cap=x", "cap is 'x', expected a number"),
        ("recipe=gated_bell cap=30", "cap is said of gated_bell"),
    ):
        with pytest.raises(CaseError, match=said):
            ElementCase.parse(f"{words} seed=7 rows=3 columns=5")


@pytest.mark.parametrize("mode", ["gelu_tanh", "swiglu"])
def test_gates_lie_on_both_sides_of_every_edge_of_the_exponential(mode: str) -> None:
    gate = build(ElementCase("gated_edges", 1, *plan.EDGES)).arrays["gate"]
    with np.errstate(over="ignore"):
        power = gate * reference.MINUS_LOG2_E
        if mode == "gelu_tanh":
            power = gate * (np.float32(1) + gate * gate * reference.CUBIC) * reference.GELU
    for edge in (-126.0, 128.0, 0.5, -0.5, 127.5):
        step = np.spacing(np.float32(abs(edge)))
        for side in (power[power < edge], power[power >= edge]):
            assert np.abs(side - np.float32(edge)).min() <= 16 * step


def test_values_lie_on_both_sides_of_every_edge_of_soft_capping() -> None:
    x = build(ElementCase("softcap_edges", 1, *plan.EDGES)).arrays["x"]
    power = np.abs(x / np.float32(30)) * reference.SOFTCAP
    for edge in (-126.0, -0.5, -(2.0**-24)):
        step = np.spacing(np.float32(abs(edge)))
        for side in (power[power < edge], power[power >= edge]):
            assert np.abs(side - np.float32(edge)).min() <= 16 * step
    assert {1, -1} == set(np.sign(x).ravel().tolist())


@pytest.mark.parametrize(("name", "operand"), [("gated_ladder", "gate"), ("softcap_ladder", "x")])
def test_ladders_go_from_the_smallest_floats_to_the_largest(name: str, operand: str) -> None:
    x = np.abs(build(ElementCase(name, 1, plan.LADDER_ROWS, 19)).arrays[operand])
    assert np.isfinite(x).all()
    octaves = set(np.frexp(x[x > 0])[1].tolist())
    assert {octave // 4 for octave in octaves} >= set(range(-36, 32))


def test_sums_end_where_they_may() -> None:
    arrays = build(ElementCase("residual_ends", 1, 5, 640)).arrays
    out = reference.residual_bits(arrays["a"], arrays["b"])
    assert np.isinf(out).any()
    assert (np.abs(out) == np.finfo(np.float32).max).any()
    minus_zero = (out == 0) & np.signbit(out)
    assert minus_zero.any(axis=1).all()
    assert minus_zero.reshape(-1, 4).any(axis=0).all()
    assert ((np.abs(out) < np.finfo(np.float32).tiny) & (out != 0)).any()
    cancelled = build(ElementCase("residual_cancelling", 1, 5, 37)).arrays
    assert (reference.residual_bits(cancelled["a"], cancelled["b"]) == 0).any()


@pytest.mark.parametrize("name", ["gated_broken", "softcap_broken", "residual_broken"])
def test_one_row_of_several_stays_whole(name: str) -> None:
    for x in build(ElementCase(name, 1, 5, 37)).arrays.values():
        assert np.isfinite(x[0]).all()
        assert np.isnan(x[1:]).any()
        assert np.isinf(x[1:]).any()


@pytest.mark.parametrize("name", list(PATH))
def test_the_last_of_many_elements_have_their_bits(lanes: LanesExecutor, name: str) -> None:
    found = far.checks(BY_NAME[name], ElementCase(f"{name}_sizes", 1, 1, 9), PATHS[PATH[name]], lanes)
    names = ["far", *(f"far over {one}" for one in ELEMENTS[name].operands)]
    assert [(one.name, one.verdict) for one in found] == [(one, Verdict.EXACT) for one in names]


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure(seed: int, index: int) -> None:
    assert fuzz.configuration(seed, index, ("fp32",), checked=True) == fuzz.configuration(seed, index, ("fp32",))


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index, ("fp32",)) for index in range(64)]
    assert {one.numbers for one in drawn} == set(NUMBERS)
    assert {one.place % 3 for one in drawn} == {0, 1, 2}
    assert {one.columns % 4 for one in drawn} == {0, 1, 2, 3}


@pytest.mark.parametrize("name", list(PATH))
def test_fuzzed_runs_see_a_bit(lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path, what = PATHS[PATH[name]], fuzz.configuration(5, 1, (PATHS[PATH[name]].mode,))
    assert fuzz.compare(lanes, 5, what, path).sound

    def wrong(*args: Any) -> Any:
        made = plain(*args)
        made.out.view(np.uint32).reshape(-1)[-1] ^= 1
        return made

    plain = ELEMENTS[name].run
    monkeypatch.setattr(fuzz, "ELEMENTS", {name: replace(ELEMENTS[name], run=wrong)})
    assert fuzz.compare(lanes, 5, what, path).differing == 2
    with pytest.raises(UnknownOperationError):
        fuzz.compare(lanes, 5, what, PATHS["router/fp32/simt"])
