"""The truth tables pass on the comparators as they are, and each broken comparator is refused by some row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import pytest

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE
from tests.validation.controls import broken
from validation.controls import values
from validation.core import verdict
from validation.core.control import Control, answers
from validation.core.verdict import Check, Verdict

GROUPS = [values.within, values.identical, values.written, values.holds]


def wrong(make: Callable[[], Iterator[Control]]) -> list[str]:
    return [answer.line() for answer in answers(make()) if not answer.right]


@pytest.mark.parametrize("make", GROUPS)
def test_the_comparators_are_right(make: Callable[[], Iterator[Control]]) -> None:
    assert wrong(make) == []


@pytest.mark.parametrize("make", GROUPS)
def test_rows_have_names_of_their_own_and_every_verdict_occurs(make: Callable[[], Iterator[Control]]) -> None:
    rows = list(make())
    assert [name for name, count in Counter(row.name for row in rows).items() if count > 1] == []
    assert len({row.expected for row in rows}) == 3


@pytest.mark.parametrize(("got", "want", "bound", "expected"), [row[1:] for row in values.WITHIN])
def test_the_table_is_what_exact_arithmetic_says(got: float, want: float, bound: float, expected: str) -> None:
    if not isfinite(want) or not isfinite(bound) or bound < 0:
        said = "VOID"
    elif not isfinite(got):
        said = "EXCEEDS"
    else:
        said = "WITHIN_BOUND" if abs(Fraction(got) - Fraction(want)) <= Fraction(bound) else "EXCEEDS"
    assert said == expected
    assert got != got or float(np.float32(got)) == got


@pytest.mark.parametrize("name", broken.WITHIN)
def test_a_broken_within_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "within", broken.WITHIN[name])
    found = wrong(values.within)
    # It accepts what it must not: a verdict of another name alone would prove little.
    assert any(": got WITHIN_BOUND" in line for line in found) == (name not in broken.STRICT)
    assert found
    assert all(line.startswith("control within/") and ": got " in line for line in found)


@pytest.mark.parametrize("name", broken.IDENTICAL)
def test_a_broken_identical_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "identical", broken.IDENTICAL[name])
    found = wrong(values.identical)
    assert any(": got EXACT" in line for line in found) == (name not in broken.STRICT)
    assert found


def _written(*poisons: int) -> Callable[..., Check]:
    def broken_written(name: str, out: np.ndarray) -> Check:
        bits = np.ascontiguousarray(out).view(np.uint32) if out.dtype == np.float32 else np.zeros(1, np.uint32)
        stale = np.isin(bits, poisons).any()
        return Check(name, Verdict.EXCEEDS if stale else Verdict.EXACT, "because" if stale else "")

    return broken_written


@pytest.mark.parametrize("poisons", [(), (POISON_OUTPUT,), (POISON_WORKSPACE,)])
def test_a_broken_written_is_refused(poisons: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "written", _written(*poisons))
    assert any("poison" in line for line in wrong(values.written)) == (len(poisons) < 2)
    assert any("empty" in line for line in wrong(values.written))


def test_a_condition_taken_for_true_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def loose(name: str, condition: Any, reason: str, figures: object = None) -> Check:
        fine = condition is not None and bool(np.all(condition))
        return Check(name, Verdict.EXACT if fine else Verdict.EXCEEDS, "" if fine else reason)

    monkeypatch.setattr(verdict, "holds", loose)
    assert {line.partition(":")[0] for line in wrong(values.holds)} >= {"control holds/NaN", "control holds/text"}


def test_a_reason_without_need_and_a_failure_without_reason_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = verdict.within
    monkeypatch.setattr(verdict, "within", lambda *a, **k: Check("x", plain(*a, **k).verdict, "because"))
    assert any("WITHIN_BOUND with reason" in line for line in wrong(values.within))
    monkeypatch.setattr(verdict, "within", lambda *a, **k: Check("x", plain(*a, **k).verdict))
    assert any("EXCEEDS with reason ''" in line for line in wrong(values.within))
