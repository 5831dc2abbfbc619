"""How commands end: with a verdict or 2, in one line, and as Ctrl-C has it when a signal asks."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.command import as_ctrl_c, command
from strata.executors.base import StrataError

SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@given(st.sampled_from((ValueError, KeyError, ZeroDivisionError, MemoryError, AssertionError, OSError)), st.text())
def test_a_crash_is_one_line_and_2(kind: type[Exception], text: str) -> None:
    said: list[str] = []

    @command("name")
    def main() -> int:
        raise kind(text)

    assert heard(main, said) == 2
    (line,) = said
    assert line.startswith(f"name: unforeseen {kind.__name__} at tests/strata/test_command.py:")
    assert line.endswith("(STRATA_TRACEBACK=1 shows the traceback)")


def heard(main: Callable[[], int], said: list[str]) -> int:
    """The status of a command, its errors line by line."""
    with redirect_stderr(io.StringIO()) as errors:
        status = main()
    said += errors.getvalue().split("\n")[:-1]
    return status


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_verdict_is_kept(status: int) -> None:
    assert command()(lambda: status)() == status


def test_an_error_for_the_terminal_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    @command()
    def main() -> int:
        raise StrataError("no such thing")

    assert main() == 2
    assert capsys.readouterr() == ("", "error: no such thing\n")


def test_usage_errors_go_on() -> None:
    @command()
    def main() -> int:
        raise SystemExit(2)

    with pytest.raises(SystemExit):
        main()


@pytest.fixture
def _unanswered() -> Iterator[None]:
    """The signals as a shell leaves them; under `nohup` one of them is ignored."""
    before = [signal.signal(one, signal.SIG_DFL) for one in SIGNALS]
    yield
    for one, answer in zip(SIGNALS, before, strict=True):
        signal.signal(one, answer)


@pytest.mark.usefixtures("_unanswered")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_as_ctrl_c_once(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[str] = []

    @command(interrupted=7)
    def main() -> int:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            for again in SIGNALS:  # by a supervisor in a hurry
                os.kill(os.getpid(), again)
            kept.append("what is finished")
        return 0

    assert main() == 7
    assert kept == ["what is finished"]
    assert capsys.readouterr().err == "interrupted\n"
    assert [signal.getsignal(one) for one in SIGNALS] == [signal.SIG_DFL] * 2


def test_a_signal_that_somebody_ignores_or_answers_stays_theirs() -> None:
    answered: list[int] = []

    def answer(number: int, frame: FrameType | None) -> None:
        answered.append(number)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, answer)
    try:
        with as_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert answered == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])


@pytest.mark.parametrize("status", [0, 1, 2, KeyboardInterrupt()], ids=repr)
def test_a_crash_of_a_thread_is_one_line_and_2(status: int | BaseException) -> None:
    """Whatever the command itself came to: a thread of it did not do its work."""
    said: list[str] = []
    before = threading.excepthook

    @command("name", interrupted=1)
    def main() -> int:
        thread = threading.Thread(target=lambda: [].pop())
        thread.start()
        thread.join()
        if isinstance(status, BaseException):
            raise status
        return status

    assert heard(main, said) == 2
    assert said[0].startswith("name: unforeseen IndexError at tests/strata/test_command.py:")
    assert said[1:] == (["interrupted"] if isinstance(status, BaseException) else [])
    assert threading.excepthook is before


def test_a_thread_that_outlives_the_verdict_ends_the_program_with_2() -> None:
    program = (
        "import sys, threading, time\nfrom strata.unforeseen import from_the_start\nfrom_the_start()\n"
        "end = threading.Event()\n"
        "def late():\n    end.wait()\n    raise ValueError('too late')\n"
        "threading.Thread(target=late).start()\n"
        "threading._register_atexit(end.set)\nprint('the verdict')\nsys.exit(1)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "the verdict\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: unforeseen ValueError")


def test_a_command_in_a_thread_leaves_signals_alone() -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(command()(lambda: 1)()))
    thread.start()
    thread.join()
    assert statuses == [1]
