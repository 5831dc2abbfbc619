"""Runs the sanitize flavor: a program of its own, because a sanitizer cannot be loaded into Python.

The launch is written to a file; the program gives every buffer an allocation of its own, so that
the address sanitizer stands guard on both sides, runs the kernel and writes the buffers back.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from strata.executors.base import ExecutorUnavailable, LaunchError, LaunchLimitError, system_reason
from strata.executors.lanes.library import Request
from strata.executors.lanes.loading import hint, hint_of_number

_HEADER = struct.Struct("<6I2Q3i2i")  # mirrored in runtime/program.hpp
#: The program's exit status when its answer cannot be written, mirrored there; on standard error is why.
_NOT_WRITTEN = 5
#: The status of a program whose libraries the loader does not find, and what the loader says then.
_NOT_STARTED = 127
_UNLOADED = re.compile(r"error while loading shared libraries: (.+)")
_OPTIONS = {
    # Stacks that the sanitizer does not know, and memory that a stopped kernel leaves.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def launch(path: Path, request: Request, limit_s: float | None = None) -> int:
    """Run a kernel that is a program.

    Parameters
    ----------
    path
        The program.
    request
        What to run, and on what.
    limit_s
        Seconds after which it is stopped.

    Returns
    -------
    int
        How many blocks finished.

    Raises
    ------
    LaunchError
        With the first lines of the sanitizer's report, or the message of the lane that broke a rule.
    LaunchLimitError
        When it takes longer than `limit_s`.
    ExecutorUnavailable
        When the program does not start, and without room for temporary files.
    """
    try:
        held = tempfile.TemporaryDirectory(prefix="strata-")
    except OSError as error:
        raise _no_scratch(error) from error
    with held as directory:
        job, answer = Path(directory, "job"), Path(directory, "answer")
        try:
            job.write_bytes(_encode(request))
        except OSError as error:
            raise _no_scratch(error) from error
        try:
            done = subprocess.run(
                [str(path), str(job), str(answer)],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env=os.environ | _OPTIONS,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise LaunchLimitError(f"{request.entry}: the launch takes longer than {limit_s:g} s") from None
        except OSError as error:
            raise ExecutorUnavailable(f"{path} cannot be run: {error.strerror}{hint_of_number(error.errno)}") from None
        if done.returncode == _NOT_WRITTEN:
            # Last, behind the sanitizer's own remarks: it says once that it does not know the stacks of lanes.
            raise _no_scratch(OSError("".join(done.stderr.splitlines()[-1:])))
        unloaded = _UNLOADED.search(done.stderr) if done.returncode == _NOT_STARTED else None
        if unloaded is not None:
            raise ExecutorUnavailable(f"{path} cannot be run: {unloaded[1]}{hint(unloaded[1])}")
        if done.returncode != 0:
            raise LaunchError(_explain(request.entry, done.stderr, done.returncode))
        data = answer.read_bytes()
    (finished,) = struct.unpack_from("<Q", data)
    at = 8
    for region in request.regions:
        ctypes.memmove(region.address, data[at : at + region.nbytes], region.nbytes)
        at += region.nbytes
    return int(finished)


def _no_scratch(error: OSError) -> ExecutorUnavailable:
    """A launch that does not fit where temporary files go: an error of the machine, not of the kernel."""
    return ExecutorUnavailable(
        f"a launch cannot be written below {tempfile.gettempdir()}: {system_reason(error)}; make room there, or set "
        "TMPDIR to a directory with room"
    )


def _encode(request: Request) -> bytes:
    header = _HEADER.pack(
        *request.grid,
        request.block,
        1,
        1,
        request.shared_bytes,
        request.seed & (2**64 - 1),
        request.rule.block,
        request.rule.frac,
        request.workers,
        len(request.values),
        len(request.regions),
    )
    parts = [header]
    addresses = {region.address: i for i, region in enumerate(request.regions)}
    for value in request.values:
        number = int.from_bytes(value, "little")
        index = addresses.get(number, -1) if len(value) == 8 and number else -1
        parts.append(struct.pack("<iI", index, len(value)) + value.ljust(8, b"\0"))
    for region in request.regions:
        name = region.name.encode()[:63]
        parts.append(struct.pack("<Q64s", region.nbytes, name))
        parts.append(ctypes.string_at(region.address, region.nbytes))
    return b"".join(parts)


def _explain(entry: str, report: str, status: int) -> str:
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    telling = [line for line in lines if "ERROR" in line or "runtime error" in line or line.startswith(f"{entry}:")]
    where = [line for line in lines if ".cu:" in line or ".cuh:" in line]
    said = [*telling[:1], *[line for line in where[:1] if line not in telling]]
    if not said:
        return f"{entry}: the sanitizer program ended with {status}: {' '.join(lines[-2:])}"
    text = " at ".join(said)
    return text if text.startswith(f"{entry}:") else f"{entry}: {text}"
