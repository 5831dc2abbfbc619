"""Combining expert rows: every token's rows weighted and added, and the shared expert behind its sigmoid.

For token t, column c, with a row and a weight for each of the k ranks:

    s = 0;    s = fma(w[t, r], rows[t, r, c], s) for r = 0, 1, ... k - 1
    out = fma(sigmoid(gate[t]), shared[t, c], s),    sigmoid(g) = 1 / (1 + 2^(-g log2(e)))

each operation rounded to FP32 in that order, log2(e) as FP32 3fb8aa3b, exp2 the project's own (include/exp2.cuh).
Without a shared expert out = s. Every (token, rank) pair owns a row, so nothing is added in an open order: the bits
do not depend on where the rows were computed, in which order, or on the grid. A sum of zeros is +0, since s starts
at +0.

Outputs that are not finite are counted in `lost`; a weight of 0 does not hide a row that is not finite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.counts import check_counted, counted
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix

THREADS = 128
_VECTOR = 4  # columns of a thread


class Combined(NamedTuple):
    """Weighted sums of the rows of tokens.

    Parameters
    ----------
    out
        float32 [T, n].
    lost
        How many outputs are not finite.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of combine.cu, for any sizes, with and without a shared expert."""
    return Kernel("combine", "combine", THREADS, 0, (("THREADS", THREADS),))


def launch(
    executor: Executor,
    rows: Buffer,
    weights: Buffer,
    out: Buffer,
    lost: Buffer,
    shared: Buffer | None = None,
    shared_gate: Buffer | None = None,
) -> Witness:
    """Queue the sum.

    Parameters
    ----------
    executor
        Where the buffers lie.
    rows
        float32 [T, k, n].
    weights
        float32 [T, k].
    out
        float32 [T, n], written.
    lost
        int32 [1], to which the number of outputs that are not finite is added.
    shared, shared_gate
        float32 [T, n] and [T], or neither.
    """
    tokens, ranks, columns = rows.shape
    grid = -(-tokens * (columns // _VECTOR) // THREADS)
    sizes = (np.int32(tokens), np.int32(ranks), np.int32(columns))
    return executor.launch(kernel(), (grid, 1, 1), (rows, weights, shared, shared_gate, out, lost, *sizes))


def run(
    executor: Executor,
    rows: np.ndarray,
    weights: np.ndarray,
    shared: np.ndarray | None = None,
    shared_gate: np.ndarray | None = None,
) -> Combined:
    """Combine host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    rows
        float32 [T, k, n], n a multiple of 4.
    weights
        float32 [T, k].
    shared, shared_gate
        float32 [T, n] and [T], or neither.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, and for one of `shared` and `shared_gate` without the other.
    """
    if rows.ndim != 3 or rows.dtype != np.float32 or min(rows.shape) < 1 or rows.shape[2] % _VECTOR:
        raise StrataError(
            f"rows are {rows.dtype} {rows.shape}, expected float32 [tokens, ranks, multiple of {_VECTOR}]"
        )
    tokens, ranks, columns = rows.shape
    check_counted(tokens * columns, f"{tokens} tokens of {columns} outputs")
    if (shared is None) != (shared_gate is None):
        given, missing = ("shared", "shared_gate") if shared_gate is None else ("shared_gate", "shared")
        raise StrataError(f"{given} is given and {missing} is not: a shared expert needs both")
    buffers = {"rows": executor.array(rows, "rows")}
    wanted = (("weights", weights, (tokens, ranks)), ("shared", shared, (tokens, columns)))
    for name, x, shape in (*wanted, ("shared_gate", shared_gate, (tokens,))):
        if x is None:
            continue
        if x.shape != shape or x.dtype != np.float32:
            raise StrataError(f"{name} is {x.dtype} {x.shape}, expected float32 {shape}")
        buffers[name] = executor.array(x, name)
    out = executor.empty((tokens, columns), np.float32, name="out")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    witness = launch(
        executor, buffers["rows"], buffers["weights"], out, lost, buffers.get("shared"), buffers.get("shared_gate")
    )
    intact = all(buffer.guards_intact() for buffer in (*buffers.values(), out, lost))
    return Combined(out.host(), counted(lost)[0], [witness], intact)


DESCRIPTOR = Descriptor(
    name="combine",
    takes="combine",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
