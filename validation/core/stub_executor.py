"""Stand-ins for executors: memory that is an array, and launches that do nothing but leave a witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strata.executors.base import Argument, Buffer, Executor, Image, Kernel, Witness

#: The image that every stand-in kernel says it ran from, and its entry.
DIGEST = "0123456789abcdef" * 4
ENTRY = "stub"
BLOCK = 128


class StubBuffer:
    """An array in the place of an executor's memory, which a stand-in kernel may change."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.shape: tuple[int, ...] = values.shape
        self.dtype: np.dtype[Any] = values.dtype
        self.nbytes = values.nbytes

    @property
    def address(self) -> int:
        return int(self.values.ctypes.data)

    def host(self) -> np.ndarray:
        return self.values.copy()

    def write(self, host: np.ndarray) -> None:
        self.values[...] = host

    def guards_intact(self) -> bool:
        return True


@dataclass
class StubExecutor:
    """Runs nothing: the stand-in kernels ask it for its name, its image and memory, and a launch does nothing."""

    name: str = "lanes"
    arch: str = "lanes-stub"
    capability: int | None = None

    def build(self, kernel: Kernel) -> Image:
        return Image(kernel, self.arch, DIGEST, (), "stub")

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        return StubBuffer(np.array(host))

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> Buffer:
        return StubBuffer(np.full(shape, poison).astype(dtype))

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        return witness(self, grid)

    def describe(self) -> dict[str, Any]:
        return {"executor": self.name, "arch": self.arch}


@dataclass
class StubCard(StubExecutor):
    """A stand-in that calls itself a card."""

    name: str = "cuda"
    arch: str = "sm_90"
    capability: int | None = 90


def witness(ran_on: Executor, blocks: tuple[int, int, int], /, **changes: Any) -> Witness:
    """The witness of a launch of `blocks`, with some fields changed."""
    count = blocks[0] * blocks[1] * blocks[2]
    return replace(Witness(ran_on.name, ENTRY, ran_on.arch, DIGEST, blocks, BLOCK, 0, count), **changes)
