"""The stand-ins under the name that tests import them by, which live in validation/controls, and two more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from strata.executors.base import POISON_OUTPUT, Argument, Buffer, Image, Kernel, Witness
from strata.executors.lanes import LanesExecutor
from validation.controls import self_test
from validation.core.stub_executor import DIGEST, StubCard, StubExecutor, witness
from validation.ledger import floor, ledger
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import resident, values
from validation.operations.attention.selection import WIDTH
from validation.operations.attention.stub_kernels import Fault, StubOutcome, attention, healthy, kernel

__all__ = [
    "DIGEST",
    "Fault",
    "LanesCard",
    "Lawful",
    "StubCard",
    "StubExecutor",
    "StubOutcome",
    "asked_before",
    "attention",
    "healthy",
    "kernel",
    "no_ledger",
    "other_plans",
    "proved",
    "witness",
]


def other_plans(patch: pytest.MonkeyPatch) -> None:
    """For profiles of a test's own: the real plans are out of sight and have not vanished, so their floor stands."""
    kept = [(name, names) for name, names in floor.load().sections.items() if name.startswith("plan ")]
    patch.setattr(floor, "plans", lambda: kept)


#: What all controls answer, asked once in a process: it takes seconds, the rest of a run of stand-ins a tenth of one.
#: They are of the harness, which hardly a test changes; one that does asks the group that it is about.
proved = cache(self_test.prove)


def asked_before(patch: pytest.MonkeyPatch) -> None:
    """For runs whose controls are not what the test is about."""
    proved()  # of the harness as it is, before the test changes any of it
    patch.setattr(self_test, "prove", proved)


def no_ledger(patch: pytest.MonkeyPatch) -> None:
    """An empty ledger, for stand-ins, which have other errors than the kernels whose figures are kept. The floor of the
    real one stands, since nothing vanished."""
    patch.setattr(ledger, "load", ledger.Ledger)
    patch.setattr(floor, "of_ledger", lambda _: floor.load().sections["ledger"])


class LanesCard:
    """A stand-in card whose kernels run on lanes: one of a capability whose tensor core follows `rule`."""

    def __init__(self, rule: str, capability: int = 75) -> None:
        self.name, self.arch = "cuda", f"sm_{capability}"
        self.capability: int | None = capability
        self._lanes = LanesExecutor(rule=rule)

    def build(self, kernel: Kernel) -> Image:
        return replace(self._lanes.build(kernel), arch=self.arch)

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        return self._lanes.array(host, name, written=written)

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> Buffer:
        return self._lanes.empty(shape, dtype, poison=poison, name=name)

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        return replace(self._lanes.launch(kernel, grid, args, reached), executor=self.name, arch=self.arch)

    def describe(self) -> dict[str, Any]:
        return {"executor": self.name, "arch": self.arch}


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _by_cell(cells: np.ndarray, inputs: Inputs) -> np.ndarray:
    return np.sort(cells)


@dataclass(frozen=True)
class Lawful:
    """Slow attention that keeps every law of `operations/attention/metamorphic.py`: float32 sums in the order of cells.

    Each field can break one. q, v: change the values; order: the cells of a list in the order in which they are
    added; weight: changes the weights, float32 [kv, group, cells].
    """

    q: Callable[[np.ndarray], np.ndarray] = _same
    v: Callable[[np.ndarray], np.ndarray] = _same
    order: Callable[[np.ndarray, Inputs], np.ndarray] = _by_cell
    weight: Callable[[np.ndarray], np.ndarray] = _same

    def __call__(self, inputs: Inputs, order: int = 1) -> np.ndarray:
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
