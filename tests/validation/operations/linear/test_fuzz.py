"""Fuzzed dense products: pure configurations, every choice, and wrong bits, codes and counts seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.controls.linear import changed, one_bit
from validation.core.fuzz_compared import Compared
from validation.core.fuzz_numbers import NUMBERS
from validation.core.outcome import Outcome
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.linear import fuzz, kernels
from validation.operations.linear.formats import HALVES, holds
from validation.operations.linear.kernels import UNITS
from validation.operations.linear.stub_kernels import Asked, Fault, multiplier

ALL = (*LINEAR_FORMATS, HALVES)
OTHER = StubExecutor()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 4000), st.booleans())
def test_configurations_are_pure_and_small(seed: int, index: int, checked: bool) -> None:
    what = fuzz.configuration(seed, index, ALL, checked)
    assert fuzz.configuration(seed, index, ALL, checked) == what
    assert holds(what.mode, what.width)
    assert what.outputs == 1 or what.rows * what.outputs * what.width <= fuzz.MOST_WORK[checked]


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index, ALL) for index in range(160)]
    assert {what.mode for what in drawn} == set(ALL)
    assert {what.numbers for what in drawn} == {what.scales for what in drawn} == set(NUMBERS)
    assert {what.sized for what in drawn} == {True, False}


def compared(monkeypatch: pytest.MonkeyPatch, mode: str, fault: Fault | None = None, index: int = 0) -> Compared:
    """The first configuration of several rows from an index on, on stand-ins."""
    name = "linear_f16/f16/simt" if mode == HALVES else f"linear/{mode}/sm80"
    what = next(
        one
        for at in range(index, index + 50)
        if (one := fuzz.configuration(2, at, (mode,))).rows in range(2, 9) and one.outputs > 1 and one.width < 700
    )
    monkeypatch.setitem(kernels.MULTIPLIERS, PATHS[name].operation, multiplier(fault))
    monkeypatch.setattr(fuzz, "other", lambda executor, schedule: OTHER)
    return fuzz.compare(OTHER, 2, what, PATHS[name])


@pytest.mark.parametrize("mode", ["q4_0", "q5_1", "q6_k", HALVES])
def test_the_model_differs_in_nothing(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    for index in (0, 50, 100, 150):
        found = compared(monkeypatch, mode, index=index)
        assert found.sound, found
        assert found.outputs > 0


def _second(asked: Asked) -> bool:
    return asked.run == 2


def _one_code(units: np.ndarray) -> None:
    units[0, 0, 32] ^= 1


def _uncounted(made: Outcome, asked: Asked) -> Outcome:
    return replace(made, counts={"lost": made.counts["lost"] + 1})


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (changed(one_bit), ""),
        (changed(one_bit, when=_second), ""),
        (changed(_one_code, UNITS), "1 bytes of units differ"),
        (_uncounted, "groups lost, expected"),
        (lambda made, asked: replace(made, guards_ok=False), ""),
    ],
)
def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch, fault: Fault, said: str) -> None:
    found = compared(monkeypatch, "q4_0", fault)
    assert not found.sound
    assert said in found.said


def test_another_operations_path_is_refused() -> None:
    with pytest.raises(UnknownOperationError):
        fuzz.compare(OTHER, 1, fuzz.configuration(1, 0), PATHS["combine/fp32/simt"])
