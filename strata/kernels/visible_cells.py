"""Which cells the queries of a chunk see, written on the device: nothing of the host enters but the chunk's first cell.

The cells of a sequence are numbered in its order, and query i of a chunk writes cell c = first + i. It sees all cells
up to its own in a global layer, and the last `window` of them in a local one:

    steps_global[i] = (c, 0, 0, c + 1)
    steps_local[i]  = (c, 0, 0, width),                width = min(c + 1, window)
    ids_local[i, j] = c + 1 - width + j,               j = 0 .. width - 1; words behind stay as they are

Steps are as attention and rope read them: the cell, which is the query's position, two words that are not used, and
how many cells it sees. Integers, so there is nothing to round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix

THREADS = 128
#: Ids of a thread.
EACH = 4
#: Words of a row of steps.
WORDS = 4
#: Bits of every id that nothing was written to, where host arrays are asked for.
UNWRITTEN = POISON_OUTPUT
#: The last cell: one more is counted in an int32.
LAST = (1 << 31) - 2
_MOST_BLOCKS = (1 << 31) - 1


class Visible(NamedTuple):
    """What some queries see.

    Parameters
    ----------
    steps_global, steps_local
        int32 [T, 4].
    ids_local
        int32 [T, window]; of row i the first steps_local[i, 3] are cells, and every word behind is `UNWRITTEN`.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    steps_global: np.ndarray
    steps_local: np.ndarray
    ids_local: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of visible_cells.cu, for any rows and any window."""
    return Kernel("visible_cells", "visible_cells", THREADS, 0, (("EACH", EACH), ("THREADS", THREADS)))


def blocks(rows: int, window: int) -> int:
    """Blocks of a launch.

    Raises
    ------
    StrataError
        For sizes that do not fit, and for more blocks than a launch may have.
    """
    if rows < 1:
        raise StrataError(f"{rows} rows, expected 1 or more")
    if not 1 <= window <= LAST + 1:
        raise StrataError(f"a window of {window} cells, expected 1 to {LAST + 1}")
    found = rows * -(-window // (THREADS * EACH))
    if found > _MOST_BLOCKS:
        raise StrataError(f"{rows} rows and a window of {window}: {found} blocks, expected up to {_MOST_BLOCKS}")
    return found


def launch(
    executor: Executor,
    first: Buffer,
    steps_global: Buffer,
    steps_local: Buffer,
    ids_local: Buffer,
    rows: int,
    window: int,
) -> Witness:
    """Queue the steps and ids of a chunk.

    Parameters
    ----------
    executor
        Where the buffers lie.
    first
        int32 [1], the cell of the first row: 0 or more, and at most 2^31 - 1 - T.
    steps_global, steps_local
        int32 [T, 4], written.
    ids_local
        int32 [T, window], of row i the first min(first + i + 1, window) written.
    rows, window
        T, and the cells that a local layer sees at most.

    Raises
    ------
    StrataError
        For sizes that do not fit.
    """
    grid = (blocks(rows, window), 1, 1)
    args = (first, steps_global, steps_local, ids_local, np.int32(rows), np.int32(window))
    return executor.launch(kernel(), grid, args)


def run(executor: Executor, first: int, rows: int, window: int) -> Visible:
    """What the queries of a chunk see, as host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    first
        The cell of the first row.
    rows, window
        See `launch`.

    Raises
    ------
    StrataError
        For sizes and cells that do not fit.
    """
    blocks(rows, window)
    if not 0 <= first <= LAST + 1 - rows:
        raise StrataError(f"a first cell of {first}, expected 0 to {LAST + 1 - rows} for {rows} rows")
    begin = executor.array(np.array([first], np.int32), "first")
    steps_global, steps_local, ids_local = (
        executor.empty(shape, np.int32, poison=UNWRITTEN, name=name)
        for name, shape in (
            ("steps_global", (rows, WORDS)),
            ("steps_local", (rows, WORDS)),
            ("ids_local", (rows, window)),
        )
    )
    witness = launch(executor, begin, steps_global, steps_local, ids_local, rows, window)
    intact = all(buffer.guards_intact() for buffer in (begin, steps_global, steps_local, ids_local))
    return Visible(steps_global.host(), steps_local.host(), ids_local.host(), [witness], intact)


DESCRIPTOR = Descriptor(
    name="visible_cells",
    takes="visible_cells",
    modes=("causal",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
