"""The command: exit status is the verdict, one clear line when it cannot run, run.json after every case."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor, ExecutorUnavailable
from tests.validation.stub import StubCard, StubExecutor, healthy, kernel, no_ledger, proved
from validation.__main__ import main
from validation.controls import self_test
from validation.core.verdict import Check, Verdict
from validation.ledger import ledger
from validation.ledger.whole_run import WholeRun
from validation.operations.attention import gates
from validation.operations.attention.kernels import Operation
from validation.operations.attention.operation import under_test
from validation.operations.attention.pools import Inputs
from validation.parity import command as parity
from validation.run import owner
from validation.run.executors import ExecutorPool
from validation.run.run_file import RunFile
from validation.run.runner import run_jobs

LOAD = ledger.load
PROVE = self_test.prove
ONE = "recipe=uniform seed=1 context=40 queries=2"


class Bench:
    """Puts stand-ins where the command would open executors and run kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.card = self.compiler = False
        self.operations: dict[str, Operation] = healthy()
        self._patch = monkeypatch
        monkeypatch.setattr(parity, "ExecutorPool", partial(ExecutorPool, open=self.open))
        monkeypatch.setattr(parity, "run_jobs", self.run_jobs)
        monkeypatch.setattr(parity, "Prebuild", _NoBuild)
        no_ledger(monkeypatch)
        monkeypatch.setattr(self_test, "prove", proved)
        self.compiler = True

    def asks_controls(self, group: str) -> None:
        """From now on every run asks those of a group, as the command asks all."""
        self._patch.setattr(self_test, "prove", partial(PROVE, {group: self_test.GROUPS[group]}))

    def run_jobs(self, *arguments: Any, **named: Any) -> Any:
        return run_jobs(*arguments, **(named | {"operations": under_test(self.operations)}))

    def open(self, name: str, **options: Any) -> Executor:
        if name == "cuda" or (name == "auto" and self.card):
            if not self.card:
                raise ExecutorUnavailable("no CUDA device")
            return StubCard()
        if not self.compiler:
            raise ExecutorUnavailable("no C++ compiler")
        return StubExecutor()


class _NoBuild:
    def __init__(self, *arguments: object) -> None: ...

    def __enter__(self) -> _NoBuild:
        return self

    def __exit__(self, *arguments: object) -> None: ...

    def wait(self, job: object, executors: object) -> object:
        return executors


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def flipped(out: np.ndarray, inputs: Inputs) -> np.ndarray:
    out[0, 3] *= -1
    return out


def run(*words: str) -> int:
    return main(["parity", *words])


def record(directory: Path) -> dict[str, Any]:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    got: dict[str, Any] = json.loads((directory / "run.json").read_text(), parse_constant=refuse)
    return got


def test_a_pass_exits_0_and_is_recorded(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--case", ONE, "--out", str(tmp_path)) == 0
    got = record(tmp_path)
    assert got["status"] == "complete"
    assert got["passed"] is True
    assert got["planned"] == got["executed"] == len(got["cases"]) == 8
    assert got["verdicts"]["WITHIN_BOUND"] == 8
    assert got["not_run"] == []
    assert "prompt_attention/prompt" not in got["sources"]
    assert len(got["sources"]["prompt_attention.cu"]) == 64
    shown = capsys.readouterr().out
    assert "8 of 8 planned cases passed" in shown
    assert "prompt_attention/k8v4/sm80" in shown


def test_a_failure_exits_1_with_its_rerun(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.operations = healthy(prompt_attention=kernel(flipped))
    assert run("--case", ONE, "--paths", "*/q4_0/sm75", "--out", str(tmp_path)) == 1
    got = record(tmp_path)
    assert got["passed"] is False
    assert got["verdicts"]["EXCEEDS"] == 1
    assert got["cases"][0]["rerun"] in capsys.readouterr().out


def test_ctrl_c_keeps_the_finished_cases(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = iter(range(99))

    def interrupt(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if next(count) >= 4:  # two runs a case
            raise KeyboardInterrupt
        return out

    bench.operations = healthy(prompt_attention=kernel(interrupt))
    assert run("--case", ONE, "--out", str(tmp_path)) == 1
    got = record(tmp_path)
    assert got["status"] == "interrupted"
    assert got["passed"] is False
    assert got["executed"] == 2
    assert len(got["not_run"]) == 6
    assert "interrupted" in capsys.readouterr().out


def test_run_json_names_its_process(bench: Bench, tmp_path: Path) -> None:
    assert run("--case", ONE, "--out", str(tmp_path)) == 0
    assert record(tmp_path)["process"] == owner.this()


def test_run_json_exists_after_every_case(bench: Bench, tmp_path: Path) -> None:
    seen: list[int] = []

    def look(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        got = record(tmp_path)
        assert got["status"] == "running"
        seen.append(got["executed"])
        return out

    bench.operations = healthy(prompt_attention=kernel(look))
    assert run("--case", ONE, "--out", str(tmp_path)) == 0
    assert seen == [case for case in range(8) for _ in range(2)]


def test_a_crash_in_a_case_is_that_case_alone(bench: Bench, tmp_path: Path) -> None:
    count = iter(range(99))

    def crash(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if next(count) == 2:
            raise ZeroDivisionError
        return out

    bench.operations = healthy(prompt_attention=kernel(crash))
    assert run("--case", ONE, "--out", str(tmp_path)) == 1
    got = record(tmp_path)
    assert (got["status"], got["passed"]) == ("complete", False)
    assert (got["verdicts"]["NOT_RUN"], got["verdicts"]["WITHIN_BOUND"]) == (1, 7)
    (case,) = [case for case in got["cases"] if case["verdict"] == "NOT_RUN"]
    assert "unforeseen ZeroDivisionError at tests/validation/parity/test_command.py:" in case["explain"]


def test_a_crash_of_the_harness_is_no_verdict(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish, count = parity._finish, iter(range(99))

    def crash(*arguments: Any) -> None:
        if next(count) == 3:
            raise ZeroDivisionError
        finish(*arguments)

    monkeypatch.setattr(parity, "_finish", crash)
    assert run("--case", ONE, "--out", str(tmp_path)) == 2
    got = record(tmp_path)
    assert (got["status"], got["passed"], len(got["cases"]), len(got["not_run"])) == ("failed", False, 3, 5)
    shown = capsys.readouterr()
    assert f"3 of 8 cases are finished, in {tmp_path}" in " ".join(shown.out.split())
    assert shown.err.startswith("error: unforeseen ZeroDivisionError at tests/validation/parity/test_command.py:")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--paths", "prompt_attention/q4_1/sm75"], "nearest is 'prompt_attention/q4_0/sm75'"),
        (["--paths", ""], "no path matches ''"),
        (["--context", "0"], "--context is 0, expected at least 1"),
        (["--queries", "4"], "--context is not given"),
        (["--context", "8", "--queries", "0"], "--queries is 0, expected 1 to the context of 8"),
        (["--context", "8", "--queries", "9"], "--queries is 9, expected 1 to the context of 8"),
        (["--recipe", "unifrom"], "nearest is 'uniform'"),
        (["--recipe", "captured"], "--capture"),
        (["--recipe", "pack_bell"], "expected recipes of prompt_attention"),
        (["--case", "recipe=uniform"], "seed is missing"),
        (["--case", ONE, "--context", "4"], "--case is a whole case, expected without --context 4"),
        (["--case", ONE, "--queries", "0"], "expected without --queries 0"),
        (["--case", ONE, "--recipe", "flat"], "expected without --recipe flat"),
        (["--case", ONE, "--seed", "1"], "expected without --seed 1"),
        (["--case", ONE, "--profile", "quick"], "expected without --profile quick"),
        (["--case", ONE, "--target", "sm_75"], "--target is sm_75, an image for a card; expected none where lanes run"),
        (["--case", "recipe=unifrom seed=1 context=4 queries=1"], "nearest is 'uniform'"),
        (["--executor", "cuda"], "no CUDA device"),
        (["--capture", "/nonexistent/capture.npz"], "/nonexistent/capture.npz"),
        (["--out", "/proc/nowhere"], "cannot write to the directory"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(
    bench: Bench, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


def test_no_compiler_and_no_card_is_exit_2(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.compiler = False
    assert run("--case", ONE) == 2
    assert "no C++ compiler" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--profile", "huge"],
        ["--context", "many"],
        ["--seed", "-1"],
        ["--reps", "x"],
        ["--context", "1_0"],
        ["--seed", "\u0663"],
        ["--out", ""],
        ["--record", ""],
        ["--capture", " "],
        ["--target", ""],
        ["--rule", ""],
        ["--schedule-seed", str(1 << 63)],
        ["--reps", "10001"],
        ["--seed", "9" * 5000],
    ],
)
def test_bad_options_are_exit_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == 2


@pytest.mark.parametrize("words", [["--rule", "sm_80"], ["--flavor", "fast"], ["--schedule-seed", "0"]])
def test_options_of_lanes_are_refused_on_a_card(
    bench: Bench, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They used to be read and forgotten."""
    bench.card = True
    assert run("--case", ONE, *words) == 2
    assert f"{' is '.join(words)}, " in capsys.readouterr().err
    assert run("--case", ONE) == 0


def test_two_runs_do_not_share_a_directory(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While one lives the other is refused, and nothing of the first is lost; afterwards the first is replaced, and the
    second says so."""
    living = RunFile(tmp_path)
    living.write({"status": "running"})
    assert run("--case", ONE, "--out", str(tmp_path)) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "another run is writing there now" in shown.err
    assert record(tmp_path) == {"status": "running"}
    living.close()
    assert run("--case", ONE, "--out", str(tmp_path)) == 0
    assert (
        f"{tmp_path / 'run.json'}: the file of an earlier run that never ended is replaced" in capsys.readouterr().out
    )
    assert run("--case", ONE, "--out", str(tmp_path)) == 0
    assert "the file of an earlier run with status 'complete' is replaced" in capsys.readouterr().out


def test_sizes_run_one_case_on_each_path(bench: Bench, tmp_path: Path) -> None:
    assert run("--context", "90", "--queries", "3", "--out", str(tmp_path)) == 0
    got = record(tmp_path)
    assert {case["case"] for case in got["cases"]} == {
        "recipe=signed_decades seed=1 context=90 queries=3 page=4 kv=2 group=12 top=2051"
    }
    assert got["planned"] == 8
    assert (
        run("--context", "5", "--recipe", "flat", "--seed", "9", "--paths", "*/fp16/sm75", "--out", str(tmp_path)) == 0
    )
    assert record(tmp_path)["cases"][0]["case"].startswith("recipe=flat seed=9 context=5 queries=5 ")


@pytest.mark.parametrize(
    ("words", "compiler", "predict"),
    [
        (["--profile", "quick", "--recipe", "flat"], True, "sample"),
        (["--profile", "quick", "--recipe", "flat"], False, "none"),
        (["--profile", "standard", "--recipe", "far"], True, "none"),  # its smallest
        (["--context", "40", "--queries", "2"], True, "none"),
        (["--context", "40", "--queries", "2", "--predict", "all"], True, "all"),
    ],
)
def test_when_bits_are_predicted(bench: Bench, tmp_path: Path, words: list[str], compiler: bool, predict: str) -> None:
    bench.card, bench.compiler = True, compiler
    assert run(*words, "--paths", "*/fp16/sm75", "--out", str(tmp_path)) == 0
    got = record(tmp_path)
    assert got["predict"] == predict
    names = {check["name"] for case in got["cases"] for check in case["checks"]}
    assert ("prediction" in names) == (predict != "none")
    reruns = {case["rerun"] for case in got["cases"]}
    assert all((f"--predict {predict}" in rerun) == (predict != "none") for rerun in reruns)


def test_a_prediction_that_cannot_be_made_is_told_before_anything_runs(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.card, bench.compiler = True, False
    assert run("--case", ONE, "--predict", "all") == 2
    assert "no C++ compiler" in capsys.readouterr().err


def test_a_rerun_runs_the_same_case(bench: Bench, tmp_path: Path) -> None:
    import shlex

    assert run("--profile", "quick", "--recipe", "shuffled", "--paths", "*/int8/sm80", "--out", str(tmp_path)) == 0
    first = record(tmp_path)["cases"][0]
    words = shlex.split(first["rerun"])
    assert words[:4] == ["python", "-m", "validation", "parity"]
    assert run(*words[4:], "--out", str(tmp_path)) == 0
    again = record(tmp_path)
    assert [case["case"] for case in again["cases"]] == [first["case"]]
    assert again["cases"][0]["rerun"] == first["rerun"]
    assert again["cases"][0]["figures"] == first["figures"]


@pytest.mark.parametrize("words", [("--profile", "quick", "--recipe", "shuffled"), ("--case", ONE)])
def test_the_printed_rerun_of_a_failure_reproduces_its_verdict(
    bench: Bench, tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    bench.operations = healthy(prompt_attention=kernel(flipped))
    assert run(*words, "--paths", "*/int8/sm80", "--out", str(tmp_path)) == 1
    (first,) = record(tmp_path)["cases"]
    (line,) = {line for line in capsys.readouterr().out.splitlines() if line.startswith("EXCEEDS ")}
    command = line.partition(" | rerun: ")[2]
    assert shlex.split(command)[:4] == ["python", "-m", "validation", "parity"]
    # As it stands, without another word, and then once more for the record.
    assert run(*shlex.split(command)[4:]) == 1
    assert {said for said in capsys.readouterr().out.splitlines() if said.startswith("EXCEEDS ")} == {line}
    assert run(*shlex.split(command)[4:], "--out", str(tmp_path)) == 1
    (again,) = record(tmp_path)["cases"]
    for key in ("case", "path", "verdict", "explain", "checks", "figures"):
        assert again[key] == first[key]


def test_seed_and_profile_have_their_defaults(bench: Bench, tmp_path: Path) -> None:
    assert run("--recipe", "flat", "--paths", "*/fp16/sm75", "--out", str(tmp_path)) == 0
    plain = record(tmp_path)["cases"]
    given = ("--seed", "1", "--profile", "quick")
    assert run("--recipe", "flat", "--paths", "*/fp16/sm75", *given, "--out", str(tmp_path)) == 0
    assert [case["case"] for case in record(tmp_path)["cases"]] == [case["case"] for case in plain]
    assert plain[0]["case"].startswith("recipe=flat seed=1 context=211 ")


@pytest.mark.parametrize(("command", "shown"), [("paths", "prompt_attention/k8v4/sm75"), ("recipes", "signed_decades")])
def test_lists(command: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 0
    assert shown in capsys.readouterr().out


def test_controls_are_asked_and_recorded(bench: Bench, tmp_path: Path) -> None:
    assert run("--case", ONE, "--paths", "*/fp16/sm75", "--out", str(tmp_path)) == 0
    got = record(tmp_path)
    assert got["controls"] == len(self_test.flat(proved())) > 500
    assert got["failed"] == []
    assert got["verdict"] == "WITHIN_BOUND"


def test_a_control_that_fails_voids_the_run_before_any_case(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.asks_controls("gates")
    monkeypatch.setattr(
        gates, "baseline_within_bound", lambda old, truth: Check("baseline bound", Verdict.WITHIN_BOUND)
    )
    assert run("--case", ONE, "--out", str(tmp_path)) == 1
    got = record(tmp_path)
    assert (got["status"], got["passed"], got["verdict"], got["executed"]) == ("complete", False, "VOID", 0)
    line = "control anchor/flipped: got WITHIN_BOUND, expected EXCEEDS"
    assert line in got["failed"]
    assert len(got["not_run"]) == got["planned"] == 8
    shown = capsys.readouterr().out
    assert line in shown
    assert "VOID: the harness fails its own controls" in shown
    assert "passed" not in shown


def test_no_controls_void_the_run(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "prove", dict)
    assert run("--case", ONE, "--out", str(tmp_path)) == 1
    assert record(tmp_path)["failed"] == ["control controls: got none, expected controls"]


def test_no_planned_case_is_no_pass() -> None:
    make: Callable[..., WholeRun] = WholeRun
    assert not make([], [], None, None, None).passed


FLAT = ("--profile", "quick", "--recipe", "flat", "--paths", "*/fp16/sm75", "--predict", "none")


@pytest.fixture
def kept(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger that holds what a stub card's run of FLAT gave."""
    bench.card = True
    assert run(*FLAT, "--out", str(tmp_path)) == 0
    file = tmp_path / "ledger.json"
    ledger.save(ledger.Ledger(), file)
    monkeypatch.setattr(ledger, "FILE", file)
    monkeypatch.setattr(ledger, "load", LOAD)
    assert main(["ledger", "--accept", str(tmp_path / "run.json"), "--reason", "first"]) == 0
    return file


def test_a_run_like_the_ledgers_passes(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FLAT, "--out", str(tmp_path)) == 0
    assert record(tmp_path)["ledger"]["families"] == 1
    shown = capsys.readouterr().out
    assert "ledger: 1 families unmoved" in shown
    assert "median observed/bound" in shown


@pytest.mark.parametrize("step", [2.0, 0.5])
def test_drift_fails_a_run_whose_cases_passed(
    kept: Path, tmp_path: Path, step: float, capsys: pytest.CaptureFixture[str]
) -> None:
    held = ledger.load()
    moved = {
        place: {key: replace(one, figures={k: v * step for k, v in one.figures.items()}) for key, one in part.items()}
        for place, part in held.sections.items()
    }
    ledger.save(ledger.Ledger(moved, held.history))
    assert run(*FLAT, "--out", str(tmp_path)) == 1
    got = record(tmp_path)
    assert got["passed"] is False
    assert got["verdicts"]["WITHIN_BOUND"] == got["planned"]
    assert got["ledger"]["ok"] is False
    shown = capsys.readouterr().out
    assert f"ledger --accept {tmp_path / 'run.json'} --reason TEXT" in shown
    # Accepting that run, whose cases passed, is what ends it.
    assert main(["ledger", "--accept", str(tmp_path / "run.json"), "--reason", "tried"]) == 0
    assert run(*FLAT) == 0


def test_a_family_that_is_not_in_the_ledger_fails(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["shuffled" if word == "flat" else word for word in FLAT]
    assert run(*words) == 1
    assert "the ledger has no figures of these cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [("--case", ONE, "--predict", "none"), (*FLAT, "--seed", "2"), ("--context", "9", "--queries", "2")],
)
def test_other_runs_are_not_compared_and_say_so(
    kept: Path, tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, "--out", str(tmp_path)) == 0
    assert "ledger: not compared" in capsys.readouterr().out
    assert record(tmp_path)["ledger"]["families"] == 0
