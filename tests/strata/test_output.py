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

from strata.output import UNREAD, UNWRITTEN, ends_unread

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


class Full(io.StringIO):
    """A stream on a disk without space."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.parametrize("main", [say, show])
def test_output_that_cannot_be_written_is_no_verdict(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    assert ends_unread(main)() == UNWRITTEN
    assert capsys.readouterr().err == "error: standard output cannot be written: no space left\n"


def test_errors_that_cannot_be_written_are_no_verdict_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    assert ends_unread(lambda: print("why", file=sys.stderr) or 1)() == UNWRITTEN


def test_it_ends_at_the_first_write_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    @ends_unread
    def main() -> int:
        try:
            print("one", flush=True)
        except Exception:
            reached.append("caught as the failure of a case")
        reached.append("went on")
        return 0

    monkeypatch.setattr(sys, "stdout", Full())
    assert main() == UNWRITTEN
    assert reached == []


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_process_without_streams_keeps_its_verdict(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads: as with /dev/null. What asks the stream about itself gets an answer."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)

    @ends_unread
    def main() -> int:
        assert not sys.stdout.isatty()
        print("why", file=sys.stderr)
        return max(say(), show(), status)

    assert main() == status
    assert sys.stdout is None


def test_letters_that_the_stream_does_not_have_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert ends_unread(lambda: print("\u2713 \udcff") or 0)() == 0
    assert raw.getvalue() == b"\\u2713 \\udcff\n"


#: A command whose status says whether its file got what was printed.
_WRITES = """
import os, subprocess, sys
from strata.output import ends_unread
@ends_unread
def main():
    with open(sys.argv[1], "w") as file:
        print("for nobody", flush=True)
        subprocess.run(["sh", "-c", "echo for nobody; echo for nobody >&2; cat"])
        print("for nobody", file=sys.stderr)
        file.write("a file's own")
    return 1
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("streams", "status", "errors"),
    [
        (">&-", 1, "for nobody"),
        ("2>&-", 1, ""),
        ("<&- >&- 2>&-", 1, ""),
        (">/dev/full", UNWRITTEN, "error: standard output cannot be written: No space left on device"),
        (">/dev/full 2>/dev/full", UNWRITTEN, ""),
        (">/dev/full 2>&-", UNWRITTEN, ""),
        (">&- 2>/dev/full", UNWRITTEN, ""),
        ("1</dev/null", UNWRITTEN, "error: standard output cannot be written: Bad file descriptor"),
    ],
)
def test_streams_as_a_shell_leaves_them(streams: str, status: int, errors: str, tmp_path: Path) -> None:
    """A file that is opened later must not be taken for a stream that is closed, by this process or its children."""
    file = tmp_path / "file"
    line = f'"$@" {streams}'
    command = ["sh", "-c", line, "sh", sys.executable, "-c", _WRITES, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1:] == ([errors] if errors else [])
    if status == 1:
        assert file.read_text() == "a file's own"


@pytest.mark.parametrize("words", [["paths"], ["recipes"]])
def test_commands_of_a_process_without_streams(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from validation.__main__ import main

    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(words) == 0
    assert main(["parity", "--paths", "nowhere"]) == 2
