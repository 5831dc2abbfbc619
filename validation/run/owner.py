"""Which process writes a file of a run, so that a later reader can tell whether it is still at it.

A number alone would not do: the system gives numbers of processes again, and a file is read on other machines and in
other containers. So the moment is noted at which the process began, and where its number counts. Only Linux tells.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path as FilePath
from typing import Any

_PROCESSES = FilePath("/proc")
_BOOT = FilePath("/proc/sys/kernel/random/boot_id")
_MACHINE = FilePath("/etc/machine-id")
#: States of a process that runs no more and only waits for its parent to ask.
_DEAD = ("Z", "X")


def this() -> dict[str, Any]:
    """This process as JSON types. pid; began: clock ticks after the machine's start; boot, space: the start and the
    set of processes in which the number counts; machine: a digest of its name. What is not known is empty."""
    found = _stat(os.getpid())
    return {"pid": os.getpid(), "began": found[1] if found else "", **_here()}


def ended(noted: Any) -> bool:
    """Whether the process that `this` described is known to be no more. noted: of a file, whatever it holds."""
    if not isinstance(noted, dict):
        return False
    here = _here()
    pid, began = noted.get("pid"), noted.get("began")
    known = isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 and bool(began)
    if not known or not here["boot"] or not here["space"]:
        return False
    if noted.get("boot") != here["boot"]:
        return bool(here["machine"]) and noted.get("machine") == here["machine"]  # this machine was started again
    if noted.get("space") != here["space"]:
        return False
    found = _stat(int(str(pid)))
    return _gone(int(str(pid))) if found is None else found[0] in _DEAD or found[1] != began


def _gone(pid: int) -> bool:
    """Whether no process has this number. Those of other people may be hidden from the table."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


@cache
def _here() -> dict[str, str]:
    boot, machine = _text(_BOOT), _text(_MACHINE)
    try:
        space = os.readlink(_PROCESSES / "self" / "ns" / "pid")
    except OSError:
        space = ""
    digest = hashlib.sha256(f"strata {machine}".encode()).hexdigest()[:16] if machine else ""
    return {"boot": boot, "space": space, "machine": digest}


def _text(file: FilePath) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _stat(pid: int) -> tuple[str, str] | None:
    """State and beginning of a process; None when there is none."""
    # The name of the program, in parentheses, may hold blanks and parentheses itself.
    words = re.sub(r".*\)", "", _text(_PROCESSES / str(pid) / "stat"), flags=re.DOTALL).split()
    return (words[0], words[19]) if len(words) > 19 else None
