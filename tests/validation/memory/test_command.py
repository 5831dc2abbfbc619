"""The commands refuse what they cannot do before they do anything, in one line that names the option."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.__main__ import COULD_NOT_RUN, main
from validation.memory import card_command


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
    said = refusal(capsys, "faults", "--operations", "lend")
    assert said.startswith("error: --operations 'lend': expected some of open, ")
