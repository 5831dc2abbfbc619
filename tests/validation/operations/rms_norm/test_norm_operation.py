"""RMSNorm on the seam: recipes are what they say, every one passes whole, and far and fuzzed runs see what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.lanes import LanesExecutor
from strata.kernels import rms_norm
from strata.kernels.paths import PATHS
from validation.core.case import CaseError
from validation.core.fuzz_numbers import NUMBERS
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Verdict
from validation.operations.rms_norm import fuzz, plan, reference
from validation.operations.rms_norm.case import NormCase
from validation.operations.rms_norm.inputs import build
from validation.operations.rms_norm.operation import RmsNorm
from validation.operations.rms_norm.recipes import RECIPES
from validation.run import far, runner

MODES = rms_norm.MODES


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, name: str) -> None:
    path, operation = PATHS["rms_norm/residual/simt"], RmsNorm()
    for rows, n in ((6, 136), (1, 4)):
        found = operation.judge(Trial(operation, NormCase(name, 3, rows, n), path, lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [one for one in found.checks if not one.verdict.passes]
        assert {"bits", "repeat", "lost", "over x", "over residual", "guards over x"} <= {
            one.name for one in found.checks
        }


def test_a_row_of_the_smallest_floats_is_judged_by_bits(lanes: LanesExecutor) -> None:
    """All of it may be zero by its bound, so FP64 is not asked, and the case is not void."""
    operation, path = RmsNorm(), PATHS["rms_norm/plain/simt"]
    asked = set()
    for seed in range(30):
        case = NormCase("rms_ladder", seed, 1, 4, (("eps", "1"),))
        found = operation.judge(Trial(operation, case, path, lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [one for one in found.checks if not one.verdict.passes]
        asked.add("bound" in {one.name for one in found.checks})
    assert False in asked


def test_a_case_is_its_text() -> None:
    case = NormCase("rms_bell", 7, 3, 12, (("eps", "1e-5"),))
    assert case.text() == "recipe=rms_bell seed=7 rows=3 n=12 eps=1e-5"
    assert NormCase.parse(case.text()) == case
    assert case.eps == float(np.float32(1e-5))
    assert NormCase.parse("recipe=rms_bell seed=7 rows=3").n == 640
    for words, said in (
        ("n=6", "multiple of 4"),
        ("eps=0", "expected 1.1754944e-38 to 1"),
        ("eps=x", "expected a number"),
    ):
        with pytest.raises(CaseError, match=said):
            NormCase.parse(f"recipe=rms_bell seed=7 rows=3 {words}")


def test_sums_lie_on_both_sides_of_the_largest_float() -> None:
    """By one square, in a lane and in the sum of lanes alone: whose lanes are all finite."""
    x = build(NormCase("rms_overflow", 1, 10, 260), "plain").x
    squares = np.square(x.astype(np.float64))
    assert np.isfinite(reference.squares(x)).tolist() == [True, False, False, True, False] * 2
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(squares[1].max()))
        assert np.isfinite(np.float32(squares[2].max()))
        by_lane = np.stack([squares[4, np.arange(260) % 128 // 4 == lane].sum() for lane in range(32)])
        assert np.isfinite(by_lane.astype(np.float32)).all()


def test_a_ladder_goes_from_nothing_to_the_largest_sums() -> None:
    x = build(NormCase("rms_ladder", 1, plan.LADDER_ROWS, 132), "plain").x
    total = reference.squares(x)
    assert np.isfinite(total).all()
    assert (total == 0).any()
    assert ((total > 0) & (total < np.finfo(np.float32).tiny)).any()
    assert total.max() > 2.0**110
    assert {octave // 8 for octave in np.frexp(total[total > 0])[1].tolist()} >= set(range(-18, 14))


def test_one_row_in_two_is_broken_and_the_others_are_whole() -> None:
    x = build(NormCase("rms_broken", 1, plan.TURNS, 260), "plain").x
    assert np.isfinite(x).all(axis=1).tolist() == [row % 2 == 0 for row in range(plan.TURNS)]
    broken = ~np.isfinite(x[1::2])
    assert broken.all(axis=1).any()
    assert broken[:, 0].any()
    assert broken[:, -1].any()
    assert np.isnan(x).any()
    assert np.isposinf(x).any()
    assert np.isneginf(x).any()


@pytest.mark.parametrize("mode", MODES)
def test_the_last_rows_of_the_most_have_their_bits(lanes: LanesExecutor, mode: str) -> None:
    path = PATHS[f"rms_norm/{mode}/simt"]
    found = far.checks(RmsNorm(), NormCase("rms_sizes", 1, 3, 128), path, lanes)
    assert [(one.name, one.verdict) for one in found] == [("far", Verdict.EXACT), ("far elements", Verdict.EXACT)]


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure_and_small(seed: int, index: int) -> None:
    what = fuzz.configuration(seed, index, MODES)
    assert fuzz.configuration(seed, index, MODES, checked=True) == what
    assert what.n % 4 == 0
    assert what.mode == "residual" or what.over != "residual"


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index, MODES) for index in range(64)]
    assert {one.numbers for one in drawn} == set(NUMBERS)
    assert {one.over for one in drawn} == {"", "x", "residual"}


def _bit(made: Any) -> Any:
    out = made.out.copy()
    out.view(np.uint32).reshape(-1)[-1] ^= 1
    return made._replace(out=out)


@pytest.mark.parametrize(
    ("wrong", "sound"), [(None, True), (_bit, False), (lambda made: made._replace(lost=made.lost + 1), False)]
)
def test_fuzzed_runs_see_a_bit_and_a_count(
    lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch, wrong: Any, sound: bool
) -> None:
    plain = rms_norm.run
    if wrong is not None:
        monkeypatch.setattr(rms_norm, "run", lambda *args: wrong(plain(*args)))
    for index in range(6):
        what = fuzz.configuration(5, index, MODES)
        assert fuzz.compare(lanes, 5, what, PATHS[f"rms_norm/{what.mode}/simt"]).sound == sound
    with pytest.raises(UnknownOperationError):
        fuzz.compare(lanes, 5, fuzz.configuration(5, 0, MODES), PATHS["router/fp32/simt"])
