"""The error of a path whose operation a table or a branch does not know, where a default would be a wrong answer."""

from __future__ import annotations

from collections.abc import Iterable

from strata.executors.base import StrataError
from strata.kernels.paths import Path


class UnknownOperationError(StrataError):
    """No answer is known for a path's operation: `what` is missing for it; known: operations that have one."""

    def __init__(self, path: Path, what: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(f"{path.name}: no {what} is known of operation {path.operation!r}, expected one of {names}")
