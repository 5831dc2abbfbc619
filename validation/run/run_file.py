"""`run.json`: every figure of a run, rewritten whole after each finished case.

The file is replaced atomically, so a reader sees the state after some finished case and never half
of one. One living run has it: a second one is refused, and one that replaces the file of an earlier
run says so. It holds valid JSON only: numbers that are not finite are written as the strings "NaN",
"Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import tempfile
from enum import Enum
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from strata.arguments import shown
from strata.executors.base import StrataError, system_reason
from validation.host import json_file, whole_file
from validation.run.claim import Claim

NAME = "run.json"
SCHEMA = "strata-parity-run/1"
#: Of the runs of kernels that are defined outside of this repository.
CHECK_SCHEMA = "strata-check-run/1"
#: Of runs that compare whole models' answers.
QUALITY_SCHEMA = "strata-quality-run/1"


def plain(value: Any) -> Any:
    """`value` as JSON types: NumPy scalars and arrays, enums and tuples resolved, floats made finite or text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


class RunFile:
    """The run.json of one directory, or its file of another name, until it is closed.

    replaces: a line about a file that is there already, empty when there is none; kept: whether the file is what was
    given to `write` last, which a full disk leaves undone. Raises StrataError when it cannot be
    written, and while another run has the directory.
    """

    def __init__(self, directory: FilePath, name: str = NAME) -> None:
        self.path = directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
            self._claim = Claim(directory)
        except OSError as error:
            raise StrataError(f"cannot write to the directory {str(directory)!r}: {system_reason(error)}") from error

        self.replaces = self._earlier()
        self.kept = False

    def close(self) -> None:
        """Let other runs write it."""
        self._claim.release()

    def _earlier(self) -> str:
        if not self.path.exists():
            return ""
        try:
            status = json_file.read(self.path, "the run")["status"]
        except (StrataError, LookupError, TypeError):
            return f"{self.path}: an earlier file is replaced"
        said = "that never ended" if status == "running" else f"with status {shown(str(status))}"
        return f"{self.path}: the file of an earlier run {said} is replaced"

    def write(self, run: dict[str, Any]) -> None:
        """Replace the file by `run`. Raises StrataError when it cannot be written."""
        self.kept = False
        whole_file.write(self.path, json.dumps(plain(run), indent=1, allow_nan=False) + "\n")
        self.kept = True
