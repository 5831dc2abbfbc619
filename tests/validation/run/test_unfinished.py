"""Long commands that end before their end: what is finished is kept and told, and the command that does the rest."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import ExecutorUnavailable, StrataError
from tests.validation.static.test_command import FINE, SM75
from validation.__main__ import main, parser
from validation.host.workers import workers
from validation.memory import faults_command, machine
from validation.memory.exhaustive import Findings
from validation.run import unfinished
from validation.static import command as static

#: What may end a command, its exit status, and its word for that.
ENDS = [
    (KeyboardInterrupt(), 1, "interrupted: "),
    (signal.SIGTERM, 1, "interrupted: "),
    (StrataError("no more"), 2, "failed: "),
    (ExecutorUnavailable("cannot allocate memory in static TLS block"), 2, "failed: "),
    (ZeroDivisionError("of the harness"), 2, "failed: "),
]
ends = pytest.mark.parametrize(("end", "status", "word"), ENDS, ids=lambda value: repr(value)[:24])


def come(end: BaseException | signal.Signals) -> None:
    """What ends the command happens."""
    if isinstance(end, BaseException):
        raise end
    os.kill(os.getpid(), end)
    time.sleep(60)


@ends
def test_static_shows_what_is_measured(
    end: Any, status: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*arguments: object) -> Iterator[Any]:
        yield SM75, FINE[SM75]
        come(end)

    monkeypatch.setattr(static, "compilers", lambda majors: [object()])
    monkeypatch.setattr(static, "measure_all", measured)
    assert main(["static", "--paths", SM75.name, "--groups", "12"]) == status
    shown = capsys.readouterr()
    assert f"{word}1 of " in shown.out
    assert "233" in shown.out  # registers of the one that was measured
    assert len(shown.err.splitlines()) == (status == 2)


@ends
def test_faults_show_what_is_examined(
    end: Any, status: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count = iter(range(99))

    def one(*arguments: Any) -> Findings:
        if next(count) == 1:
            come(end)
        return Findings(trials=4711)

    monkeypatch.setattr(faults_command, "_one", one)
    assert main(["memory", "faults", "--few-codes", "--operations", "RECLAIM"]) == status
    shown = capsys.readouterr().out
    assert f"{word}1 of " in shown
    assert "--operations RECLAIM" in shown
    assert "4711" in shown


@pytest.mark.parametrize("end", [KeyboardInterrupt(), signal.SIGTERM], ids=repr)
def test_traces_go_on_where_they_were(
    end: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds: list[int] = []

    def run(traces: int, length: int, seed: int) -> int:
        if len(seeds) == 2:
            seeds.append(0)
            come(end)
        seeds.append(seed)
        return 100

    monkeypatch.setattr(machine, "run", run)
    assert main(["memory", "traces", "--steps", "400", "--seed", "3"]) == 1
    line = " ".join(capsys.readouterr().out.split())
    assert line.startswith("interrupted: 200 of 400 steps are finished without a violation")
    words = shlex.split(line.partition("python -m validation ")[2])
    assert main(words) == 0
    whole, rest = seeds[:2], seeds[3:]
    del seeds[:]
    seeds += [0] * 3
    assert main(["memory", "traces", "--steps", "400", "--seed", "3"]) == 0
    assert seeds[3:] == whole + rest


def test_a_command_can_be_pasted() -> None:
    rest = {"first": 8, "count": 2, "seed": 1, "paths": "a b/*", "out": Path("it's"), "target": None}
    words = shlex.split(unfinished.command("validation fuzz", rest))
    assert words[:3] == ["python", "-m", "validation"]
    asked = parser().parse_args(words[3:])
    assert (asked.first, asked.count, asked.paths, asked.out, asked.target) == (8, 2, "a b/*", Path("it's"), None)


@pytest.mark.parametrize("name", ["runs", "a/runs", ".", "/runs"])
def test_the_rest_is_kept_beside_the_beginning(name: str) -> None:
    there = unfinished.beside(Path(name), 8)
    assert there is not None
    assert there != Path(name)
    assert there.parent == Path(name).parent
    assert unfinished.beside(None, 8) is None


def test_processes_that_die_first_leave_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to all of them: the pool's thread, which says so to every result, falls over none that is cancelled."""
    crashes: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    shutdown = ProcessPoolExecutor.shutdown

    def late(pool: Any, *arguments: Any, **words: Any) -> None:
        manager = pool._executor_manager_thread
        for process in pool._processes.values():
            process.kill()
        manager.join()
        shutdown(pool, *arguments, **words)

    monkeypatch.setattr(ProcessPoolExecutor, "shutdown", late)
    results = faults_command._all([("LEND", "sized")] * 9, (), 2)
    assert next(results).problems == []
    results.close()  # type: ignore[attr-defined]
    assert crashes == []


@pytest.mark.parametrize("leave", [lambda: None, lambda: come(KeyboardInterrupt())], ids=["result", "Ctrl-C"])
def test_workers_end_with_their_command(leave: Callable[[], None]) -> None:
    """Nobody waits a minute for a result that nobody takes, and no process is left."""
    processes: list[Any] = []
    try:
        with workers(1) as pool:
            pool.submit(time.sleep, 600)
            processes += (pool._processes or {}).values()
            leave()
    except KeyboardInterrupt:
        pass
    assert len(processes) == 1
    for process in processes:
        process.join()
