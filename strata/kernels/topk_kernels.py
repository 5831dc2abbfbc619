"""Which cells a query attends to: the exact top-k over scores of blocks, as every operation of block selection has it.

The cells of a query are ordered: first those behind the last complete block; then those of complete blocks by the
block's score, the highest first, and of equal scores by index. The first `width` are chosen and written ascending.
So a block may be cut: then only its first cells are chosen. A query with no more cells than its width chooses all.

Scores are compared as key(s): +0 and -0 are equal, a NaN lies below every number, an infinity is a number like any
other. Complete blocks weigh four cells each, so with r cells to choose among them ceil(r/4) blocks are needed, and only
the last of these is cut. The key of the last needed block, the threshold, is found by a radix select in three
passes; the blocks above it are chosen, and of those at it the first in order of index.

Two kernels give the same ids. `short` holds a query's scores in registers, up to `SHORT_BLOCKS` of them; `long` reads
them again in each of five passes. Which of them runs follows from the reach of a launch, never from the capacity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.selection import Inputs, Outputs

KERNELS = ("short", "long")
#: Threads of a block: few, so that several blocks share a multiprocessor and one works while another waits; many, so
#: that few queries of many blocks keep memory busy.
SHORT_THREADS = 256
LONG_THREADS = 1024
#: Scores that a thread of the short kernel holds.
EACH = 32
#: Blocks that the short kernel can reach: those of 32,768 cells.
SHORT_BLOCKS = SHORT_THREADS * EACH
#: Bins of a pass of the radix select.
BINS = 1 << 11


def shared_bytes(threads: int) -> int:
    """Shared memory of a block: a histogram, what a pass found, counts of the warps. `struct Layout` of the source."""
    return BINS * 4 + 2 * 4 + threads // 32 * 2 * 4


def kernel(name: str) -> Kernel:
    """The kernel `short` or `long`. Raises StrataError for another name."""
    if name not in KERNELS:
        raise StrataError(f"top-k kernel {name!r}: expected {' or '.join(KERNELS)}")
    short = name == "short"
    threads = SHORT_THREADS if short else LONG_THREADS
    size = shared_bytes(threads)
    # Three blocks of the short kernel share the registers of a multiprocessor: at most 80 registers a thread.
    defines = (
        ("THREADS", threads),
        ("EACH", EACH if short else 0),
        ("MIN_BLOCKS", 3 if short else 1),
        ("SHARED_BYTES", size),
    )
    return Kernel("block_topk", "block_topk", threads, size, defines)


def kernels() -> list[Kernel]:
    """Both."""
    return [kernel(name) for name in KERNELS]


def choose(reach: int, asked: str | None = None) -> str:
    """The kernel for a launch that reaches so many blocks: the one asked for, else `short` where it can.

    Raises
    ------
    StrataError
        For a name that no kernel has, and where `short` is asked for and cannot.
    """
    if asked is None:
        return "short" if reach <= SHORT_BLOCKS else "long"
    kernel(asked)
    if asked == "short" and reach > SHORT_BLOCKS:
        raise StrataError(f"the short top-k for a reach of {reach} blocks, expected up to {SHORT_BLOCKS}")
    return asked


def launch(
    executor: Executor, scores: Buffer, steps: Buffer, ids: Buffer, reach: int, asked: str | None = None
) -> Witness:
    """Queue a kernel, a block for each query.

    Parameters
    ----------
    scores, steps, ids
        float32 [n_q, capacity], int32 [n_q, 4] and int32 [n_q, cap], see `selection.check_steps`.
    reach
        Complete blocks of the longest query, or more.
    asked
        See `choose`.

    Raises
    ------
    StrataError
        As `choose` does: a kernel that cannot reach so far would leave blocks out without a word.
    """
    (queries, capacity), cap = scores.shape, ids.shape[1]
    arguments = (scores, steps, ids, np.int32(capacity), np.int32(cap))
    return executor.launch(kernel(choose(reach, asked)), (queries, 1, 1), arguments)


def follow(
    executor: Executor, score: Callable[[], list[Witness]], inputs: Inputs, made: Outputs, asked: str | None = None
) -> list[Witness]:
    """Queue a scorer, and behind it the choice of cells by its scores.

    Parameters
    ----------
    score
        Queues the scorer, which writes `made.scores`.
    inputs, made
        As `selection.prepare` and `selection.outputs` made them.
    asked
        See `choose`.

    Raises
    ------
    StrataError
        As `choose` does, before anything is queued.
    """
    choose(inputs.reach, asked)
    return [*score(), launch(executor, made.scores, inputs.steps, made.ids, inputs.reach, asked)]
