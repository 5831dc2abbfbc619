"""Stand-ins for executors and kernels: FP32 attention in NumPy, with faults to order.

Nothing here compiles or launches anything. The controls give these to the real runner to see what it refuses, and
the tests of the harness use the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from strata.executors.base import Argument, Buffer, Executor, Image, Kernel, Witness
from strata.kernels.paths import Path
from validation.operations.attention.kernels import Operation, Outcome
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import resident, values
from validation.operations.attention.selection import WIDTH

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


@dataclass(frozen=True)
class StubOutcome:
    out: np.ndarray
    witnesses: list[Witness] = field(default_factory=list)
    guards_ok: bool = True


def witness(ran_on: Executor, blocks: tuple[int, int, int], /, **changes: Any) -> Witness:
    """The witness of a launch of `blocks`, with some fields changed."""
    count = blocks[0] * blocks[1] * blocks[2]
    return replace(Witness(ran_on.name, ENTRY, ran_on.arch, DIGEST, blocks, BLOCK, 0, count), **changes)


def attention(inputs: Inputs, order: int = 1) -> np.ndarray:
    """float32 attention; order -1 sums the cells from the last to the first."""
    out = np.zeros(inputs.q.shape, dtype=np.float32)
    heads = inputs.pool.n_head_kv
    for query in range(len(out)):
        cells = resident(inputs.pool, inputs.ids[query, : int(inputs.steps[query, WIDTH])])[::order]
        if len(cells) == 0:
            continue
        k, v = (plane.astype(np.float32) for plane in values(inputs.pool, cells))
        q = inputs.q[query].reshape(heads, -1, 256)
        scores = q @ k.transpose(1, 2, 0) * np.float32(1 / 16)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[query] = (weights @ v.transpose(1, 0, 2)).reshape(out.shape[1:])
    return out


#: Makes the output of a faulty kernel from the healthy one and the inputs.
Fault = Callable[[np.ndarray, Inputs], np.ndarray]


@dataclass
class Attended:
    """Attention on the same few inputs again and again: computed once for each, copied each time."""

    _held: list[tuple[Inputs, int, np.ndarray]] = field(default_factory=list)

    def __call__(self, inputs: Inputs, order: int = 1) -> np.ndarray:
        for known, way, out in self._held:
            if way == order and all(a is b for a, b in zip(_arrays(known), _arrays(inputs), strict=True)):
                return out.copy()
        self._held = [*self._held[-7:], (inputs, order, attention(inputs, order))]
        return self._held[-1][2].copy()


def _arrays(inputs: Inputs) -> tuple[np.ndarray, ...]:
    """Which inputs these are: a run is handed the same copies as long as nobody changes them."""
    return inputs.q, inputs.ids, inputs.steps, inputs.pool.k, inputs.pool.v, inputs.pool.table


def kernel(
    fault: Fault | None = None,
    guards_ok: bool = True,
    order: int = 1,
    compute: Callable[[Inputs, int], np.ndarray] = attention,
    **changes: Any,
) -> Operation:
    """A stand-in kernel. fault: changes its output; compute: what makes it; changes: fields of its witness."""

    def launch(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        out = compute(inputs, order)
        if fault is not None:
            out = fault(out, inputs)
        seen = witness(executor, (len(inputs.q), inputs.pool.n_head_kv, 1), **changes)
        return StubOutcome(out, [seen], guards_ok)

    return Operation(
        launch,
        kernels=lambda path, group: [Kernel(ENTRY, ENTRY, BLOCK)],
        blocks=lambda queries, kv_heads: queries * kv_heads,
    )


def healthy(**kernels: Operation) -> dict[str, Operation]:
    """Kernels by operation: healthy ones, save those named."""
    return {"prompt_attention": kernel(), "decode_attention": kernel(order=-1)} | kernels
