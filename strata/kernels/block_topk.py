"""The top-k of block selection alone, of scores that are given: hostile ones, which no scorer would make.

What is chosen, and how, is said in `strata.kernels.topk_kernels`.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Executor, StrataError
from strata.kernels import topk_kernels
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.selection import UNWRITTEN, Result, check_array, check_steps


def run(
    executor: Executor,
    scores: np.ndarray,
    steps: np.ndarray,
    cap: int | None = None,
    reach: int | None = None,
    kernel: str | None = None,
) -> Result:
    """Choose cells by given scores.

    Parameters
    ----------
    scores
        float32 [n_q, capacity], of row i the first n_bid are read.
    steps, cap, reach
        See `selection.check_steps`.
    kernel
        `short`, `long`, or None for the one that the reach asks for.

    Returns
    -------
    Result
        With the scores that were given.

    Raises
    ------
    StrataError
        For shapes, dtypes, sizes and steps that do not fit, and for a kernel that cannot run.
    """
    check_array("scores", scores)
    if scores.ndim != 2 or scores.dtype != np.float32:
        raise StrataError(f"scores are {scores.dtype} {scores.shape}, expected float32 [queries, blocks]")
    cap, reach = check_steps(steps, scores.shape[0], scores.shape[1], cap, reach)
    topk_kernels.choose(reach, kernel)  # refused before anything is copied
    given, step = executor.array(scores, "scores"), executor.array(steps, "steps")
    ids = executor.empty((scores.shape[0], cap), np.int32, poison=UNWRITTEN, name="ids")
    witness = topk_kernels.launch(executor, given, step, ids, reach, kernel)
    intact = all(buffer.guards_intact() for buffer in (given, step, ids))
    return Result(given.host(), ids.host(), [witness], intact)


DESCRIPTOR = Descriptor(
    name="block_topk",
    takes="block_topk",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: topk_kernels.kernels(),
    limits=lambda path, entry, arch: without_matrix(),
)
