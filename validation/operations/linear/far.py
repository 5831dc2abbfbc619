"""Dense products at the end of the largest sizes: outputs of a matrix of more than 2**32 bytes, rows of more than 2**32
products, rows that begin far into those that lie ready, and rows that become codes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Buffer, Kernel
from strata.executors.lanes import LanesExecutor
from strata.formats import device_table
from strata.kernels import linear_f16, linear_quantise
from strata.kernels.linear_weights import Weights
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.block_select.far import Partly
from validation.operations.linear.case import LinearCase
from validation.operations.linear.formats import HALVES
from validation.operations.linear.inputs import Inputs, build
from validation.operations.linear.kernels import MODULES, MULTIPLIERS, UNITS

#: What every tile's rows and outputs divide, so that what is behind a multiple of it begins a tile.
TILE = 1152
#: Threads that make a unit of codes.
WARP = 32
#: Rows and outputs of a case that are asked: no more than one block of threads has, so that the last block is enough.
FEW = 8
#: Outputs of a matrix far away; rows that are launched, and outputs that they have; where rows begin that lie ready.
OUTPUTS = (1 << 31) // TILE * TILE - 2 * TILE
ROWS, OF_ROWS = (1 << 18) // TILE * TILE, (1 << 15) // TILE * TILE + TILE
FIRST = (1 << 31) - 1 - TILE


def parts(case: LinearCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """What is asked of a path: each with few rows and outputs behind so many that nobody looks at."""
    made = build(case, path.mode)
    given = replace(made, matrix=made.matrix[:FEW], x=made.x[:FEW])
    asked: dict[str, Callable[[Inputs, Path, LanesExecutor], Check]] = {
        "far outputs": partial(_product, name="far outputs", rows=0, outputs=OUTPUTS, first=0),
        "far rows": partial(_product, name="far rows", rows=ROWS, outputs=OF_ROWS, first=0),
        "far first": partial(_product, name="far first", rows=0, outputs=0, first=FIRST),
    }
    if path.mode != HALVES:
        asked["far codes"] = _codes
    return [Part(name, partial(ask, given, path, executor)) for name, ask in asked.items()]


def names(path: Path) -> tuple[str, ...]:
    """The checks of a path."""
    return ("far outputs", "far rows", "far first", *(() if path.mode == HALVES else ("far codes",)))


def _end(kernel: Kernel, grid: tuple[int, int, int]) -> tuple[tuple[int, int, int], int]:
    """The last block of threads."""
    return grid, grid[0] * grid[1] * grid[2] - 1


def _last(array: np.ndarray, name: str, before: int) -> Mapped:
    """A buffer whose last rows are those of an array, behind so many others."""
    made = Mapped((before + len(array), *array.shape[1:]), array.dtype, name)
    made.view()[before:] = array
    return made


def _product(
    given: Inputs, path: Path, executor: LanesExecutor, name: str, rows: int, outputs: int, first: int
) -> Check:
    """The same products behind so many rows and outputs, and behind rows that lie ready and are not asked for."""
    near = MULTIPLIERS[path.operation].run(executor, path, given)
    count = len(given.x)
    partly = Partly(executor, _end)
    matrix = _last(given.matrix, "matrix", outputs)
    of_rows = given.x if path.mode == HALVES else near.outputs[UNITS]
    ready = _last(of_rows, "rows", rows + first)
    out = Mapped((rows + count, outputs + given.outputs), np.float32, "out")
    _launch(partly, path, matrix, ready, out, given.width, first)
    buffers: list[Buffer] = [matrix, ready, out]
    return same(name, [("outputs", out.view()[rows:, outputs:].copy(), near.outputs["out"])], buffers)


def _launch(on: Partly, path: Path, matrix: Mapped, ready: Mapped, out: Mapped, width: int, first: int) -> None:
    rows, outputs = out.shape
    if path.mode == HALVES:
        linear_f16.launch(on, linear_f16.Weights(matrix, outputs, width), ready, out, rows, first)
        return
    words = device_table(path.mode)
    table = on.array(words, "table") if words.size else None
    module: Any = MODULES[path.operation]
    module.launch(on, path, Weights(path.mode, matrix, table, outputs, width), ready, out, rows, first)


def _codes(given: Inputs, path: Path, executor: LanesExecutor) -> Check:
    """Rows to codes, the last of so many that they have more than 2**32 values."""
    near = linear_quantise.run(executor, given.x)
    rows = (1 << 33) // given.width
    x = _last(given.x, "x", rows)
    units = Mapped((rows + len(given.x), *near.units.shape[1:]), np.uint8, UNITS)
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    own = -(-len(given.x) * near.units.shape[1] // (linear_quantise.THREADS // WARP)) + 1
    partly = Partly(executor, lambda kernel, grid: (grid, grid[0] - own))
    linear_quantise.quantise(partly, x, units, lost, rows + len(given.x), given.width)
    return same("far codes", [("units", units.view()[rows:].copy(), near.units)], [x, units, lost])
