"""Wrong kernels are refused by the check made for each; leaving a check out of a case is told by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from validation.controls import kernels
from validation.core.control import Control, answer, answers
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict
from validation.operations.attention import bound as path_bound
from validation.operations.attention import gates
from validation.operations.attention.operation import Attention, under_test
from validation.run.runner import run_case


def wrong() -> set[str]:
    return wrong_of([*kernels.positive(), *kernels.negative()])


def wrong_of(controls: Iterable[Control]) -> set[str]:
    return {one.name for one in answers(controls) if not one.right}


def healthy_is_told() -> bool:
    """Whether the control of the healthy kernel alone, which names every check made, gives a wrong answer."""
    (control,) = (control for control in kernels.positive() if control.name == "kernel/healthy")
    return wrong_of([control]) == {"kernel/healthy"}


def test_the_healthy_kernel_passes_and_all_others_are_refused() -> None:
    assert wrong() == set()
    names = [control.name for control in (*kernels.positive(), *kernels.negative())]
    assert len(set(names)) == len(names) > 40


def test_every_check_of_a_case_has_a_kernel_that_it_refuses() -> None:
    found = run_case(kernels.CASE, kernels.PATH, kernels.LANES, Settings(), Memo(), under_test(kernels._healthy()))
    # What is wrong with a reference is asked of enclosures.
    made = {check["name"] for check in found["checks"]} - {"data", "self", "certificate"}
    assert made <= {name for negative in kernels.NEGATIVE for name in negative.checks}


CHECKS = [name for name in kernels.ALL_CHECKS if name not in ("self", "certificate")]


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_always_passes_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Attention.judge

    def lenient(*arguments: Any) -> Any:
        found = plain(*arguments)
        found.checks = [
            Check(name, Verdict.EXACT) if check.name == name and not check.verdict.passes else check
            for check in found.checks
        ]
        return found

    monkeypatch.setattr(Attention, "judge", lenient)
    rows = sorted((*kernels.positive(), *kernels.negative()), key=lambda control: name not in control.expected)
    told = any(not answer(control).right for control in rows)  # the first one will do
    assert told == (name != "data")  # its own controls are those of data


@pytest.mark.parametrize("name", kernels.ALL_CHECKS)
def test_a_check_that_is_left_out_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Attention.judge

    def fewer(*arguments: Any) -> Any:
        found = plain(*arguments)
        found.checks = [check for check in found.checks if check.name != name]
        return found

    assert not healthy_is_told()
    monkeypatch.setattr(Attention, "judge", fewer)
    assert healthy_is_told()


def test_bounds_a_thousand_times_too_wide_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[..., Any] = path_bound.kernel_bound
    monkeypatch.setattr(path_bound, "kernel_bound", lambda *a: 1000 * plain(*a))
    kernels._answer.cache_clear()
    told = wrong()
    kernels._answer.cache_clear()
    assert "kernel/scaled by 1 + 2^-12" in told


def test_a_battery_that_is_not_asked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "battery", lambda *a: Check("nothing", Verdict.EXACT))
    assert healthy_is_told()
