"""The kernel of `rows.py` in NumPy, on an executor that compiles nothing, with faults that tests plant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, Argument, Buffer, Executor, Image, Kernel, Witness, poisoned
from strata.executors.lanes import RULES
from strata.executors.lanes.executor import HostBuffer
from validation.check.case import OwnCase
from validation.check.load import Loaded, load
from validation.check.operation import operations
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.run import runner

FILE = Path(__file__).with_name("rows.py")
DIGEST = "a" * 64

#: Works on views of the arguments: arrays that can be written to, and scalars.
Compute = Callable[..., None]


def rows(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """The kernel, right."""
    with np.errstate(all="ignore"):
        y[...] = x * weight
        total[...] = y.sum(axis=1, dtype=np.float32)
        positive[...] += (y > 0).sum(axis=1).astype(np.int32)


class FakeExecutor:
    """Runs a function of NumPy for every launch. compute: the kernel; witness: what it makes of the true one."""

    name = "lanes"
    arch = "fake"
    capability: int | None = None
    rule = RULES["exact"]
    flavor = "checked"

    def __init__(self, compute: Compute = rows, witness: Callable[[Witness], Witness] = lambda one: one) -> None:
        self.compute, self.witness = compute, witness
        self.buffers: list[HostBuffer] = []

    def build(self, kernel: Kernel) -> Image:
        return Image(kernel, self.arch, DIGEST, (), "fake")

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> HostBuffer:
        buffer = HostBuffer(host.shape, host.dtype, name, written)
        buffer.write(host)
        self.buffers.append(buffer)
        return buffer

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> HostBuffer:
        buffer = HostBuffer(shape, dtype, name)
        buffer.bytes[:] = poisoned(buffer.nbytes, poison)
        self.buffers.append(buffer)
        return buffer

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        views = [arg.bytes.view(arg.dtype).reshape(arg.shape) if isinstance(arg, HostBuffer) else arg for arg in args]
        self.compute(*views)
        blocks = int(np.prod(grid))
        shape = (grid, kernel.block, kernel.shared_bytes, blocks)
        return self.witness(Witness(self.name, kernel.entry, self.arch, DIGEST, *shape))

    def describe(self) -> dict[str, Any]:
        return {"executor": self.name, "arch": self.arch}


@cache
def _loaded() -> Loaded:
    return load(str(FILE))


def kernel(**changes: Any) -> Loaded:
    """The author's kernel, with changes to its description; another object each time."""
    own = _loaded()
    return Loaded(replace(own.kernel, **changes), own.file)


@dataclass(frozen=True)
class Where:
    """Where a case runs: the executor, the one that repeats, and what opens lanes for predictions."""

    executor: Executor
    repeat_executor: Executor | None = None
    predictor: Callable[[str], Executor] | None = None


def run_case(loaded: Loaded, case: OwnCase, where: Where, memo: Memo | None = None) -> dict[str, Any]:
    """A case of an author's kernel, run as every operation's."""
    predict = "none" if where.predictor is None else "all"
    settings = Settings(0, predict, where.predictor, where.repeat_executor, invocation="check", names_path=False)
    return runner.run_case(case, loaded.path, where.executor, settings, memo, operations(loaded))


def where(compute: Compute = rows, again: Compute | None = None, **options: Any) -> Where:
    """Where a case runs. again: the kernel of the executor that repeats."""
    return Where(FakeExecutor(compute, **options), None if again is None else FakeExecutor(again))
