"""Controls of whole runs: a run that becomes green without its cases is told."""

from __future__ import annotations

import pytest

from validation.controls import runs
from validation.core.control import answers
from validation.core.verdict import Verdict
from validation.ledger.whole_run import WholeRun
from validation.run import plan_request, runner


def wrong() -> set[str]:
    return {answer.name for answer in answers(runs.run_level()) if not answer.right}


def test_runs_come_to_what_they_must() -> None:
    assert wrong() == set()
    assert {row[5] for row in runs.RUNS} == {0, 1}


def test_a_run_that_always_passes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholeRun, "passed", property(lambda self: True))
    beside = {"run/a family of the ledger moved", "run/nothing was held against the ledger", "run/two readings"}
    assert wrong() == {f"run/{row[0]}" for row in runs.RUNS if row[5] == 1} | beside


def test_a_run_without_cases_or_with_fewer_than_planned_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        WholeRun, "passed", property(lambda self: all(Verdict(result["verdict"]).passes for result in self.results))
    )
    assert {"run/no planned case", "run/fewer executed than planned", "run/a control failed"} <= wrong()


def test_an_exit_that_is_always_0_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholeRun, "status", 0)
    assert "run/EXCEEDS last" in wrong()


def test_a_runner_that_skips_jobs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = runner.run_jobs
    monkeypatch.setattr(runner, "run_jobs", lambda jobs, *rest, **named: plain(jobs[:1], *rest, **named))
    assert wrong() == {"run/every job is run"}


def test_a_seed_that_is_not_passed_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = plan_request.plan_entries

    def fixed(options: object, paths: object) -> object:
        options.seed = 1  # type: ignore[attr-defined]
        return plain(options, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "plan_entries", fixed)
    assert wrong() == {"run/a planned seed"}
