"""What an operation would launch, found by its own host code without memory, kernels or a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.kernels import expert_fused
from strata.kernels.experts import Experts, Geometry, PlacedExperts, formats_of, layout
from strata.kernels.paths import Path
from validation.core.recordable import Launch
from validation.operations.experts.case import ExpertCase


class Rehearsal:
    """Stands for an executor: whatever is allocated is nothing, and launches are noted and not run.

    multiprocessors: of the card, None on the CPU.
    """

    def __init__(self, multiprocessors: int | None) -> None:
        self.name = "rehearsal"
        self.launches: list[Launch] = []
        self._multiprocessors = multiprocessors

    def describe(self) -> dict[str, Any]:
        return {} if self._multiprocessors is None else {"multiprocessors": self._multiprocessors}

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> None:
        return None

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> None:
        return None

    def launch(self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Any], **others: Any) -> None:
        self.launches.append(Launch(kernel, grid))


def of_fused(path: Path, case: ExpertCase, multiprocessors: int | None) -> list[Launch]:
    """The launches of a fused path on a case, in order. Grids depend on sizes and multiprocessors, not on values."""
    gate_up, down = formats_of(path.mode)
    geometry = Geometry(case.n, case.ff)
    # One byte, one value and one id stand for all: views of the right shape that take no memory.
    blob = np.broadcast_to(np.uint8(0), layout(gate_up, down, geometry).nbytes)
    x = np.broadcast_to(np.float32(0), (case.tokens, case.n))
    ids = np.broadcast_to(np.int32(0), (case.tokens, case.top))
    stage: Any = Rehearsal(multiprocessors)
    nothing: Any = None
    held = PlacedExperts(Experts(gate_up, down, geometry, [blob] * case.experts), [nothing] * case.experts, nothing)
    expert_fused.prepare(stage, path, held, x, ids).launch()
    return list(stage.launches)
