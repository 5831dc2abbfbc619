"""Runs modules of the base, and of nothing else, in a process of their own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ci.objects import CannotCheckError, git
from strata.shown import shown

#: What a process is given of the environment: where programs and scratch files are, and the compiler.
PASSED_ON = ("PATH", "TMPDIR", "TEMP", "TMP", "CXX", "LANG", "SYSTEMROOT")
#: Where caches lie, the compiler's own among them. What others have put there has no say: these name a new directory.
CACHES = ("STRATA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA", "USERPROFILE")
#: Isolated (-I), so that neither the working directory nor PYTHONPATH nor user files are looked at. The base stands
#: first; what was installed otherwise, another checkout say, must not stand in for it.
_START = """
import importlib, os, runpy, sys
base, module = sys.argv[1:3]
sys.path.insert(0, base)
for name in ("strata", "validation", "ci"):
    file = importlib.import_module(name).__file__
    if not os.path.realpath(file).startswith(os.path.realpath(base) + os.sep):
        sys.exit(f"error: {name} comes from {file}, expected it below {base}")
sys.argv = sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Answer:
    """What a module printed as JSON, and its exit status."""

    status: int
    value: dict[str, Any]


def unpack(repository: FilePath, commit: str, folder: FilePath) -> None:
    """Write the files of a commit below a directory outside of the repository; the repository stays as it is."""
    packed = git(repository, "archive", "--format=tar", commit, most=None)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # where this Python has it
        archive.extractall(folder)


def ask(base: FilePath, cache: FilePath, seconds: float, module: str, *words: str) -> Answer:
    """What `python -m module words` of the base prints, whose caches are below `cache`.

    Raises CannotCheckError when it takes longer than `seconds`, or ends other than with 0 or 1 and an object of JSON.
    """
    command = [sys.executable, "-I", "-B", "-c", _START, str(base), module, *words]
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= dict.fromkeys(CACHES, str(cache))
    with subprocess.Popen(
        command,
        cwd=base,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException as error:
            _end(process)  # with the compilers that it started
            if isinstance(error, subprocess.TimeoutExpired):
                raise CannotCheckError(f"{module} took longer than {seconds:g} s") from error
            raise
    said = err.decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"]
    try:
        value = json.loads(out)
    except (ValueError, RecursionError):
        value = None
    if process.returncode not in (0, 1) or not isinstance(value, dict):
        raise CannotCheckError(f"{module}: {shown(said[-1], 300)}")
    return Answer(process.returncode, value)


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
