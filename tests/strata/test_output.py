"""Commands whose reader leaves: they end there without a word, and every other failure stays what it is."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console

from strata.output import UNREAD, ends_unread

ROOT = Path(__file__).parents[2]
#: Commands that print something: each module with a command line, and each way of printing.
COMMANDS = (
    ("strata", "gate", "--all"),
    ("strata", "memory", "plan", "--vram", "24GiB"),
    ("strata", "--help"),
    ("validation", "recipes"),
    ("validation.mutants", "--list"),
    ("validation.captured", "--help"),
    ("validation.memory.changes", "--changes", "1"),
)


@contextmanager
def unread() -> Iterator[None]:
    """stdout is a pipe whose reader has left."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as stream, redirect_stdout(stream):
        yield


def say() -> int:
    """A command that leaves a line in the buffer."""
    print("one")
    return 0


def show() -> int:
    """The same by rich, whose console has an end of its own for broken pipes."""
    Console().print("one")
    return 0


def started(words: tuple[str, ...], reads: bool) -> tuple[int, bytes]:
    """Exit status and errors of a command whose output is read to its end, or not at all."""
    read, write = os.pipe()
    if not reads:
        os.close(read)
    command = [sys.executable, "-m", *words]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, cwd=ROOT) as child:
        os.close(write)
        if reads:
            with open(read, "rb") as stream:
                stream.read()
        assert child.stderr is not None
        errors = child.stderr.read()
    return child.returncode, errors


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_whose_reader_leaves_ends_without_a_word(words: tuple[str, ...]) -> None:
    assert started(words, reads=False) == (UNREAD, b"")


def test_a_command_that_is_read_ends_as_ever() -> None:
    assert started(COMMANDS[0], reads=True) == (0, b"")


def test_it_ends_at_the_first_write_that_is_not_read() -> None:
    reached = []

    @ends_unread
    def main() -> int:
        try:
            print("one", flush=True)
        except Exception:
            reached.append("caught as the failure of a case")
        reached.append("went on")
        return 0

    with unread():
        assert main() == UNREAD
    assert reached == []


@pytest.mark.parametrize("main", [say, show])
def test_what_waits_in_the_buffer_counts(main: Callable[[], int]) -> None:
    with unread():
        assert ends_unread(main)() == UNREAD


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_may_be_the_one_that_prints() -> None:
    @ends_unread
    def main() -> int:
        thread = threading.Thread(target=print, args=("one",), kwargs={"flush": True})
        thread.start()
        thread.join()
        return 0

    with unread():
        assert main() == UNREAD


def test_status_output_and_streams_are_otherwise_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr

    @ends_unread
    def main(status: int) -> int:
        print("out")
        print("error", file=sys.stderr)
        return status

    assert [main(status) for status in (0, 1, 2)] == [0, 1, 2]
    assert capsys.readouterr() == ("out\n" * 3, "error\n" * 3)
    assert (sys.stdout, sys.stderr) == before


def test_a_broken_pipe_of_something_else_is_an_error() -> None:
    @ends_unread
    def main() -> int:
        read, write = os.pipe()
        os.close(read)
        try:
            return os.write(write, b"to a child that died")
        finally:
            os.close(write)

    with pytest.raises(BrokenPipeError):
        main()


def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OSError, match="no space left"):
        ends_unread(say)()


def test_a_process_without_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert ends_unread(say)() == 0
