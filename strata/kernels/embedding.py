"""Embeddings of tokens: rows of a matrix of block weights, or of halves, times a factor.

For row t with id e, and the value v of column c of row e of the matrix,

    out[t, c] = fl(v factor)

v is scale * code, which is exact; fl(scale code - offset) of formats with an offset (q5_1, q4_k, q5_k), as
`strata.formats` decodes them; and the half itself of f16. An id outside 0 .. vocab - 1 gives a row of NaN and counts
in `lost`. A row's bits follow from its id alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import device_table
from strata.kernels import linear_weights
from strata.kernels.counts import counted
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.linear_weights import LINEAR_FORMATS, Weights, linear_format

#: Formats of the matrix, and so the modes of the paths.
HALVES = "f16"
FORMATS = (*LINEAR_FORMATS, HALVES)
THREADS = 128
#: Values of a thread, of which a row has a multiple.
GROUP = 32
#: The number that GGUF files give halves; the source has it as TYPE_F16.
_TYPE_F16 = 1
_MOST = (1 << 31) - 1


class Embedded(NamedTuple):
    """Embeddings of tokens.

    Parameters
    ----------
    out
        float32 [rows, width].
    lost
        How many ids are outside the matrix.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def kernel(form: str) -> Kernel:
    """The kernel of a format.

    Parameters
    ----------
    form
        One of `FORMATS`.

    Raises
    ------
    StrataError
        For another format.
    """
    number, size = (_TYPE_F16, 0) if form == HALVES else (linear_format(form).ggml_type, device_table(form).nbytes)
    return Kernel("embedding", "embedding", THREADS, size, (("THREADS", THREADS), ("WEIGHTS", number)))


def upload(executor: Executor, form: str, blocks: np.ndarray, width: int) -> Weights:
    """Put a matrix on an executor.

    Parameters
    ----------
    executor
        Where it goes.
    form
        One of `FORMATS`.
    blocks
        uint8 [vocab, row bytes], every row whole blocks; of f16 two bytes a value.
    width
        Values of a row, a multiple of 32.

    Raises
    ------
    StrataError
        For another format, and for blocks that are not what a matrix of `width` values a row is.
    """
    if form != HALVES:
        return linear_weights.upload(executor, form, blocks, width)
    if width < 1 or width % GROUP:
        raise StrataError(f"{width} values in a row of {form}, expected a positive multiple of {GROUP}")
    if blocks.dtype != np.uint8 or blocks.ndim != 2 or not 1 <= len(blocks) <= _MOST or blocks.shape[1] != 2 * width:
        raise StrataError(f"weights of {form} are {blocks.dtype} {blocks.shape}, expected uint8 [vocab, {2 * width}]")
    return Weights(form, executor.array(blocks, f"weights of {form}"), None, len(blocks), width)


def blocks_of(rows: int, width: int) -> int:
    """Blocks of a launch.

    Raises
    ------
    StrataError
        For sizes that do not fit, and for more blocks than a launch may have.
    """
    if rows < 1 or width < 1 or width % GROUP:
        raise StrataError(f"{rows} rows of {width} values, expected 1 or more of a multiple of {GROUP}")
    found = -(-rows * (width // GROUP) // THREADS)
    if found > _MOST:
        raise StrataError(f"{rows} rows of {width} values: {found} blocks, expected up to {_MOST}")
    return found


def launch(
    executor: Executor, weights: Weights, ids: Buffer, out: Buffer, lost: Buffer, rows: int, factor: float
) -> Witness:
    """Queue the embeddings of some tokens.

    Parameters
    ----------
    executor
        Where the buffers lie.
    weights
        The matrix, of one of `FORMATS`: of `upload`, or of `linear_weights.upload`.
    ids
        int32 [rows].
    out
        float32 [rows, width], written.
    lost
        int32 [1], to which the number of ids outside the matrix is added.
    rows
        How many.
    factor
        What every value is multiplied with, rounded to FP32.

    Raises
    ------
    StrataError
        For another format and for sizes that do not fit.
    """
    row_bytes = 2 * weights.width if weights.format == HALVES else weights.row_bytes
    sizes = (rows, weights.width, row_bytes, weights.outputs)
    grid = (blocks_of(rows, weights.width), 1, 1)
    args = (weights.blocks, weights.table, ids, out, lost, *map(np.int32, sizes), np.float32(factor))
    return executor.launch(kernel(weights.format), grid, args)


def run(executor: Executor, form: str, blocks: np.ndarray, ids: np.ndarray, width: int, factor: float) -> Embedded:
    """The embeddings of host ids.

    Parameters
    ----------
    executor
        Where it runs.
    form, blocks, width
        See `upload`.
    ids
        int32 [rows].
    factor
        What every value is multiplied with, rounded to FP32.

    Raises
    ------
    StrataError
        For shapes, dtypes and sizes that do not fit.
    """
    if ids.ndim != 1 or ids.dtype != np.int32 or not len(ids):
        raise StrataError(f"ids are {ids.dtype} {ids.shape}, expected int32 [rows]")
    weights = upload(executor, form, blocks, width)
    given = executor.array(ids, "ids")
    out = executor.empty((len(ids), width), np.float32, name="out")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    witness = launch(executor, weights, given, out, lost, len(ids), factor)
    intact = all(buffer.guards_intact() for buffer in (*weights.buffers, given, out, lost))
    return Embedded(out.host(), counted(lost)[0], [witness], intact)


DESCRIPTOR = Descriptor(
    name="embedding",
    takes="embedding",
    modes=FORMATS,
    tiers=("simt",),
    kernels=lambda path: [kernel(path.mode)],
    limits=lambda path, entry, arch: without_matrix(),
    codebooks=lambda mode: (mode,) if mode != HALVES and device_table(mode).size else (),
)
