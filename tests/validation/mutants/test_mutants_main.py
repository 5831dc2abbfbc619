"""The command: which mutants it takes, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import StrataError
from validation.mutants import __main__ as command
from validation.mutants import published, trial
from validation.mutants.faults import table
from validation.mutants.mutant import Mutant, MutantError
from validation.mutants.trial import Kill, Outcome

NAMES = list(table())
NAME = "k8-halves-swapped"
KILL = Kill(("bound", "mean"), "EXCEEDS", "path case", "why")


@pytest.mark.parametrize(
    ("status", "kill", "code", "said"),
    [
        ("killed", KILL, 0, "1 mutants: 1 killed"),
        ("survived", None, 1, "SURVIVED: On sm75 each half"),
        ("error", None, 2, "ERROR: it cannot be"),
        ("device", None, 0, "1 need a device"),
    ],
)
def test_it_ends_with_what_came_of_it(
    status: str,
    kill: Kill | None,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    note = "it cannot be" if status == "error" else ""
    monkeypatch.setattr(command, "outcome", lambda mutant, executor: Outcome(mutant.name, status, kill, note=note))
    assert command.main([NAME, "--out", str(tmp_path)]) == code
    assert said in capsys.readouterr().out
    assert NAME in (tmp_path / "mutants.md").read_text()


def test_what_was_interrupted_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[str] = []

    def stop_at_second(mutant: Mutant, executor: str) -> Outcome:
        asked.append(mutant.name)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return Outcome(mutant.name, "killed", KILL)

    words = [*NAMES[:3], "--jobs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(command, "outcome", stop_at_second)
    assert command.main(words) == 1
    assert "interrupted: what is finished is kept" in capsys.readouterr().out
    assert command.main(words) == 0
    # The first was kept; the second and third ran again or for the first time.
    assert asked.count(NAMES[0]) == 1
    assert set(asked) == set(NAMES[:3])


@pytest.mark.parametrize("keeps", [False, True])
def test_any_error_reports_what_is_finished(
    keeps: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail_at_second(mutant: Mutant, executor: str) -> Outcome:
        if mutant.name == NAMES[1]:
            raise StrataError("the disk is full")
        return Outcome(mutant.name, "killed", KILL)

    monkeypatch.setattr(command, "outcome", fail_at_second)
    assert command.main([*NAMES[:2], "--jobs", "1", *(["--out", str(tmp_path)] if keeps else [])]) == 2
    shown = capsys.readouterr()
    assert shown.err == "error: the disk is full\n"
    assert NAMES[0] in shown.out
    assert "1 of 2 mutants" in shown.out
    assert ("the same command goes on" if keeps else "with --out DIR the same command would go on") in shown.out


def test_the_end_of_the_command_ends_its_trials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """SIGTERM reaches this process alone; a trial in a thread may take ten minutes. Later trials are not ended."""
    waiting = threading.Event()

    def outcome(mutant: Mutant, executor: str) -> Outcome:
        if mutant.name == NAMES[1]:
            waiting.wait()
            raise KeyboardInterrupt
        with pytest.raises(MutantError):
            trial._cases(tmp_path, "waits", "", (), "", 1)
        return Outcome(mutant.name, "error")

    real = subprocess.Popen

    def started(words: list[str], **options: Any) -> Any:
        waiting.set()  # before it is there or afterwards: both must do
        return real([sys.executable, "-c", "import time; time.sleep(600)"], **options)

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(command, "outcome", outcome)
    assert command.main([*NAMES[:2], "--jobs", "2"]) == 1
    assert not trial._running
    monkeypatch.setattr(subprocess, "Popen", real)
    assert trial._python(tmp_path, "later", ["-c", "import time; time.sleep(0.1)"]).returncode == 0


def test_an_unknown_mutant_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["nobody"]) == 2
    assert "no mutant is called 'nobody'; see `python -m validation.mutants --list`" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--jobs", "0"], ["--sample", "0"]])
def test_numbers_that_cannot_be_are_said(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(words)
    assert caught.value.code == 2
    assert f"argument {words[0]}: '0': expected a whole number of 1 " in capsys.readouterr().err


def test_the_list_runs_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "outcome", None)
    assert command.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(NAMES)


def test_a_sample_is_of_mutants_that_the_matrix_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And `--missing` takes the others."""
    monkeypatch.setattr(published, "with_row", lambda *_: frozenset(NAMES[5:9]))
    assert command.main(["--list", "--sample", "9"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == NAMES[5:9]
    assert command.main(["--list", "--missing", *NAMES[3:7]]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == NAMES[3:5]


def test_rows_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Outcome] = []
    monkeypatch.setattr(command, "outcome", lambda mutant, executor: Outcome(mutant.name, "killed", KILL))
    monkeypatch.setattr(published, "publish", lambda outcomes, known: seen.extend(outcomes))
    assert command.main([*NAMES[:2]]) == 0
    assert not seen
    assert command.main([*NAMES[:2], "--publish"]) == 0
    assert [one.name for one in seen] == NAMES[:2]
