"""Activations of dense products as int8: what `linear` and `linear_dp4a` read.

Groups of 32 values share a scale, as include/activation.cuh says: with amax = max |v| of a group,

    d = fl(amax / 127),    code = rint(fl(v fl(127 / amax)))  to nearest even

and a group of zeros, or one whose 127 / amax is infinite, has codes 0 and d = +0. A group with a NaN or an infinity has
codes 0 and d = NaN, so that every product of it is NaN, and is counted in `lost`.

A unit is 160 bytes for 128 values: four FP32 d, four int32 sums of the codes of a group, which products with an offset
need, and 128 int8 codes in order. Groups behind the end of a row are zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.counts import check_counted, counted

THREADS = 256
#: Values and bytes of a unit, and values that share a scale.
UNIT, UNIT_BYTES, GROUP = 128, 160, 32


class Quantised(NamedTuple):
    """Rows of codes.

    Parameters
    ----------
    units
        uint8 [rows, width / 128 rounded up, 160].
    lost
        How many groups hold a value that is not finite.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    units: np.ndarray
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def units_shape(rows: int, width: int) -> tuple[int, int, int]:
    """The shape of the units of some rows, uint8.

    Parameters
    ----------
    rows
        How many.
    width
        Values of a row.

    Raises
    ------
    StrataError
        For no row, and for a width that is no positive multiple of 32.
    """
    if rows < 1 or width < 1 or width % GROUP:
        raise StrataError(f"{rows} rows of {width} values, expected at least 1, of a positive multiple of {GROUP}")
    return rows, -(-width // UNIT), UNIT_BYTES


def kernel() -> Kernel:
    """The one kernel of linear_quantise.cu."""
    return Kernel("linear_quantise", "linear_quantise", THREADS, 0, (("TIER", 75), ("THREADS", THREADS)))


def quantise(executor: Executor, x: Buffer, units: Buffer, lost: Buffer, rows: int, width: int) -> Witness:
    """Queue the conversion.

    Parameters
    ----------
    executor
        Where the buffers lie.
    x
        float32 [rows, width].
    units
        uint8 of `units_shape`, written.
    lost
        int32 [1], to which the number of groups that are not finite is added.
    rows, width
        How many rows, and how many values a row, a multiple of 32.

    Raises
    ------
    StrataError
        As `units_shape`.
    """
    _, of_row, _ = units_shape(rows, width)
    grid = -(-rows * of_row // (THREADS // 32))
    return executor.launch(kernel(), (grid, 1, 1), (x, units, lost, np.int32(rows), np.int32(width)))


def run(executor: Executor, x: np.ndarray) -> Quantised:
    """Quantise host rows.

    Parameters
    ----------
    executor
        Where it runs.
    x
        float32 [rows, width], width a multiple of 32.

    Raises
    ------
    StrataError
        For another dtype or shape.
    """
    if x.dtype != np.float32 or x.ndim != 2:
        raise StrataError(f"rows are {x.dtype} {x.shape}, expected float32 [rows, a multiple of {GROUP}]")
    rows, width = x.shape
    shape = units_shape(rows, width)
    check_counted(rows * width // GROUP, f"{rows} rows of {width} values")
    given = executor.array(x, "x")
    units = executor.empty(shape, np.uint8, poison=POISON_WORKSPACE, name="units")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    witness = quantise(executor, given, units, lost, rows, width)
    intact = all(buffer.guards_intact() for buffer in (given, units, lost))
    return Quantised(units.host(), counted(lost)[0], [witness], intact)
