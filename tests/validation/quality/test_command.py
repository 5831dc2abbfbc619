"""The command with subjects in the engine's place: parts, files, statuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from strata.executors.base import StrataError
from strata.terminal import Terminal
from tests.validation.quality.conftest import Fake
from validation.__main__ import parser
from validation.core.verdict import Verdict
from validation.quality import command, published, run_needles, texts
from validation.quality.fp64_file import Fp64File
from validation.quality.fp64_model import Fp64Model
from validation.quality.model_file import write_small
from validation.quality.outcome import Outcome
from validation.quality.page import page
from validation.quality.planted import Planted
from validation.quality.published import Published
from validation.quality.setting import ALL, Setting, parse
from validation.run.run_file import QUALITY_SCHEMA

WORDS = ("--prompts", "14", "--length", "3", "--continued", "1", "--tokens", "5", "--settings", "q4_0/tensor")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    write_small(path)
    return path


@pytest.fixture
def run(file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs the command with fakes: `change` makes of each fake what a test is about."""
    models: dict[Path, Fp64Model] = {}

    def started(*words: str, change: Callable[[Fake], Fake] = lambda one: one) -> tuple[int, str]:
        class Subject(Fake):
            def __init__(self, path: Path, setting: Setting, executor: str, context: int, gate: Any = None) -> None:
                exact = models.setdefault(path, Fp64Model(Fp64File(path)))
                fake = change(Fake(str(setting), exact, setting.kv, served=[f"{setting.operation}, {gate is None}"]))
                super().__init__(**vars(fake))

            def __enter__(self) -> Subject:
                return self

            def __exit__(self, *error: object) -> None:
                return None

        monkeypatch.setattr(command, "EngineSubject", Subject)
        monkeypatch.setattr(run_needles, "EngineSubject", Subject)
        monkeypatch.setattr(command, "place", lambda name: ("lanes", {"executor": "lanes"}))
        monkeypatch.setattr(published, "losses", lambda *_: Published(absent="not here; pip install it"))
        options = parser().parse_args(["quality", "--model", str(file), *WORDS, *words])
        console: Console = Terminal(width=140)
        with console.capture() as captured:
            status = command.run(options, console)
        return status, captured.get()

    return started


def test_a_run_of_gate_and_loss(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    status, said = run("gate", "loss", "--out", str(tmp_path))
    assert status == 0
    kept = json.loads((tmp_path / "run.json").read_text())
    assert (kept["schema"], kept["status"]) == (QUALITY_SCHEMA, "complete")
    assert kept["verdicts"] == {"gate": "WITHIN_BOUND", "loss": "WITHIN_BOUND"}
    assert (kept["gate"]["a"], kept["gate"]["b"]) == ("fp16/baseline", "q4_0/tensor")
    assert len(kept["gate"]["limit"]) == 14
    assert [row["name"] for row in kept["loss"]["rows"]] == ["exact", "q4_0", "q4_0/tensor", "published runtime"]
    assert kept["loss"]["rows"][0]["to_exact"]["mean"] == 0
    assert set(kept["text_sha256"]) == {"gate", "loss"}
    assert "package" not in kept
    assert "absent: not here; pip install it" in said
    shown = (tmp_path / "quality.html").read_text()
    assert "All parts passed: gate, loss." in shown
    assert "<script" not in shown


def test_a_wrong_kernel_is_a_status_of_one(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    def change(one: Fake) -> Fake:
        return replace(one, wrong=1.0) if one.name == "q4_0/tensor" else one

    status, said = run("gate", "--out", str(tmp_path), change=change)
    assert status == 1
    assert "EXCEEDS: 14 of 14 prompts exceed their limits, 13 may" in said
    assert "1 of 1 parts did not pass" in (tmp_path / "quality.html").read_text()


def test_a_run_that_breaks_off_keeps_what_is_finished(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(texts, "tokens", interrupted)
    status, said = run("gate", "loss", "--out", str(tmp_path))
    assert status == 1
    kept = json.loads((tmp_path / "run.json").read_text())
    assert kept["status"] == "interrupted"
    assert kept["gate"]["verdict"] == "WITHIN_BOUND"
    assert kept["loss"] is None
    assert "1 of 2 parts are finished" in said


def test_needles(run: Callable[..., tuple[int, str]]) -> None:
    status, said = run("needles", "--lengths", "32", "--ungated", "--settings", "fp16/tensor")
    assert status == 0
    assert "fp16/tensor  5 of 5" in said


@pytest.mark.parametrize("words", [["--prompts", "13"], ["nothing"], ["--continued", "-1"]])
def test_options_that_cannot_be(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(["quality", *words])


def test_settings() -> None:
    assert parse("k8v4/baseline") == Setting("k8v4", "baseline")
    assert {str(one) for one in ALL} >= {"fp16/tensor", "q4_0/baseline"}
    assert parse("q4_0/tensor").switches == {}
    assert parse("q4_0/baseline").switches == {"STRATA_PROMPT_ATTN_OLD": "1"}
    for text in ("q4_0", "q4_0/", "q5_0/tensor", "q4_0/tensor/x", ""):
        with pytest.raises(StrataError, match="expected one of fp16, int8, k8v4, q4_0, a slash, baseline or tensor"):
            parse(text)


def test_nothing_is_no_pass_and_text_is_text() -> None:
    assert not Outcome().passes
    assert "Nothing was run" in page(Outcome(), {})
    one = Planted("fault", "<b>why</b>", Verdict.WITHIN_BOUND, "2 of 14 & so on", 3, 15)
    shown = page(Outcome(planted=[one]), {"command": "<script>"})
    assert "&lt;b&gt;why" in shown
    assert "<script" not in shown
    assert Outcome(planted=[one]).verdicts == {"planted": Verdict.EXCEEDS}
