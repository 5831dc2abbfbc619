"""What an operation would launch, found by its own host code without memory, kernels or a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from validation.core.recordable import Launch


@dataclass(frozen=True)
class Shaped:
    """Stands for a buffer: it has a shape and no memory."""

    shape: tuple[int, ...]


class DryRun:
    """Stands for an executor: whatever is allocated has a shape alone, and launches are noted and not run.

    Parameters
    ----------
    multiprocessors
        Of the card, None on the CPU.
    """

    def __init__(self, multiprocessors: int | None = None) -> None:
        self.name = "dry run"
        self.launches: list[Launch] = []
        self._multiprocessors = multiprocessors

    def describe(self) -> dict[str, Any]:
        return {} if self._multiprocessors is None else {"multiprocessors": self._multiprocessors}

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Shaped:
        return Shaped(host.shape)

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> Shaped:
        return Shaped(tuple(shape))

    def launch(self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Any], **others: Any) -> None:
        self.launches.append(Launch(kernel, grid))
