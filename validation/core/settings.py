"""What a run asks of every case, beside the case itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np

from strata.executors.base import Executor, Image, Witness
from strata.kernels.paths import Path
from validation.core.case import AnyCase

#: How much of an output is predicted: nothing, the sampled queries, or all of it.
PREDICT = ("none", "sample", "all")


class Recorder(Protocol):
    """Keeps what a record will say of a case."""

    def keep(
        self,
        path: Path,
        case: AnyCase,
        inputs: Any,
        out: np.ndarray,
        witnesses: Sequence[Witness],
        images: Sequence[Image],
    ) -> None:
        """The judged output of `path` on `case`. inputs: of its operation; out: float32, rows along
        its last axis; images: those of the path."""
        ...


@dataclass(frozen=True)
class Settings:
    """reps: device timings of path and baseline, 0 for none (cuda only); predict: one of PREDICT;
    predictor: opens lanes with a rule, for predictions; repeat_executor: an executor of the same kind under
    another schedule, on which a path is repeated (None repeats on the same executor); capture: the
    file of recipe `captured`; invocation: the command that reruns a case, up to `--paths`;
    names_path: whether that command takes the path besides;
    recorder: is shown every judged output, None for runs that make no record."""

    reps: int = 0
    predict: str = "none"
    predictor: Callable[[str], Executor] | None = None
    repeat_executor: Executor | None = None
    capture: FilePath | None = None
    invocation: str = "python -m validation parity"
    names_path: bool = True
    recorder: Recorder | None = None
