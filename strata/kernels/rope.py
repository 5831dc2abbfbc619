"""Rotary position embedding: each head's dims turned in pairs, by angles that grow with the row's position.

For row t at position p, a head x of d dims, and pair i of its dims i and i + d/2, with c and s the table's cosine and
sine of p and i:

    out[i]       = fma(x[i], c, -(x[i + d/2] s))
    out[i + d/2] = fma(x[i + d/2], c, x[i] s)

the products with s rounded to FP32, and each fma once. The tables hold the true cosines and sines of the angles
p base^(-2i/d), each rounded once to FP32 (`strata.engine.rope_tables`), so they are the same bytes on every machine. A
row's bits follow from the row, its position and the tables alone: not from other rows, the grid, or whether the output
takes the place of the input.

References
----------
J. Su, Y. Lu, S. Pan, A. Murtadha, B. Wen, Y. Liu, RoFormer: Enhanced Transformer with Rotary Position Embedding,
arXiv:2104.09864, in the form that pairs dims half a head apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix

THREADS = 128
#: Pairs of a thread; a head has a multiple of that many.
FOUR = 4
#: Words of a row of steps, of which the first is the position.
WORDS = 4
_MOST_BLOCKS = (1 << 31) - 1


class Roped(NamedTuple):
    """Turned heads.

    Parameters
    ----------
    out
        float32 [T, heads, d].
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of rope.cu, for any sizes."""
    return Kernel("rope", "rope", THREADS, 0, (("THREADS", THREADS),))


def blocks(rows: int, heads: int, d: int) -> int:
    """Blocks of a launch.

    Raises
    ------
    StrataError
        For sizes that do not fit, and for more blocks than a launch may have.
    """
    if min(rows, heads) < 1:
        raise StrataError(f"{rows} rows of {heads} heads, expected at least 1 of 1")
    if d < 1 or d % (2 * FOUR):
        raise StrataError(f"heads of {d} dims, expected a multiple of {2 * FOUR}")
    found = -(-rows * heads * (d // (2 * FOUR)) // THREADS)
    if found > _MOST_BLOCKS:
        raise StrataError(f"{rows} rows of {heads} heads of {d} dims: {found} blocks, expected up to {_MOST_BLOCKS}")
    return found


def launch(
    executor: Executor,
    x: Buffer,
    steps: Buffer,
    cos: Buffer,
    sin: Buffer,
    out: Buffer,
    rows: int,
    heads: int,
    d: int,
) -> Witness:
    """Queue the turn of some rows.

    Parameters
    ----------
    executor
        Where the buffers lie.
    x
        float32 [T, heads, d].
    steps
        int32 [T, 4], the first word of each row its position, which the tables must have.
    cos, sin
        float32 [positions, d/2].
    out
        float32 [T, heads, d], written; it may be `x`.
    rows, heads, d
        The rows to turn, the heads of each, and the dims of a head, a multiple of 8.

    Raises
    ------
    StrataError
        For sizes that do not fit.
    """
    grid = (blocks(rows, heads, d), 1, 1)
    return executor.launch(kernel(), grid, (x, steps, cos, sin, out, np.int32(rows), np.int32(heads), np.int32(d)))


def run(
    executor: Executor,
    x: np.ndarray,
    steps: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    in_place: bool = False,
) -> Roped:
    """Turn host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    x
        float32 [T, heads, d], d a multiple of 8.
    steps
        int32 [T, 4], the first word of each row its position.
    cos, sin
        float32 [positions, d/2].
    in_place
        Whether the output takes the place of the input.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, and for a position that the tables do not have.
    """
    if x.ndim != 3 or x.dtype != np.float32 or min(x.shape) < 1 or x.shape[2] % (2 * FOUR):
        raise StrataError(f"x is {x.dtype} {x.shape}, expected float32 [rows, heads, multiple of {2 * FOUR}]")
    rows, heads, d = x.shape
    blocks(rows, heads, d)
    if steps.shape != (rows, WORDS) or steps.dtype != np.int32:
        raise StrataError(f"steps is {steps.dtype} {steps.shape}, expected int32 {(rows, WORDS)}")
    for name, table in (("cos", cos), ("sin", sin)):
        if table.ndim != 2 or table.dtype != np.float32 or table.shape[1] != d // 2 or table.shape != cos.shape:
            raise StrataError(
                f"{name} is {table.dtype} {table.shape}, expected float32 {(cos.shape[0], d // 2)} of positions"
            )
    outside = (steps[:, 0] < 0) | (steps[:, 0] >= len(cos))
    if outside.any():
        raise StrataError(f"position {steps[outside.argmax(), 0]}, expected 0 to {len(cos) - 1}, which the tables have")
    source = executor.array(x, "x", written=in_place)
    step, cosines, sines = executor.array(steps, "steps"), executor.array(cos, "cos"), executor.array(sin, "sin")
    out = source if in_place else executor.empty(x.shape, np.float32, name="out")
    witness = launch(executor, source, step, cosines, sines, out, rows, heads, d)
    intact = all(buffer.guards_intact() for buffer in (source, step, cosines, sines, out))
    return Roped(out.host(), [witness], intact)


DESCRIPTOR = Descriptor(
    name="rope",
    takes="rope",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
