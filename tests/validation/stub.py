"""A stand-in for executor and kernels: FP32 attention in NumPy, with faults to order. For tests of the harness only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, Argument, Buffer, Executor, Image, Kernel, Witness
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from validation.operations import Operation, Outcome
from validation.pools import Inputs
from validation.reference.prompt_attention import resident, values
from validation.selection import WIDTH

DIGEST = "0123456789abcdef" * 4


@dataclass
class StubExecutor:
    """Runs nothing; the stub kernels only ask it for its name."""

    name: str = "lanes"
    arch: str = "lanes-stub"
    capability: int | None = None

    def build(self, kernel: Kernel) -> Image:
        raise NotImplementedError

    def array(self, host: np.ndarray, name: str = "") -> Buffer:
        raise NotImplementedError

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> Buffer:
        raise NotImplementedError

    def launch(self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument]) -> Witness:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {"executor": self.name, "arch": self.arch}


@dataclass
class StubCard(StubExecutor):
    """A stub that calls itself a card."""

    name: str = "cuda"
    arch: str = "sm_90"
    capability: int | None = 90


class LanesCard:
    """A stand-in card whose kernels run on lanes: one of a capability whose tensor core follows `rule`."""

    def __init__(self, rule: str, capability: int = 75) -> None:
        self.name, self.arch = "cuda", f"sm_{capability}"
        self.capability: int | None = capability
        self._lanes = LanesExecutor(rule=rule)

    def build(self, kernel: Kernel) -> Image:
        return replace(self._lanes.build(kernel), arch=self.arch)

    def array(self, host: np.ndarray, name: str = "") -> Buffer:
        return self._lanes.array(host, name)

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> Buffer:
        return self._lanes.empty(shape, dtype, poison=poison, name=name)

    def launch(self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument]) -> Witness:
        return replace(self._lanes.launch(kernel, grid, args), executor=self.name, arch=self.arch)

    def describe(self) -> dict[str, Any]:
        return {"executor": self.name, "arch": self.arch}


@dataclass(frozen=True)
class StubOutcome:
    out: np.ndarray
    witnesses: list[Witness] = field(default_factory=list)
    guards_ok: bool = True


def witness(ran_on: Executor, blocks: tuple[int, int, int], /, **changes: Any) -> Witness:
    count = blocks[0] * blocks[1] * blocks[2]
    return replace(Witness(ran_on.name, "stub", ran_on.arch, DIGEST, blocks, 128, 0, count), **changes)


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


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _by_cell(cells: np.ndarray, inputs: Inputs) -> np.ndarray:
    return np.sort(cells)


@dataclass(frozen=True)
class Lawful:
    """Slow attention that keeps every law of `validation/laws.py`: sums of float32 in the order of the cells' numbers.

    Each field can break one. q, v: change the values; order: the cells of a list in the order in which they are
    added; weight: changes the weights, float32 [kv, group, cells].
    """

    q: Callable[[np.ndarray], np.ndarray] = _same
    v: Callable[[np.ndarray], np.ndarray] = _same
    order: Callable[[np.ndarray, Inputs], np.ndarray] = _by_cell
    weight: Callable[[np.ndarray], np.ndarray] = _same

    def __call__(self, inputs: Inputs) -> np.ndarray:
        out = np.zeros(inputs.q.shape, dtype=np.float32)
        heads = inputs.pool.n_head_kv
        for query in range(len(out)):
            cells = resident(inputs.pool, inputs.ids[query, : int(inputs.steps[query, WIDTH])])
            cells = self.order(cells, inputs)
            if len(cells) == 0:
                continue
            k, v = (plane.transpose(1, 0, 2) for plane in values(inputs.pool, cells))
            q = self.q(inputs.q[query]).astype(np.float64).reshape(heads, -1, 1, 256)
            scores = (q * k[:, None]).sum(axis=-1) * np.log2(np.e) / 16
            distance = scores - scores.max(axis=-1, keepdims=True)
            weights = self.weight(np.where(distance < -126, 0, np.exp2(distance)).astype(np.float32))
            products = weights[..., None] * self.v(v.astype(np.float32))[:, None]
            # `accumulate` adds one after another, so that a zero among them changes nothing.
            total, sums = np.add.accumulate(weights, axis=-1), np.add.accumulate(products, axis=-2)
            out[query] = (sums[..., -1, :] / total[..., -1:]).reshape(out.shape[1:])
        return out


Fault = Callable[[np.ndarray, Inputs], np.ndarray]


def kernel(
    fault: Fault | None = None,
    guards_ok: bool = True,
    order: int = 1,
    compute: Callable[[Inputs], np.ndarray] | None = None,
    **changes: Any,
) -> Operation:
    """A stub kernel. fault: changes its output; compute: instead of `attention`; changes: fields of its witness."""

    def launch(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        out = compute(inputs) if compute else attention(inputs, order)
        if fault is not None:
            out = fault(out, inputs)
        seen = witness(executor, (len(out), inputs.pool.n_head_kv, 1), **changes)
        return StubOutcome(out, [seen], guards_ok)

    return Operation(launch, blocks=lambda queries, kv_heads: queries * kv_heads)


def healthy(**kernels: Operation) -> dict[str, Operation]:
    """Kernels by operation: healthy ones, save those named."""
    return {"prompt_attention": kernel(), "decode_attention": kernel(order=-1)} | kernels
