"""The commands refuse what they cannot do before they do anything, in one line that names the option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from validation.__main__ import COULD_NOT_RUN, main
from validation.memory import card_command, faults_command
from validation.memory.exhaustive import Findings
from validation.memory.world import KINDS


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["memory", *words]) == COULD_NOT_RUN
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(card_command, "fake_world", lambda: pytest.fail("the run has begun"))
    file = tmp_path / "none" / "x.json"
    said = refusal(capsys, "card", "--fake", "--out", str(file))
    assert said == f"error: --out {str(file)!r} cannot be written: No such file or directory\n"
    assert refusal(capsys, "card", "--fake", "--out", str(tmp_path)).endswith("cannot be written: Is a directory\n")


def test_an_operation_of_faults_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for globs in (["lend"], ["LEND", "lend"], ["lend", "LEND*"]):
        said = refusal(capsys, "faults", "--operations", *globs)
        assert said.startswith("error: --operations 'lend': expected some of open, ")


def test_what_an_interrupt_left_of_faults_is_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as it is printed, it examines every operation that was not finished, and no other."""
    examined: list[tuple[str, str]] = []
    ending = ["once"]

    def one(part: tuple[str, str], codes: object) -> Findings:
        if ending and len(examined) == 1 + len(KINDS):
            ending.clear()
            raise KeyboardInterrupt
        examined.append(part)
        return Findings()

    monkeypatch.setattr(faults_command, "_one", one)
    monkeypatch.setattr(faults_command, "_wrong_bytes", lambda globs, console: 0)
    assert main(["memory", "faults", "--operations", "shrink", "leave *"]) == 1
    (left,) = re.findall(r"the rest: (.*)", capsys.readouterr().out)
    assert left == "--operations 'leave prompt' 'leave alias'"
    examined.clear()
    assert main(["memory", "faults", *shlex.split(left)]) == 0
    assert examined == [(name, kind) for name in ("leave prompt", "leave alias") for kind in KINDS]
