"""A published runtime on the same file: a ggml build on the CPU, in an environment of its own or in this one.

It is no dependency of the project. `pip install xllamacpp` into any environment and name its Python; the dependency
group `published` has it as well. Where it is absent, that is what the table says.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from strata.cpus import usable
from strata.executors.base import StrataError
from validation.host import json_file, whole_file

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

WORKER = FilePath(__file__).with_name("published_worker.py")
INSTALL = "pip install xllamacpp, and --published PYTHON for the interpreter that has it"
#: Called with how many tokens are done.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Published:
    """What it said. runtime: its name and version, empty when there is none; absent: why there is none."""

    runtime: str = ""
    losses: Float64 = field(default_factory=lambda: np.zeros(0))
    absent: str = ""


def losses(
    model: FilePath, tokens: Int64, python: str = sys.executable, progress: Progress = lambda done: None
) -> Published:
    """-ln p of each next token by the published runtime.

    Parameters
    ----------
    model
        The GGUF file.
    tokens
        Token ids.
    python
        The interpreter whose environment has the runtime.
    progress
        Called after each token.

    Raises
    ------
    StrataError
        When the interpreter cannot be started, and when the runtime does not answer for every token.
    """
    request = json.dumps({"model": str(model), "tokens": tokens.tolist(), "threads": usable()})
    try:
        process = subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError as error:
        raise StrataError(f"--published {python!r} cannot be started: {error.strerror}") from error
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request + "\n")
            process.stdin.close()
            head = json_file.parse(process.stdout.readline() or "null")
            if isinstance(head, dict) and "absent" in head:
                return Published(absent=f"{head['absent']}; {INSTALL}")
            found = []
            for line in process.stdout:
                found.append(_number(line))
                progress(len(found))
        except BrokenPipeError:
            head, found = None, []
        finally:
            process.kill() if sys.exc_info()[0] else process.wait()
    if not isinstance(head, dict) or process.returncode or len(found) != len(tokens) - 1:
        raise StrataError(
            f"the published runtime ended with status {process.returncode} after {len(found)} tokens, "
            f"expected {len(tokens) - 1}"
        )
    return Published(str(head.get("runtime")), -np.array(found, np.float64))


def kept(directory: FilePath | None, key: str, ask: Callable[[], Published]) -> Published:
    """What a published runtime said, asked once.

    It needs minutes, and no card: what it said on one machine is as good on another.

    Parameters
    ----------
    directory
        Where it is kept; None keeps it nowhere.
    key
        The digests of model and tokens.
    ask
        What asks it. That it is absent is not kept.

    Raises
    ------
    StrataError
        When the file of the directory is none that was written here, and as `ask` does.
    """
    if directory is None:
        return ask()
    file = directory / f"published-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    if file.is_file():
        told = json_file.read(file, "what a published runtime said,")
        try:
            return Published(str(told["runtime"]), np.array([float(one) for one in told["losses"]], np.float64))
        except (LookupError, TypeError, ValueError) as error:
            raise StrataError(f"{str(file)!r} is not what a published runtime said: {error}; remove it") from error
    found = ask()
    if not found.absent:
        whole_file.write(file, json.dumps({"runtime": found.runtime, "losses": found.losses.tolist()}) + "\n")
    return found


def _number(line: str) -> float:
    value = json_file.parse(line)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise StrataError(f"the published runtime answered {line.strip()[:40]!r}, expected a number")
    return float(value)
