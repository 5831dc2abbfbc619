"""Controls of the data: soft generators and seeds that do not matter are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from validation.controls import data
from validation.core.control import answers
from validation.core.random_streams import Stream
from validation.core.verdict import Check, Verdict
from validation.operations.attention import plan as attention_plan
from validation.operations.attention import preconditions, selection
from validation.operations.kv_pack import pages, planes
from validation.operations.kv_pack import plan as pack_plan


def wrong() -> set[str]:
    return {answer.name for answer in answers([*data.soft(), *data.seeds()]) if not answer.right}


def test_the_data_are_as_promised() -> None:
    assert wrong() == set()
    names = [control.name for control in (*data.soft(), *data.seeds())]
    assert len(set(names)) == len(names)


def test_promises_that_are_not_asked_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "kept", lambda *a: Check("data", Verdict.EXACT))
    assert len(wrong()) == sum(row[-1] == "VOID" for row in data.SOFT)


def test_a_seed_that_is_ignored_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Stream.of
    monkeypatch.setattr(Stream, "of", staticmethod(lambda seed, *names: plain(1, *names)))
    assert {"seed/q4_0, two seeds", "seed/int8, seeds far apart"} <= wrong()


def test_names_that_are_ignored_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Stream.of
    monkeypatch.setattr(Stream, "of", staticmethod(lambda seed, *names: plain(seed)))
    assert "seed/streams of two names" in wrong()


@pytest.mark.parametrize("plan", [attention_plan, pack_plan])
def test_a_profile_of_one_seed_is_told(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = plan.planned
    monkeypatch.setattr(plan, "planned", lambda seed, *rest: plain(1, *rest))
    assert "seed/profile quick" in wrong()


def test_a_generator_of_positive_scales_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = planes._scales
    monkeypatch.setattr(planes, "_scales", lambda *a: np.abs(plain(*a)))
    assert "data/q4_0 as made" in wrong()


def test_spare_pages_of_zeros_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_poisoned", lambda shape, dtype: np.zeros(shape, dtype))
    assert {"data/q4_0 as made", "data/fp16 as made"} <= wrong()


def test_lists_that_end_at_their_width_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TAIL", 0)
    assert "data/q4_0 as made" in wrong()
