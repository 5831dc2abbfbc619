"""What the products over block weights share: what they take, what they give, and a run on host arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE, Argument, Buffer, Executor, StrataError, Witness
from strata.formats.codebooks import GRIDS
from strata.kernels import linear_quantise
from strata.kernels.counts import check_counted, counted
from strata.kernels.linear_weights import Weights, upload
from strata.kernels.path import Path

#: The `launch` of a product.
Launch = Callable[[Executor, Path, Weights, Buffer, Buffer, int], Witness]


class Multiplied(NamedTuple):
    """Products of rows.

    Parameters
    ----------
    out
        float32 [rows, outputs].
    units
        uint8, the rows as codes: see `linear_quantise`.
    lost
        How many groups of the rows hold a value that is not finite.
    witnesses
        Those of the two launches.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    units: np.ndarray
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def arguments(weights: Weights, units: Buffer, out: Buffer, rows: int, first: int) -> list[Argument]:
    """What a product takes, in the order of its parameters."""
    sizes = (weights.outputs, weights.width, weights.row_bytes, rows, first)
    return [weights.blocks, weights.table, units, out, *map(np.int32, sizes)]


def check_path(path: Path, weights: Weights) -> None:
    """Refuse weights of another format than a path's. Raises StrataError."""
    if weights.format != path.mode:
        raise StrataError(f"{path.name}: weights of {weights.format}, expected {path.mode}")


def multiplied(executor: Executor, path: Path, blocks: np.ndarray, x: np.ndarray, launch_product: Launch) -> Multiplied:
    """Multiply host rows with a host matrix.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of an operation that takes block weights.
    blocks
        uint8 [outputs, row bytes], of the path's format.
    x
        float32 [rows, width].
    launch_product
        The operation's `launch`.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit.
    """
    if x.dtype != np.float32 or x.ndim != 2:
        raise StrataError(f"rows are {x.dtype} {x.shape}, expected float32 [rows, width]")
    rows, width = x.shape
    shape = linear_quantise.units_shape(rows, width)
    check_counted(rows * width // linear_quantise.GROUP, f"{rows} rows of {width} values")
    weights = upload(executor, path.mode, blocks, width)
    given = executor.array(x, "x")
    units = executor.empty(shape, np.uint8, poison=POISON_WORKSPACE, name="units")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    out = executor.empty((rows, weights.outputs), np.float32, poison=POISON_OUTPUT, name="out")
    witnesses = [
        linear_quantise.quantise(executor, given, units, lost, rows, width),
        launch_product(executor, path, weights, units, out, rows),
    ]
    intact = all(buffer.guards_intact() for buffer in (*weights.buffers, given, units, lost, out))
    return Multiplied(out.host(), units.host(), counted(lost)[0], witnesses, intact)


def codebooks(mode: str) -> tuple[str, ...]:
    """Formats of a mode whose codebooks the host uploads."""
    return (mode,) if mode in GRIDS else ()
