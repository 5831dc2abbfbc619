"""Device times of a prepared launch, on copies of its inputs like every other run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.handed import handing

#: A function that only launches, and the buffer it writes.
Prepare = Callable[[Executor, Path, Any], tuple[Callable[[], object], Any]]


def timed(
    prepare: Prepare | None, executor: Executor, path: Path, inputs: Any, reps: int
) -> tuple[list[float], np.ndarray] | None:
    """Milliseconds of `reps` launches, and what the buffer held after them.

    None where the executor has no device clock, or there is nothing to time. Raises InputsChangedError when the
    launches changed what they were given.
    """
    if prepare is None or getattr(executor, "time_launches", None) is None:
        return None
    with handing(prepare, executor, (path, inputs)) as (own, args, _):
        launch, buffer = prepare(own, *args)
        clock: Callable[[Callable[[], object], int], list[float]] = getattr(own, "time_launches")  # noqa: B009
        times = [float(time) for time in clock(launch, reps)]
        out = np.array(buffer.host())
    return times, out
