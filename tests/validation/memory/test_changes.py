"""Changes of phase by the thousand: what a run reports when all is well, and when something is not."""

from __future__ import annotations

import json

import pytest

from strata.memory.arena.pieces import MiB
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.fault_plan import Corrupt
from validation.memory.changes import Report as Outcome
from validation.memory.changes import alias_changes, main, run
from validation.memory.loan_engine import SMALL


def driver() -> FakeDriver:
    return FakeDriver(FakeCard(512 * MiB), 64 << 10)


def test_a_sound_run_leaves_nothing() -> None:
    made = driver()
    assert run(made, SMALL, 3).problems == []
    assert (made.live_handles(), made.mapped, made.reservations, made.misuse) == ({}, {}, {}, [])


def test_what_a_run_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--changes", "1"]) == 0
    assert "1 changes of each kind, all as expected" in capsys.readouterr().out
    assert main(["--changes", "1", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["problems"] == []
    assert set(value["median_ms"]) == {"alias enter", "alias leave", "loan begin", "loan end"}


def test_a_wrong_byte_in_a_slot_is_reported() -> None:
    """The default verification looks at some slots only; the run compares every byte."""
    made = driver()
    fills = sum(1 for _ in range(SMALL.slots))
    made.plan.nth("copy_in", fills + 30, Corrupt(1000, 1))
    report = Outcome()
    alias_changes(made, SMALL, 1, report)
    assert len(report.problems) == 1
    assert "I1 expert" in report.problems[0]


def test_memory_that_goes_missing_is_reported() -> None:
    made = driver()
    made.plan.when(lambda call: call.name == "map" and made.card.take("a leak", 64 << 10) is None, Corrupt())
    report = Outcome()
    alias_changes(made, SMALL, 1, report)
    assert any("in DECODE" in line for line in report.problems)
