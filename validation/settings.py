"""What a run asks of every case, beside the case itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as FilePath

from strata.executors.base import Executor

#: How much of an output is predicted: nothing, the sampled queries, or all of it.
PREDICT = ("none", "sample", "all")


@dataclass(frozen=True)
class Settings:
    """reps: device timings of path and baseline, 0 for none (cuda only); predict: one of PREDICT;
    predictor: opens lanes with a rule, for predictions; twin: an executor of the same kind under
    another schedule, on which a path is repeated (None repeats on the same executor); capture: the
    file of recipe `captured`; invocation: the command that reruns a case, up to `--paths`."""

    reps: int = 0
    predict: str = "none"
    predictor: Callable[[str], Executor] | None = None
    twin: Executor | None = None
    capture: FilePath | None = None
    invocation: str = "python -m validation parity"
