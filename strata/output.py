"""The end of a command whose output is not read, or cannot be written.

- The reader leaves: `strata memory plan | head -1`. A write that it did not wait for ends the command there, without a
  word, with the status that a shell gives any program in that place: 128 + SIGPIPE. Nothing else is known then, so it
  is neither a yes nor a no. A broken pipe of anything else, such as of a child process, stays the error that it is.
- Output cannot be written: `>/dev/full`. That ends the command with one line on standard error and 2, because somebody
  wanted to read what is lost.
- There is none: `>&-`. Nobody wants to read, so the command runs as with `>/dev/null` and keeps its status.

Standard error is treated like standard output.

What a command prints is text. Names and texts in it come from files and programs, so what a terminal would obey is
written as escapes (`shown`), in errors and usage lines as well.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from functools import wraps
from typing import Any, ParamSpec

from strata.shown import printable

UNREAD = 128 + 13
UNWRITTEN = 2
#: Windows says of a pipe without a reader that the argument is wrong.
_NO_READER = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)
_STANDARD_DESCRIPTORS = (0, 1, 2)

P = ParamSpec("P")


class Unread(SystemExit):
    """The reader of a command's output left. No `Exception`: what reports the failure of a case must not catch it."""

    def __init__(self) -> None:
        super().__init__(UNREAD)


class Unwritten(SystemExit):
    """A command's output cannot be written; the attribute `said` tells which and why, in a line.

    Parameters
    ----------
    name
        What the stream is called in the line.
    error
        What the system said.
    """

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(UNWRITTEN)
        self.said = f"{name} cannot be written: {error.strerror or type(error).__name__}"


class Output:
    """A text stream of this process, on which a failed write ends the command.

    Its attribute `end` holds why nothing can be written to it any more, None before that; after that every write raises
    it.

    Parameters
    ----------
    stream
        The text stream that takes what is written.
    name
        What the stream is called in messages.
    """

    def __init__(self, stream: Any, name: str = "standard output") -> None:
        self._stream = stream
        self._name = name
        self.end: Unread | Unwritten | None = None

    def write(self, text: str) -> int:
        """Write what prints of `text`, and the rest as escapes."""
        return self.send(printable(text))

    def send(self, text: str) -> int:
        """Write `text` as it is: for a caller that puts colours into text that is printable."""
        try:
            return int(self._made(self._stream.write, text))
        except UnicodeEncodeError:  # a mark that this terminal's letters do not have
            known = self._stream.encoding
            return int(self._made(self._stream.write, text.encode(known, "backslashreplace").decode(known)))

    def flush(self) -> None:
        """Hand on what the stream still holds. Raises Unread or Unwritten where that fails."""
        self._made(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _made(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.end is None:
            try:
                return call(*args)
            except OSError as error:
                self.end = Unread() if error.errno in _NO_READER else Unwritten(self._name, error)
                self._empty()
        raise self.end

    def _empty(self) -> None:
        """What is still in the buffer goes nowhere: at its end the interpreter writes it once more."""
        with open(os.devnull, "wb") as nowhere, suppress(ValueError):  # a stream that is no file has no number
            os.dup2(nowhere.fileno(), self._stream.fileno())


def ends_unread(main: Callable[P, int]) -> Callable[P, int]:
    """A command's `main` that returns `UNREAD` once the reader of its output or of its errors has left, and
    `UNWRITTEN` once one of them cannot be written."""

    @wraps(main)
    def run(*args: P.args, **words: P.kwargs) -> int:
        _occupied()
        with ExitStack() as held:
            # A process that was started without a stream has None in its place.
            output, errors = (
                Output(stream or held.enter_context(open(os.devnull, "w", encoding="utf-8")), name)
                for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error"))
            )
            with redirect_stdout(output), redirect_stderr(errors):
                try:
                    try:
                        status = main(*args, **words)
                    finally:
                        output.flush()
                        errors.flush()
                except (Unread, Unwritten):
                    status = UNREAD  # or what follows
            # In a thread, such an end ends the thread alone.
            ends = [stream.end for stream in (output, errors) if stream.end]
            for end in ends:
                if isinstance(end, Unwritten):
                    with suppress(Unread, Unwritten):
                        errors.write(f"error: {end.said}\n")
                        errors.flush()
                    return UNWRITTEN
            return UNREAD if ends else status

    return run


def _occupied() -> None:
    """Occupy standard descriptors that are closed: else the next file that is opened becomes the standard output of
    every program started from here."""
    for descriptor in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
