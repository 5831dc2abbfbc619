"""The command from its words to its exit status: 0 passed, 1 a verdict of failure, 2 could not run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import BuildError, ExecutorUnavailable, Image, Kernel
from tests.validation.check.fake import FILE, FakeExecutor, rows
from validation.__main__ import main
from validation.check import command, mutants
from validation.check.source_mutants import SourceMutant

CASE = "recipe=plain seed=1 rows=3 width=65"


def in_numpy(monkeypatch: pytest.MonkeyPatch, compute: Callable[..., None] = rows) -> None:
    """Lanes are the kernel in NumPy, which compiles nothing."""

    def opened(name: str, **options: Any) -> FakeExecutor:
        return FakeExecutor(compute)

    monkeypatch.setattr(command, "open_executor", opened)


def run_json(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "run.json").read_text()))


def test_a_right_kernel_passes_and_run_json_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_numpy(monkeypatch)
    assert main(["check", str(FILE), "--no-mutants", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    run = run_json(tmp_path)
    assert f"{run['planned']} of {run['planned']} planned cases passed" in said
    assert "left out by its author: subnormals (a product of a tiny number" in said
    assert (run["status"], run["passed"], run["verdict"]) == ("complete", True, "WITHIN_BOUND")
    assert len(run["cases"]) == run["planned"] == run["executed"]
    assert set(run["sources"]) == {"rows.py", "rows.cu", "product.cuh"}
    assert run["inputs"] == {"x": "+-2^-20..2^20", "weight": "+-2^-20..2^20"}
    assert run["mutants"] is None


def test_a_wrong_kernel_fails_with_the_command_of_each_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
        rows(x, weight, y, total, positive, width)
        y[:, -1] = 0

    in_numpy(monkeypatch, wrong)
    assert main(["check", str(FILE), "--executor", "lanes"]) == 1
    said = capsys.readouterr().out
    assert said.count("EXCEEDS rows signed_decades ") == 1
    assert "EXCEEDS rows signed_decades y bound: " in said
    assert re.search(r"EXCEEDS y bound: \d+ more, of .*plain, ", said)
    case = "recipe=signed_decades seed=1 rows=5 width=131"
    assert f"rerun: python -m validation check {FILE}:rows --executor lanes --flavor checked" in said
    assert f"--case '{case}'" in said
    assert "no faults are planted in the source: as it is it does not pass" in said
    assert main(["check", f"{FILE}:rows", "--executor", "lanes", "--case", case]) == 1


def test_ctrl_c_keeps_the_finished_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[int] = []

    def interrupted(*arguments: Any) -> None:
        done.append(1)
        if len(done) > 9:
            raise KeyboardInterrupt
        rows(*arguments)

    in_numpy(monkeypatch, interrupted)
    assert main(["check", str(FILE), "--out", str(tmp_path)]) == 1
    run = run_json(tmp_path)
    assert (run["status"], len(run["cases"])) == ("interrupted", 1)
    assert len(run["not_run"]) == run["planned"] - 1
    said = f"interrupted: 1 of {run['planned']} cases are finished, in {tmp_path / 'run.json'}"
    assert said in capsys.readouterr().out


def test_ctrl_c_keeps_the_finished_mutants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(loaded: Any, planned: Any, jobs: Any, rule: str, slowest: float, finished: Any) -> None:
        assert jobs
        finished(mutants.Trial(planned[0], "killed", "rules", "a race", CASE))
        raise KeyboardInterrupt

    in_numpy(monkeypatch)
    monkeypatch.setattr(mutants, "tried", interrupted)
    assert main(["check", str(FILE), "--executor", "lanes", "--mutants", "7", "--out", str(tmp_path)]) == 1
    run = run_json(tmp_path)
    assert (run["status"], run["passed"], len(run["cases"])) == ("interrupted", True, run["planned"])
    assert [trial["reason"] for trial in run["mutants"]["trials"]] == ["a race"]
    said = capsys.readouterr().out
    assert "1 of 1 mutants of the source were killed (6 not tried, " in said
    assert f"{run['planned']} cases and 1 of 7 mutants are finished, in {tmp_path / 'run.json'}" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "'none.py' is no file"),
        ([str(FILE), "--case", CASE, "--seed", "3"], "--case is a whole case, expected without --seed 3"),
        (
            [str(FILE), "--case", "recipe=plain"],
            "case: seed is missing, expected e.g. recipe=plain seed=1",
        ),
        ([str(FILE), "--executor", "lanes", "--target", "sm_90"], "--target is sm_90"),
    ],
)
def test_what_cannot_run_is_one_line_and_2(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_numpy(monkeypatch)
    assert main(["check", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_fault_in_a_function_of_the_author_is_2_with_its_line_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_numpy(monkeypatch)
    text = FILE.read_text().replace(
        '    y = inputs["x"] * inputs["weight"]\n',
        '    y = inputs["x"] * inputs["weight"]\n    assert len(y) == 5\n',
        1,
    )
    (tmp_path / "own.py").write_text(text)
    (tmp_path / "rows.cu").write_text("")
    line = text.splitlines().index("    assert len(y) == 5") + 1
    assert main(["check", str(tmp_path / "own.py"), "--no-mutants", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"error: own.py:{line}: reference of rows: AssertionError\n"
    run = run_json(tmp_path / "out")
    assert run["status"] == "failed"
    assert run["cases"]


def test_a_kernel_of_cupy_needs_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(name: str, **options: Any) -> FakeExecutor:
        raise ExecutorUnavailable("no NVIDIA driver here")

    monkeypatch.setattr(command, "open_executor", none)
    file = tmp_path / "own.py"
    file.write_text(FILE.read_text().replace('source="rows.cu"', "raw=lambda cupy: None"))
    assert main(["check", str(file)]) == 2
    said = "error: rows is a kernel of CuPy, which runs on a card alone: no NVIDIA driver here\n"
    assert capsys.readouterr().err == said
    assert main(["check", str(file), "--executor", "lanes"]) == 2
    assert capsys.readouterr().err.endswith("expected --executor cuda\n")


def planted(old: str, new: str, kind: str) -> SourceMutant:
    text = FILE.with_suffix(".cu").read_text()
    assert text.count(old) == 1
    first = text.index(old)
    line = text.count("\n", 0, first) + 1
    return SourceMutant(f"rows-{kind}", kind, "rows.cu", line, old, new, (first, first + len(old)), f"is it {kind}?")


def test_lanes_run_the_kernel_and_find_what_a_barrier_is_for_in_a_mutant_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [
        planted("  __syncthreads();\n", "\n", "barrier"),
        planted("float sum[1] = {0.0f}", "float sum[1] = {-0.0f + 0.0f}", "constant"),  # is 0.0f, and no fault
    ]
    monkeypatch.setattr(mutants, "chosen", lambda loaded, count: (faults, 5))
    words = ["check", str(FILE), "--executor", "lanes", "--case", CASE, "--mutants", "--out", str(tmp_path)]
    assert main(words) == 0
    trials = {trial["kind"]: trial for trial in run_json(tmp_path)["mutants"]["trials"]}
    assert (trials["barrier"]["fate"], trials["barrier"]["check"]) == ("killed", "rules")
    assert "rows.cu:29: shared byte 4 is read and nobody wrote it" in trials["barrier"]["reason"]
    assert trials["constant"]["fate"] == "same program"
    said = capsys.readouterr().out
    assert "1 of 1 mutants of the source were killed (1 compile to the same program, 3 more with --mutants all)" in said
    assert "killed by: rules 1" in said


def test_a_source_that_does_not_compile_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(self: FakeExecutor, kernel: Kernel) -> Image:
        raise BuildError("rows does not compile for lanes (checked): rows.cu:9:3: error: expected ';'")

    monkeypatch.setattr(FakeExecutor, "build", refuses)
    in_numpy(monkeypatch)
    assert main(["check", str(FILE), "--out", str(tmp_path)]) == 2
    assert "rows.cu:9:3: error: expected ';'\n" in capsys.readouterr().err
    assert run_json(tmp_path)["status"] == "failed"
