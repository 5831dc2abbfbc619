"""Whose fault it is that a kernel did not compile: its source's, the compiler's or the machine's.

Only the first is an error of that kernel, and only that may be remembered. A full disk, a limit, a compiler that was
killed or that cannot compile anything say nothing about the source.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from strata.executors import cache
from strata.executors.base import ExecutorUnavailable, system_reason

#: What a file could not be written for, and what a machine may be short of besides.
_WRITING = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO")
_SHORT = ("ENOMEM", "EAGAIN", "EMFILE", "ENFILE")
_NUMBERS = {os.strerror(number): number for name in (*_WRITING, *_SHORT) if (number := getattr(errno, name, 0))}
#: Zig has names of its own for the same.
_NUMBERS |= {
    "NoSpaceLeft": errno.ENOSPC,
    "DiskQuota": errno.EDQUOT,
    "FileTooBig": errno.EFBIG,
    "ReadOnlyFileSystem": errno.EROFS,
    "AccessDenied": errno.EACCES,
    "InputOutput": errno.EIO,
    "OutOfMemory": errno.ENOMEM,
    "SystemResources": errno.EAGAIN,
    "ProcessFdQuotaExceeded": errno.EMFILE,
}
#: At the end of a line: quoted source and names in messages stand elsewhere.
_REASON = re.compile(rf": '?({'|'.join(map(re.escape, _NUMBERS))})'?$", re.MULTILINE)
_MEMORY = re.compile(r"\bout of memory\b", re.IGNORECASE)
#: Signals by which a system, or a person, ends a process; others are a fault of the compiler.
_ENDING = [
    getattr(signal, name)
    for name in ("SIGXFSZ", "SIGXCPU", "SIGKILL", "SIGBUS", "SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)
]
_SIGNALS = {signal.strsignal(number): number for number in _ENDING}
_NAMED = "|".join(re.escape(text) for text in _SIGNALS if text)
_ENDED = re.compile(
    rf"({_NAMED}) signal terminated program|terminated with signal \d+ \[({_NAMED})"
    rf"|unable to execute command: ({_NAMED})|^({_NAMED})$",
    re.MULTILINE,
)

#: A source without a fault, that needs the standard headers and the library.
PROBE = """#include <string>
#include "standard.hpp"
int main() { throw std::vector<std::string>(1, "probe"); }
"""


def compiled(
    command: Sequence[str], words: Sequence[str], directory: Path, scratch: Path
) -> subprocess.CompletedProcess[str]:
    """Run a compiler; what it says and its status come back whatever they are.

    Parameters
    ----------
    command
        The words that start the compiler.
    words
        What it is told.
    directory
        The directory that it runs in.
    scratch
        Where it may put files of its own, so that one place alone needs room.

    Raises
    ------
    ExecutorUnavailable
        When it does not start.
    """
    try:
        return subprocess.run(
            [*command, *words],
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)},  # messages are found by their English words
        )
    except OSError as error:
        raise not_started(command, error) from error


def not_started(command: Sequence[str], error: OSError) -> ExecutorUnavailable:
    """The error for a compiler that the system does not start.

    Parameters
    ----------
    command
        The words that were to start it.
    error
        What the system said.
    """
    return ExecutorUnavailable(f"the C++ compiler `{' '.join(command)}` cannot be started: {system_reason(error)}")


def machine(command: Sequence[str], done: subprocess.CompletedProcess[str]) -> ExecutorUnavailable | None:
    """The error for a compilation that failed for a reason of this machine, such as a full disk or a signal.

    Parameters
    ----------
    command
        The words that started the compiler.
    done
        The compilation that failed.

    Returns
    -------
    ExecutorUnavailable or None
        None for a failure of any other kind.
    """
    log = f"{done.stderr}\n{done.stdout}"
    found, ended = _REASON.search(log), _ENDED.search(log)
    reason, number = (found[1], _NUMBERS[found[1]]) if found else ("", 0)
    killed = _SIGNALS[next(filter(None, ended.groups()))] if ended else -done.returncode
    if not reason and killed in _ENDING:
        reason = signal.strsignal(killed) or str(killed)
        number = errno.EFBIG if reason == signal.strsignal(getattr(signal, "SIGXFSZ", 0) or signal.SIGTERM) else 0
    if not reason and _MEMORY.search(log):
        reason, number = os.strerror(errno.ENOMEM), errno.ENOMEM
    if not reason:
        return None
    if number and number not in [getattr(errno, name, 0) for name in _SHORT]:
        return cache.no_room(reason, number)
    return ExecutorUnavailable(
        f"the C++ compiler `{' '.join(command)}` was stopped: {reason}; if memory or processes are short, "
        "end other programs or run fewer jobs"
    )


def first_error(log: str) -> str:
    """The line that tells most of a compiler's log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")


def of_source(log: str, folder: str) -> bool:
    """Whether a log has an error at a line of a kernel or of the kernel's headers.

    One in the headers of lanes may be the compiler's, which has no C++ library, say.

    Parameters
    ----------
    log
        What the compiler said.
    folder
        Where the kernel and its headers lie, as the compiler was given it.
    """
    own = rf"^{re.escape(folder)}/(?!runtime/|unit\.cpp|machine\.cpp)[^:\n]+:\d+:(\d+:)? (fatal )?error:"
    return re.search(own, log, re.MULTILINE) is not None
