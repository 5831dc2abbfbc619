"""What multiplies: the kernels of the operations, as a test can put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE, Buffer, Executor, Kernel
from strata.kernels import linear, linear_dp4a, linear_f16, linear_quantise, linear_weights
from strata.kernels.path import Path
from validation.core.outcome import Outcome
from validation.core.timed import Prepare
from validation.operations.linear.inputs import Inputs

#: What a run gives besides products: the codes of its rows.
UNITS = "units"
#: A queued product: of `first` and `rows`, how many rows of those that lie ready, into a buffer of their own.
Product = Callable[[Buffer, int, int], object]


@dataclass(frozen=True)
class Multiplier:
    """One operation's kernels.

    Parameters
    ----------
    run
        On an executor, of a path, of inputs.
    parts
        The same in two launches, the second from a row on.
    kernels
        Those that a path may launch.
    launched
        Those that a run of so many rows needs.
    prepare
        What launches on prepared buffers, None where nothing can be timed.
    """

    run: Callable[[Executor, Path, Inputs], Outcome]
    parts: Callable[[Executor, Path, Inputs, int], Outcome]
    kernels: Callable[[Path], Sequence[Kernel]]
    launched: Callable[[Path, int], Sequence[Kernel]]
    prepare: Prepare | None = None


def _of_blocks(module: Any) -> Multiplier:
    """The kernels of a module that multiplies blocks with codes of rows."""

    def run(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        got = module.run(executor, path, inputs.matrix, inputs.x)
        return Outcome({"out": got.out, UNITS: got.units}, got.witnesses, got.guards_ok, {"lost": got.lost})

    def ready(
        executor: Executor, path: Path, inputs: Inputs
    ) -> tuple[list[Buffer], Buffer, Buffer, Product, list[Any]]:
        rows, width = inputs.x.shape
        weights = linear_weights.upload(executor, path.mode, inputs.matrix, width)
        x, lost = executor.array(inputs.x, "x"), executor.array(np.zeros(1, np.int32), "lost", written=True)
        shape = linear_quantise.units_shape(rows, width)
        units = executor.empty(shape, np.uint8, poison=POISON_WORKSPACE, name=UNITS)
        made = [linear_quantise.quantise(executor, x, units, lost, rows, width)]

        def product(out: Buffer, count: int, first: int) -> object:
            return module.launch(executor, path, weights, units, out, count, first)

        return [*weights.buffers, x, units, lost], units, lost, product, made

    def parts(executor: Executor, path: Path, inputs: Inputs, cut: int) -> Outcome:
        buffers, units, lost, product, made = ready(executor, path, inputs)
        outs, more = _two(executor, inputs, cut, product)
        intact = all(buffer.guards_intact() for buffer in (*buffers, *outs))
        out = np.concatenate([one.host() for one in outs])
        counts = {"lost": int(lost.host()[0])}
        return Outcome({"out": out, UNITS: units.host()}, [*made, *more], intact, counts)

    def prepare(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Buffer]:
        *_, product, _ = ready(executor, path, inputs)
        rows = len(inputs.x)
        out = executor.empty((rows, inputs.outputs), np.float32, poison=POISON_OUTPUT, name="out")
        return lambda: product(out, rows, 0), out

    def launched(path: Path, rows: int) -> list[Kernel]:
        return [linear_quantise.kernel(), module.kernel(path, rows)]

    return Multiplier(run, parts, module.kernels, launched, prepare)


def _two(executor: Executor, inputs: Inputs, cut: int, product: Product) -> tuple[list[Buffer], list[Any]]:
    """The rows before `cut` and those from there on, each into a buffer of its own, and what was launched."""
    outs, made = [], []
    for first, count in ((0, cut), (cut, len(inputs.x) - cut)):
        outs.append(executor.empty((count, inputs.outputs), np.float32, poison=POISON_OUTPUT, name="out"))
        made.append(product(outs[-1], count, first))
    return outs, made


def _of_halves() -> Multiplier:
    """The kernel that multiplies FP16 numbers with rows."""

    def run(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        got = linear_f16.run(executor, path, inputs.matrix, inputs.x)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok)

    def parts(executor: Executor, path: Path, inputs: Inputs, cut: int) -> Outcome:
        weights, x = linear_f16.upload(executor, inputs.matrix), executor.array(inputs.x, "x")
        outs, made = _two(
            executor, inputs, cut, lambda out, count, first: linear_f16.launch(executor, weights, x, out, count, first)
        )
        intact = all(buffer.guards_intact() for buffer in (weights.values, x, *outs))
        return Outcome({"out": np.concatenate([one.host() for one in outs])}, made, intact)

    def prepare(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Buffer]:
        weights, x, rows = linear_f16.upload(executor, inputs.matrix), executor.array(inputs.x, "x"), len(inputs.x)
        out = executor.empty((rows, inputs.outputs), np.float32, poison=POISON_OUTPUT, name="out")
        return lambda: linear_f16.launch(executor, weights, x, out, rows, 0), out

    return Multiplier(run, parts, linear_f16.kernels, lambda path, rows: linear_f16.kernels(path), prepare)


#: The modules that multiply blocks, by operation.
MODULES: Mapping[str, Any] = {"linear_dp4a": linear_dp4a, "linear": linear}
MULTIPLIERS: Mapping[str, Multiplier] = {
    **{name: _of_blocks(module) for name, module in MODULES.items()},
    "linear_f16": _of_halves(),
}
