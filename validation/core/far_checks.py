"""One far check: its name and what asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Buffer
from validation.core.verdict import Check, holds, identical


@dataclass(frozen=True)
class Part:
    """ask: runs the kernels and compares; raises LaunchError where one breaks a rule of the machine."""

    name: str
    ask: Callable[[], Check]


def same(name: str, pairs: Iterable[tuple[str, np.ndarray, np.ndarray]], buffers: Iterable[Buffer]) -> Check:
    """EXACT when each of some arrays, named (what, got, due), has the due bytes, and no guard was touched."""
    count = 0
    for what, got, due in pairs:
        check = identical(name, np.ascontiguousarray(got), np.ascontiguousarray(due))
        if not check.verdict.passes:
            return replace(check, reason=f"{what}: {check.reason}")
        count += int(due.size)
    broken = [buffer for buffer in buffers if not buffer.guards_intact()]
    return holds(name, not broken, f"memory around {len(broken)} far buffers was overwritten", {"compared": count})
