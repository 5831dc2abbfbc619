"""The controls of enclosures are right, and told when what they ask is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from validation.controls.enclosures import enclosing
from validation.core.control import answers
from validation.core.verdict import Check, Verdict
from validation.numerics import interval as enclosure
from validation.numerics.interval import Enclosure

PLAIN, CERTIFICATE = enclosure.certified, enclosure.certificate


def wrong() -> set[str]:
    return {answer.name for answer in answers(enclosing()) if not answer.right}


def test_the_enclosures_are_right() -> None:
    assert wrong() == set()


def _first_only(name: str, got: Any, bound: Any, enclosures: Any) -> Check:
    return PLAIN(name, got, bound, enclosures[:1])


def _loose(name: str, got: Any, bound: Any, enclosures: Any) -> Check:
    return PLAIN(name, got, 2 * bound, enclosures)


def _passes_all(name: str, got: Any, bound: Any, enclosures: Any) -> Check:
    return Check(name, Verdict.WITHIN_BOUND)


@pytest.mark.parametrize("broken", [_first_only, _loose, _passes_all])
def test_a_lenient_comparison_is_told(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosure, "certified", broken)
    assert any(name.startswith("certified/") for name in wrong())


def test_near_ends_taken_for_far_ones_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enclosure, "far", Enclosure.near)
    assert "certified/an enclosure as wide as the bound" in wrong()


def test_a_wrong_reference_that_is_blamed_on_the_path_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosure, "certificate", lambda out, own, some: PLAIN("certificate", out, own, some))
    assert "certificate/flipped" in wrong()


def test_a_certificate_that_always_holds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(*arguments: Any) -> Check:
        return replace(CERTIFICATE(*arguments), verdict=Verdict.WITHIN_BOUND)

    monkeypatch.setattr(enclosure, "certificate", lenient)
    assert "certificate/NaN" in wrong()
