"""Modes are computed beside one another, and must follow one reading together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console

from strata.executors.base import source_digests
from strata.kernels.paths import PATHS
from validation.operations.kv_pack.case import Case
from validation.record import recompute
from validation.record.rules.rows import Refusal
from validation.record.rules.subject import SHOWN, Subject

CASE = Case("signed_decades", 1, 20, 3, n_head_kv=2, group=4)
NAMES = ["prompt_attention/int8/sm75", "prompt_attention/q4_0/sm75"]
MANY = 40


@dataclass
class Rows:
    """Stands for `Recomputed`: what each mode follows, and which cases are refused."""

    subject: Subject
    predictor: Any
    readings: dict[str, set[str]]
    wrong: set[int]
    refusals: list[Refusal] = field(default_factory=list)
    followed: set[str] | None = None
    rows: int = 0
    bounded: int = 0
    enclosed: int = 0

    def case(self, index: int) -> list[Refusal]:
        self.followed = self.readings[self.subject.pairs[index][0].mode]
        self.rows += 1
        found = [Refusal("numbers", f"case {index}")] if index in self.wrong else []
        self.refusals += found
        return found


def total(
    monkeypatch: pytest.MonkeyPatch, int8: set[str], q4_0: set[str], wrong: set[int] | None = None
) -> recompute.Total:
    made = {"int8": int8, "q4_0": q4_0}
    monkeypatch.setattr(
        recompute, "Recomputed", lambda subject, predictor, every: Rows(subject, predictor, made, wrong or set())
    )
    record = {"plan": {"profile": "quick", "seed": 1, "paths": NAMES}, "challenge": []}
    pairs = [(PATHS[name], CASE) for name in NAMES] * MANY
    subject = Subject(record, source_digests(), lambda paths, profile, seed: pairs)
    return recompute.recompute(subject, None, Console(quiet=True))


def test_readings_of_all_modes_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = total(monkeypatch, {"sm_75", "sm_75_block4"}, {"sm_75"})
    assert found.followed == frozenset({"sm_75"})
    assert (found.refusals, found.rows) == ((), 2 * MANY)
    apart = total(monkeypatch, {"sm_75_block4"}, {"sm_75"})
    assert [refusal.rule for refusal in apart.refusals] == ["bits"]


def test_refusals_stand_in_the_order_of_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    found = total(monkeypatch, {"sm_75"}, {"sm_75"}, {1, 2})
    assert [refusal.reason for refusal in found.refusals] == ["case 1", "case 2"]


def test_enough_refusals_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = total(monkeypatch, {"sm_75"}, {"sm_75"}, set(range(2 * MANY)))
    assert SHOWN <= len(found.refusals) < 2 * MANY
