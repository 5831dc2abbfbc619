"""The end of a command whose output nobody reads any more: `strata memory plan | head -1`.

A write that the reader did not wait for ends the command there, without a word, with the status that a shell gives any
program in that place: 128 + SIGPIPE. Nothing else is known then, so it is neither a yes nor a no. A broken pipe of
anything else, such as of a child process, stays the error that it is.

What a command prints is text. Names and texts in it come from files and programs, so what a terminal would obey is
written as escapes (`shown`), in errors and usage lines as well.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import wraps
from typing import Any, ParamSpec

from strata.shown import printable

UNREAD = 128 + 13
#: Windows says of a pipe without a reader that the argument is wrong.
_NO_READER = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)

P = ParamSpec("P")


class Unread(SystemExit):
    """The reader of a command's output left. No `Exception`: what reports the failure of a case must not catch it."""

    def __init__(self) -> None:
        super().__init__(UNREAD)


class Output:
    """A text stream of this process; `left`: whether its reader did. After that every write raises Unread."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.left = False

    def write(self, text: str) -> int:
        """Write what prints of `text`, and the rest as escapes."""
        return self.send(printable(text))

    def send(self, text: str) -> int:
        """Write `text` as it is: for who puts colours into text that is printable."""
        return int(self._made(self._stream.write, text))

    def flush(self) -> None:
        self._made(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _made(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.left:
            raise Unread
        try:
            return call(*args)
        except OSError as error:
            if error.errno not in _NO_READER:
                raise
        self.left = True
        self._empty()
        raise Unread

    def _empty(self) -> None:
        """What is still in the buffer goes nowhere: at its end the interpreter writes it once more."""
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def ends_unread(main: Callable[P, int]) -> Callable[P, int]:
    """A command's `main` that returns `UNREAD` once the reader of its output or of its errors has left."""

    @wraps(main)
    def run(*args: P.args, **words: P.kwargs) -> int:
        # A process that was started without a stream has None in its place.
        streams = [stream and Output(stream) for stream in (sys.stdout, sys.stderr)]
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            try:
                try:
                    status = main(*args, **words)
                finally:
                    for stream in filter(None, streams):
                        stream.flush()
            except Unread:
                return UNREAD
        # In a thread, Unread ends the thread alone.
        return UNREAD if any(stream and stream.left for stream in streams) else status

    return run
