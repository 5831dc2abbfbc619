"""Block selection with tiles of queries and blocks, in place of the baseline's warps.

Scores and the chosen cells follow as `strata.kernels.selection` and `strata.kernels.topk_kernels` say; a tile ends at the
largest number of blocks of its queries. The dot d of a head q and a key k:

- `simt`: one accumulator from +0, d = fma(q[i], k[i], d) for i = 0 .. 127.

Sums in another order than the baseline's: where two blocks have nearly the same score, another may be chosen.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels import selection, topk_kernels
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import Limits, without_matrix
from strata.kernels.path import Path
from strata.kernels.required import Required
from strata.kernels.selection import DIMS, HEADS, Inputs, Outputs, Result

THREADS = 256
#: Queries and blocks of a tile, by tier.
TILES = {"simt": (32, 64)}
#: Shared memory of the scorer's block.
SHARED_BYTES = {"simt": 32 * (32 * HEADS + 64) * 4}


def scorer(tier: str) -> Kernel:
    """The kernel that makes scores. Raises StrataError for a tier without one."""
    if tier not in TILES:
        raise StrataError(f"block_select in tier {tier!r}: expected one of {', '.join(TILES)}")
    queries, blocks = TILES[tier]
    size = SHARED_BYTES[tier]
    defines = (
        ("TIER", 60), ("HEADS", HEADS), ("DIMS", DIMS), ("QUERIES", queries), ("BLOCKS", blocks),
        ("THREADS", THREADS), ("SHARED_BYTES", size),
    )  # fmt: skip
    return Kernel("block_select", f"block_scores_{tier}", THREADS, size, defines)


def kernels(path: Path) -> list[Kernel]:
    """Every kernel that a path may launch."""
    return [scorer(path.tier), *topk_kernels.kernels()]


def workspace(executor: Executor, path: Path, inputs: Inputs) -> tuple[Buffer, ...]:
    """Fresh poisoned buffers that a path's launch needs beside inputs and outputs: none for simt."""
    return ()


def score(
    executor: Executor, path: Path, inputs: Inputs, scores: Buffer, work: tuple[Buffer, ...] = ()
) -> list[Witness]:
    """Queue the scorer of a path. work: as `workspace` made it. Raises StrataError for another operation's path."""
    if path.operation != "block_select":
        raise StrataError(f"{path.name} cannot run as block_select")
    queries, blocks = TILES[path.tier]
    grid = (-(-inputs.reach // blocks), -(-inputs.queries // queries), 1)
    arguments = (inputs.q, inputs.keys, inputs.steps, scores, np.int32(inputs.queries), np.int32(inputs.capacity))
    return [executor.launch(scorer(path.tier), grid, arguments)]


def launch(
    executor: Executor,
    path: Path,
    inputs: Inputs,
    made: Outputs,
    work: tuple[Buffer, ...] = (),
    topk: str | None = None,
) -> list[Witness]:
    """Queue scores and the choice of cells. work: as `workspace` made it; topk: see `topk_kernels.choose`."""
    name = topk_kernels.choose(inputs.reach, topk)
    witnesses = score(executor, path, inputs, made.scores, work)
    return [*witnesses, topk_kernels.launch(executor, name, made.scores, inputs.steps, made.ids)]


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
    work = workspace(executor, path, inputs)
    return selection.run(executor, lambda i, made: launch(executor, path, i, made, work, topk), inputs, work)


def _limits(path: Path, entry: str, arch: int) -> Limits:
    return without_matrix()


DESCRIPTOR = Descriptor(
    name="block_select",
    takes="block_select",
    modes=("fp32",),
    tiers=("simt",),
    kernels=kernels,
    limits=_limits,
    replaces="block_select_warp",
    required=(Required("select_bell", ("context", "queries"), ((4096, 512), (139264, 8))),),
)
