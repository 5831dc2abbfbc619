"""A bound that is far too wide does not pass in silence: a run of it is void, and cases of it are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.validation.check.fake import FILE, FakeExecutor, kernel, rows
from validation.__main__ import main
from validation.check import Roundings, command, judgement, sensitivity
from validation.check.judgement import Due
from validation.check.load import Loaded

Bound = Callable[[Any, Mapping[str, np.ndarray], Any], dict[str, np.ndarray]]


def share_of(part: float) -> Bound:
    return lambda inputs, due, sizes: {name: part * np.abs(due[name]) + 2.0**-120 for name in ("y", "total")}


def constant(value: float) -> Bound:
    return lambda inputs, due, sizes: {name: np.full_like(due[name], value) for name in ("y", "total")}


@pytest.mark.parametrize(
    "bound",
    [share_of(0.5), share_of(1 / 15), constant(1e30), constant(2.0**60), Roundings(1 << 22)],
    ids=["a half", "a fifteenth", "1e30", "2^60", "four million roundings"],
)  # fmt: skip
def test_a_bound_that_is_far_too_wide_makes_a_run_void(
    bound: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(x: Any, weight: Any, y: Any, *others: Any) -> None:
        rows(x, weight, y, *others)
        y *= np.float32(1 + 1 / 32)

    given: Loaded = kernel(bound=bound)
    monkeypatch.setattr(command, "load", lambda text: given)
    monkeypatch.setattr(command, "open_executor", lambda name, **options: FakeExecutor(wrong))
    assert main(["check", str(FILE), "--no-mutants"]) == 1
    assert "VOID" in capsys.readouterr().out


def test_a_bound_that_is_wide_in_some_cases_is_said_of_these(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def uneven(inputs: Any, due: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        return share_of(0.1 if sizes["rows"] > 5 else 1e-3)(inputs, due, sizes)

    given: Loaded = kernel(bound=uneven)
    monkeypatch.setattr(command, "load", lambda text: given)
    monkeypatch.setattr(command, "open_executor", lambda name, **options: FakeExecutor(rows))
    assert main(["check", str(FILE), "--no-mutants"]) == 0
    said = capsys.readouterr().out
    assert "cases the bound of y is so wide that it could not refuse a change by one part in 16" in said


def due(reference: list[float], limit: list[float], dtype: str = "float32") -> Due:
    return Due(dtype, np.array(reference), np.array(limit), ("row",))


def test_zeros_subnormals_and_what_is_no_number_are_not_counted() -> None:
    wide = [0.0, 1e-40, np.nan, np.inf]
    assert sensitivity.held_closely(due([*wide, 1.0], [1.0] * 4 + [2.0**-5])) == 1.0
    assert sensitivity.held_closely(due([*wide, 1.0], [1.0] * 4 + [2.0**-4])) == 0.0
    assert sensitivity.held_closely(due(wide, [1.0] * 4)) is None
    assert sensitivity.held_closely(due([2.0**-15, 1.0], [1.0, 0.01], "float16")) == 1.0


@pytest.mark.parametrize("limit", [-1.0, np.nan, np.inf])
def test_a_bound_that_is_none_is_void_and_names_its_element(limit: float) -> None:
    check = judgement.battery("", due([3.0, 4.0, np.nan], [1e-6, limit, 1e-6]), None)
    assert check.verdict.name == "VOID"
    assert "at row 1 reference 4, bound" in check.reason


def test_a_case_that_tells_nothing_from_zero_names_an_element() -> None:
    check = judgement.battery("", due([3.0, -4.0, 2.0], [5.0, 5.0, 5.0]), None)
    assert check.verdict.name == "VOID"
    assert check.reason.endswith("zeros; at row 1 reference -4, bound 5")


def test_noise_of_the_reference_beside_a_true_zero_makes_no_case_void() -> None:
    assert judgement.battery("", due([1e-17, -3e-17, 0.0], [1e-8, 1e-8, 1e-8]), None).verdict.passes
    assert not judgement.battery("", due([1e-9, -3e-9, 0.0], [1e-8, 1e-8, 1e-8]), None).verdict.passes


def test_a_single_case_may_be_one_whose_terms_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Loaded = kernel(bound=share_of(0.1))
    monkeypatch.setattr(command, "load", lambda text: given)
    monkeypatch.setattr(command, "open_executor", lambda name, **options: FakeExecutor(rows))
    assert main(["check", str(FILE), "--case", "recipe=plain seed=1 rows=3 width=65"]) == 0


def test_a_recipe_that_tests_nearly_nothing_is_named() -> None:
    def case(recipe: str, *shares: float | None) -> dict[str, Any]:
        checks = [
            {"name": f"{name} self", "figures": {sensitivity.FIGURE: share}}
            for name, share in zip("ab", shares, strict=True)
        ]
        return {"recipe": recipe, "checks": checks}

    names = ["a self", "b self"]
    told = [case("equal", None, 0.0), case("plain", None, 0.5), case("zeros", None, None), case("zeros", 0.1, None)]
    assert sensitivity.idle([*told, case("not_finite", None, None)], names).startswith(
        "nearly nothing is tested by equal: "
    )
    assert sensitivity.idle(told[1:], names) == ""


def test_zeros_of_an_integer_output_are_not_counted() -> None:
    assert sensitivity.nonzero(np.array([0, 3, 0, 1])) == 0.5
    assert sensitivity.nonzero(np.zeros(3, np.int32)) is None
