"""Block selection with a warp for each query and block: the baseline.

A lane holds the dims 4l .. 4l+3 of a key k and a head q, and makes

    p = fma(q3, k3, fma(q2, k2, fma(q1, k1, q0 k0)))

The dot is the sum of the 32 p in pairs of lanes l and l + 16, l and l + 8, ... l and l + 1. Scores and the chosen cells
follow as `strata.kernels.selection` and `strata.kernels.topk_kernels` say.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels import selection, topk_kernels
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path
from strata.kernels.selection import DIMS, HEADS, Inputs, Outputs, Result

WARPS = 8


def scorer() -> Kernel:
    """The kernel that makes scores."""
    defines = (("WARPS", WARPS), ("HEADS", HEADS), ("DIMS", DIMS))
    return Kernel("block_select_warp", "block_scores_warp", WARPS * 32, 0, defines)


def kernels(path: Path) -> list[Kernel]:
    """Every kernel that the path may launch."""
    return [scorer(), *topk_kernels.kernels()]


def workspace(executor: Executor, path: Path, inputs: Inputs) -> tuple[Buffer, ...]:
    """Buffers that a launch needs beside inputs and outputs: none."""
    return ()


def score(
    executor: Executor, path: Path, inputs: Inputs, scores: Buffer, work: tuple[Buffer, ...] = ()
) -> list[Witness]:
    """Queue the scorer: a warp for each query and each block that is reached. Raises StrataError for another's path."""
    if path.operation != "block_select_warp":
        raise StrataError(f"{path.name} cannot run as block_select_warp")
    grid = (-(-inputs.reach // WARPS), inputs.queries, 1)
    arguments = (inputs.q, inputs.keys, inputs.steps, scores, np.int32(inputs.capacity))
    return [executor.launch(scorer(), grid, arguments)]


def launch(
    executor: Executor,
    path: Path,
    inputs: Inputs,
    made: Outputs,
    work: tuple[Buffer, ...] = (),
    topk: str | None = None,
) -> list[Witness]:
    """Queue scores and the choice of cells. work: as `workspace` made it; topk: see `topk_kernels.choose`."""
    return topk_kernels.follow(executor, lambda: score(executor, path, inputs, made.scores, work), inputs, made, topk)


def run(
    executor: Executor,
    path: Path,
    q: np.ndarray,
    keys: np.ndarray,
    steps: np.ndarray,
    cap: int | None = None,
    reach: int | None = None,
    topk: str | None = None,
) -> Result:
    """Block selection of host arrays, see `selection.prepare`; topk: see `topk_kernels.choose`.

    Raises StrataError for bad ones.
    """
    inputs = selection.prepare(executor, q, keys, steps, cap, reach)
    return selection.run(executor, lambda i, made: launch(executor, path, i, made, topk=topk), inputs)


DESCRIPTOR = Descriptor(
    name="block_select_warp",
    takes="block_select",
    modes=("fp32",),
    tiers=("simt",),
    kernels=kernels,
    limits=lambda path, entry, arch: without_matrix(),
)
