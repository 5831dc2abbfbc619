"""The soak command: a planted fault is an alarm, Ctrl-C keeps what is finished, processes give what one does."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import Executor, ExecutorUnavailable, StrataError
from tests.validation.stub import StubExecutor
from validation.__main__ import main, parser
from validation.host import whole_file
from validation.operations.kv_pack.case import Case
from validation.operations.registry import parse
from validation.run import owner
from validation.soak import command as soak
from validation.soak import plan as soak_plan
from validation.soak.tally import Finished, Tally

Change = Callable[[dict[str, Any]], None]


def result(case: Case, path: Any, change: Change | None = None) -> dict[str, Any]:
    """What run_case gives for a healthy run, and what `change` makes of it."""
    check = {"name": "bound", "verdict": "WITHIN_BOUND", "reason": "", "figures": {"slack": 0.125}}
    made = {
        "path": path.name,
        "case": case.text(),
        "verdict": "WITHIN_BOUND",
        "explain": "",
        "checks": [check],
        "seconds": {"new": 0.5},
    }
    if change:
        change(made)
    return made


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, Change]], None]:
    """Puts results in the place of runs; the argument says which runs end otherwise."""

    def install(changes: dict[int, Change]) -> None:
        by_seed = {soak_plan.job(1, index).case.seed: change for index, change in changes.items()}

        def run_case(case: Case, path: Any, executor: Executor, settings: Any) -> dict[str, Any]:
            assert settings.repeat_executor is not executor
            return result(case, path, by_seed.get(case.seed))

        def opened(name: str, **options: Any) -> Executor:
            return StubExecutor()

        monkeypatch.setattr(soak, "run_case", run_case)
        monkeypatch.setattr(soak, "_one_thread", opened)
        monkeypatch.setattr(soak, "_prebuild", lambda *_: 0)

    return install


def run(*words: str, out: Path | None = None) -> int:
    return main(["soak", "--jobs", "1", *words, *(["--out", str(out)] if out else [])])


def record(directory: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((directory / soak.NAME).read_text())
    return held


def test_healthy_runs_pass(stand_in: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in({})
    assert run("--runs", "30", out=tmp_path) == 0
    got = record(tmp_path)
    assert (got["status"], got["finished"], got["alarms"]) == ("complete", 30, [])
    assert got["verdicts"] == {"WITHIN_BOUND": 30}
    assert got["worst"]["bound"]["slack"] == 0.125
    assert got["seconds_by_part"]["new"] == 15.0
    assert "30 runs (30 WITHIN_BOUND), 0 false alarms" in capsys.readouterr().out


@pytest.mark.parametrize("verdict", ["EXCEEDS", "VOID", "NOT_RUN", "INCONCLUSIVE"])
def test_whatever_does_not_pass_is_an_alarm(
    stand_in: Any, tmp_path: Path, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in({7: lambda made: made.update(verdict=verdict, explain="because | rerun: this")})
    assert run("--runs", "20", out=tmp_path) == 1
    (alarm,) = record(tmp_path)["alarms"]
    case = soak_plan.job(1, 7).case.text()
    assert (alarm["index"], alarm["case"]) == (7, case)
    assert f"alarm in run 7: {case} | because | rerun: this" in capsys.readouterr().out
    assert run("--runs", "7") == 0
    assert run("--start", "8", "--runs", "9") == 0


def test_ctrl_c_keeps_what_is_finished(stand_in: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(made: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    stand_in({5 + 3: interrupt})
    assert run("--runs", "20", "--start", "3", out=tmp_path) == 1
    got = record(tmp_path)
    assert (got["status"], got["finished"]) == ("interrupted", 5)
    shown = capsys.readouterr().out
    assert "interrupted" in shown
    assert "--start 8 --runs 15" in shown


@pytest.mark.parametrize(
    "error", [StrataError("no more kernels"), ExecutorUnavailable("static TLS"), ZeroDivisionError("of the harness")]
)
def test_any_error_keeps_what_is_finished(
    stand_in: Any, error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(made: dict[str, Any]) -> None:
        raise error

    stand_in({5 + 3: fail})
    assert run("--runs", "20", "--start", "3", out=tmp_path / "runs") == 2
    got = record(tmp_path / "runs")
    assert (got["status"], got["finished"]) == ("failed", 5)
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == 1
    assert str(error) in shown.err
    (line,) = [line for line in shown.out.splitlines() if "python -m validation" in line]
    rest = parser().parse_args(shlex.split(line.partition("python -m validation ")[2]))
    assert (rest.start, rest.runs, rest.jobs) == (8, 15, 1)
    assert rest.out == tmp_path / "runs-from-8"  # and what is kept stays


def test_a_full_disk_keeps_nothing_and_says_so(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no rest, where every run is finished."""

    def full(*arguments: Any) -> None:
        raise StrataError("no space left")

    stand_in({})
    monkeypatch.setattr(whole_file, "write", full)
    monkeypatch.setattr(soak, "KEPT_S", 0.0)
    assert run("--runs", "1", out=tmp_path) == 2
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed: ")]
    assert said == f"failed: 1 of 1 runs are finished, and not kept: {tmp_path / soak.NAME} is not written"


def test_what_is_finished_is_there_while_it_runs(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a process that is killed."""
    monkeypatch.setattr(soak, "KEPT_S", 0.0)
    seen: list[tuple[str, int]] = []

    def look(made: dict[str, Any]) -> None:
        got = record(tmp_path)
        seen.append((got["status"], got["finished"]))

    stand_in({4: look})
    assert run("--runs", "6", out=tmp_path) == 0
    assert seen == [("running", 4)]
    assert record(tmp_path)["process"] == owner.this()


def test_a_planted_fault_is_found_by_a_real_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from strata.kernels import prompt_attention

    jobs = ((i, soak_plan.job(1, i)) for i in itertools.count())
    index = next(
        i for i, job in jobs if job.path.name == "prompt_attention/q4_0/sm80" and job.case.recipe == "signed_decades"
    )
    words = ("--start", str(index), "--runs", "1")
    assert run(*words, out=tmp_path) == 0
    assert set(record(tmp_path)["worst"]) >= {"bound", "agreement", "baseline bound"}
    sound = prompt_attention.run

    def negated(*arguments: Any) -> Any:
        made = sound(*arguments)
        made.out[..., 7] *= -1
        return made

    monkeypatch.setattr(prompt_attention, "run", negated)
    assert run(*words, out=tmp_path) == 1
    (alarm,) = record(tmp_path)["alarms"]
    assert alarm["explain"].startswith("EXCEEDS prompt_attention/q4_0/sm80 bound: ")
    # The printed command is one of parity, for that path and case alone.
    typed = shlex.split(alarm["explain"].partition("rerun: ")[2])
    assert typed[:4] == ["python", "-m", "validation", "parity"]
    again = parser().parse_args(typed[3:])
    assert (again.paths, Case.parse(again.case)) == (alarm["path"], soak_plan.job(1, index).case)


def test_a_wrong_expert_is_found_by_a_real_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from strata.kernels import expert_decode

    words = ("--paths", "expert_decode/iq3_xxs/iq4_nl/*", "--runs", "2")
    assert run(*words, out=tmp_path) == 0
    got = record(tmp_path)
    assert got["paths"] == {"expert_decode/iq3_xxs/iq4_nl/simt": 2}
    assert got["verdicts"] == {"EXACT": 2}
    assert set(got["worst"]) >= {"gate", "down"}
    sound = expert_decode.run

    def off_by_one(*arguments: Any, **options: Any) -> Any:
        made = sound(*arguments, **options)
        made.rows.view("uint32")[0, -1, -1] ^= 1
        return made

    monkeypatch.setattr(expert_decode, "run", off_by_one)
    assert run(*words, out=tmp_path) == 1
    first = record(tmp_path)["alarms"][0]
    # The printed command is one of parity, for that path and case alone.
    typed = shlex.split(first["explain"].partition("rerun: ")[2])
    again = parser().parse_args(typed[3:])
    assert (again.paths, parse(again.case).text()) == (first["path"], first["case"])
    assert "false alarms" in capsys.readouterr().out


def test_processes_give_what_one_does() -> None:
    plan = soak.Plan(3, paths="kv_pack/fp16/*")
    (one,) = soak._all(range(1), plan, 1)
    (two,) = soak._all(range(1), plan, 2)
    assert one.path == "kv_pack/fp16/simt"
    assert (one.index, one.case, one.verdict, one.slack) == (two.index, two.case, two.verdict, two.slack)


def test_parts_come_in_their_order_and_a_dead_process_is_told() -> None:
    parts = [range(first, first + 2) for first in range(0, 20, 2)]
    submitted: list[int] = []

    def submit(part: Any) -> Future[list[Finished]]:
        submitted.append(part[0])
        future: Future[list[Finished]] = Future()
        if part[0] == 14:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result([Finished(i, "p", "c", "EXACT", "", {}, {}) for i in part])
        return future

    seen: list[int] = []
    finished = soak._in_order(parts, 3, submit)
    with pytest.raises(StrataError, match="in run 14 or soon after it; --start 14"):
        seen.extend(one.index for one in finished)
    assert seen == list(range(14))
    assert submitted == list(range(0, 20, 2))[: len(submitted)]
    assert len(submitted) <= 7 + 3


def test_a_tally_takes_a_nan_for_the_worst() -> None:
    tally = Tally()
    for index, slack in enumerate([0.5, math.nan, 0.75]):
        tally.add(Finished(index, "p", "recipe=flat x", "EXACT", "", {"bound": slack}, {}))
    assert tally.worst["bound"][1].index == 1
    assert tally.recipes == {"flat": 3}


@pytest.mark.parametrize("words", [["--runs", "0"], ["--start", "-1"], ["--seed", "1_0"], ["--jobs", "0"]])
def test_bad_numbers_are_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["soak", *words])
    assert caught.value.code == 2
    assert f"argument {words[0]}: {words[1]!r}: expected a whole number" in capsys.readouterr().err


def test_a_pattern_without_paths_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--paths", "expert_fuse/*"]) == 2
    assert "expert_fuse/*" in capsys.readouterr().err
