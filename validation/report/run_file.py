"""`run.json`: every figure of a run, rewritten whole after each finished case.

The file is replaced atomically, so a reader sees the state after some finished case and never half
of one. It holds valid JSON only: numbers that are not finite are written as the strings "NaN",
"Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import os
from enum import Enum
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from strata.executors.base import StrataError

NAME = "run.json"
SCHEMA = "strata-parity-run/1"


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
    """The run.json of one directory, or its file of another name. Raises StrataError when it cannot be written."""

    def __init__(self, directory: FilePath, name: str = NAME) -> None:
        self.path = directory / name
        self._draft = directory / f".{name}.{os.getpid()}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._draft.write_text("")
            self._draft.unlink()
        except OSError as error:
            raise StrataError(f"cannot write to the directory {str(directory)!r}: {error.strerror}") from error

    def write(self, run: dict[str, Any]) -> None:
        """Replace the file by `run`."""
        text = json.dumps(plain(run), indent=1, allow_nan=False)
        try:
            with self._draft.open("w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._draft, self.path)
        except OSError as error:
            self._draft.unlink(missing_ok=True)
            raise StrataError(f"cannot write {str(self.path)!r}: {error.strerror}") from error
