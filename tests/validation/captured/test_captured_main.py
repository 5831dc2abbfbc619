"""The command: exit status, one line for an error, a plain line for each stage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.validation.captured.facts import METADATA as FACTS
from validation.captured import __main__ as command
from validation.captured.archive import Capture, CaptureError, LayerCapture, save
from validation.captured.forward import Progress

METADATA = replace(FACTS, tokens=2, layers=(5,))
RESULT = Capture({5: LayerCapture(*(np.ones((2, heads, 8), np.float32) for heads in (4, 1, 1)))}, METADATA)


def test_a_capture_is_made_and_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(tokens: int, layers: Sequence[int], out: Path, progress: Progress) -> Capture:
        assert (tokens, layers) == (300, (5,))
        for done in range(4):
            progress("layers", done, 3)
        save(RESULT, out)
        return RESULT

    monkeypatch.setattr(command, "capture", make)
    assert command.main(["--tokens", "300", "--layers", "5", "--out", str(tmp_path / "x.npz")]) == 0
    made = capsys.readouterr().out
    assert re.search(r"^layers: 3 of 3, \d+\.\d s$", made, re.M)
    assert "2.5000 per token" in made
    assert METADATA.text_sha256 in made
    assert command.main(["--show", str(tmp_path / "x.npz")]) == 0
    assert capsys.readouterr().out == made.split("\n", 1)[1]


def test_what_a_capture_says_of_itself_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "[red]:bomb:\nloss    0.0000 per token\x1b[2J"
    save(replace(RESULT, metadata=replace(METADATA, text_source=hostile)), tmp_path / "x.npz")
    assert command.main(["--show", str(tmp_path / "x.npz")]) == 0
    said = capsys.readouterr().out
    assert "tokens of [red]:bomb:\\u000aloss    0.0000 per token\\u001b[2J\n" in said


@pytest.mark.parametrize(
    ("raised", "status", "line"),
    [
        (CaptureError("tokens is [0]; expected more"), 2, "error: tokens is [0]; expected more\n"),
        (KeyboardInterrupt(), 130, "interrupted: a capture is written whole or not at all\n"),
    ],
)
def test_failures_end_in_one_line(
    raised: BaseException, status: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Capture:
        raise raised

    monkeypatch.setattr(command, "capture", fail)
    assert command.main(["--out", "x.npz"]) == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("arguments", [[], ["--out", "x", "--show", "y"], ["--layers", "a", "--out", "x"]])
def test_bad_arguments_exit_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
