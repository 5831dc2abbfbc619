"""Dense products of FP16 weights and FP32 activations, for tensors that a file keeps as FP16.

For output r of row t, a warp adds; lane l has values k = 128 j + 4 l .. 128 j + 4 l + 3 of both rows, j = 0, 1, ...:

    s = fma(x[t, k], w[r, k], s)    k ascending, from +0
    out = the sum of the 32 s by halves: lanes 16, 8, 4, 2 and 1 apart

A weight is exact in FP32. The bits of an output follow from its two rows alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.linear_weights import MOST
from strata.kernels.path import Path

THREADS = 256
#: Rows and outputs of a block, and values that a lane takes at a time.
ROWS, OUTPUTS, VECTOR = 8, THREADS // 32, 4


class Weights(NamedTuple):
    """A matrix of FP16 weights on an executor.

    Parameters
    ----------
    values
        uint16 [outputs, width], binary16 bits.
    outputs, width
        Rows of the matrix, and values of a row.
    """

    values: Buffer
    outputs: int
    width: int


class Multiplied(NamedTuple):
    """Products of rows.

    Parameters
    ----------
    out
        float32 [rows, outputs].
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of linear_f16.cu."""
    return Kernel("linear_f16", "linear_f16", THREADS, 0, (("TIER", 75), ("THREADS", THREADS), ("ROWS", ROWS)))


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches."""
    return [kernel()]


def upload(executor: Executor, values: np.ndarray) -> Weights:
    """Put a matrix on an executor.

    Parameters
    ----------
    executor
        Where it goes.
    values
        uint16 [outputs, width], binary16 bits, width a multiple of 4.

    Raises
    ------
    StrataError
        For another dtype or shape.
    """
    whole = values.ndim == 2 and 1 <= min(values.shape) <= max(values.shape) <= MOST
    if values.dtype != np.uint16 or not whole or values.shape[1] % VECTOR:
        raise StrataError(
            f"weights of f16 are {values.dtype} {values.shape}, expected uint16 [outputs, a multiple of {VECTOR}]"
        )
    return Weights(executor.array(values, "weights of f16"), *values.shape)


def launch(executor: Executor, weights: Weights, x: Buffer, out: Buffer, rows: int, first: int = 0) -> Witness:
    """Queue a product.

    Parameters
    ----------
    executor
        Where the buffers lie.
    weights
        The matrix.
    x
        float32 [first + rows or more, width].
    out
        float32 [rows, outputs], written.
    rows
        How many rows.
    first
        The first of them in `x`.
    """
    grid = (-(-weights.outputs // OUTPUTS), -(-rows // ROWS), 1)
    sizes = map(np.int32, (weights.outputs, weights.width, rows, first))
    return executor.launch(kernel(), grid, (weights.values, x, out, *sizes))


def run(executor: Executor, path: Path, values: np.ndarray, x: np.ndarray) -> Multiplied:
    """Multiply host rows with a host matrix.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of this operation.
    values
        uint16 [outputs, width], binary16 bits, width a multiple of 4.
    x
        float32 [rows, width].

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit.
    """
    weights = upload(executor, values)
    if x.dtype != np.float32 or x.ndim != 2 or len(x) < 1 or x.shape[1] != weights.width:
        raise StrataError(f"rows are {x.dtype} {x.shape}, expected float32 [rows, {weights.width}]")
    given = executor.array(x, "x")
    out = executor.empty((len(x), weights.outputs), np.float32, poison=POISON_OUTPUT, name="out")
    witness = launch(executor, weights, given, out, len(x))
    intact = all(buffer.guards_intact() for buffer in (weights.values, given, out))
    return Multiplied(out.host(), [witness], intact)


DESCRIPTOR = Descriptor(
    name="linear_f16",
    takes="linear",
    modes=("f16",),
    tiers=("simt",),
    kernels=kernels,
    limits=lambda path, entry, arch: without_matrix(),
)
