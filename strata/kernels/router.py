"""The router: which experts a token goes to, and with what weight.

The k largest of a token's E logits x are chosen in order, of equal ones the smaller id first (-0 equals +0). The
choice looks at the logits themselves, so two that differ are never a tie, however close their exponentials lie.
With m the largest logit,

    p_e = 2^((x_e - m) log2(e)),    s_r = p_r / total,    w_r = s_r / max(sum of the chosen s, 2^-14)

every operation rounded to FP32 in that order, log2(e) as FP32 3fb8aa3b, exp2 the project's own (include/exp2.cuh).
total: first the sums over experts l, l + 32, l + 64, ... in that order for each l below 32, each from +0, then sums
of those in pairs l and l + 16, l and l + 8, ... l and l + 1. The chosen s are added in rank order, from +0. Both
weights are divided, not multiplied by a reciprocal. As s_0 is at least 1/1024, 2^-14 is never the larger.

A NaN counts as the smallest finite float and is reported in `nans`; an infinity counts as the outermost finite
float of its sign and is reported in `infinities`. So weights are finite whatever comes in: of several +infinity each
gets the same weight, and a row of NaNs chooses experts 0 to k - 1, equally.

A token's bits depend on its own logits alone: not on other tokens, the grid, or the path that computes experts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.counts import check_counted, counted
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix

WARPS = 4
#: Experts of a layer, and experts of a token, at most.
MOST_EXPERTS = 1024
MOST_RANKS = 32
#: Blocks of a launch at most; warps then take further tokens.
_MOST_BLOCKS = 1 << 16


class Routing(NamedTuple):
    """Experts of tokens.

    Parameters
    ----------
    ids
        int32 [T, k], distinct in a row.
    weights
        float32 [T, k], of a row summing to about 1.
    nans, infinities
        How many logits were that.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    ids: np.ndarray
    weights: np.ndarray
    nans: int
    infinities: int
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of router.cu, for any E and k."""
    return Kernel("router", "router", WARPS * 32, 0, (("MOST_EXPERTS", MOST_EXPERTS), ("WARPS", WARPS)))


def launch(
    executor: Executor, logits: Buffer, ids: Buffer, weights: Buffer, counts: Buffer, blocks: int | None = None
) -> Witness:
    """Queue the router.

    Parameters
    ----------
    executor
        Where the buffers lie.
    logits
        float32 [T, E].
    ids
        int32 [T, k], written.
    weights
        float32 [T, k], written.
    counts
        int32 [2], to which the numbers of NaNs and infinities are added.
    blocks
        Blocks of the launch, None for enough that each warp has a token, up to a limit.
    """
    tokens, experts = logits.shape
    grid = min(-(-tokens // WARPS), _MOST_BLOCKS) if blocks is None else blocks
    sizes = (np.int32(tokens), np.int32(experts), np.int32(ids.shape[1]))
    return executor.launch(kernel(), (grid, 1, 1), (logits, ids, weights, counts, *sizes))


def run(executor: Executor, logits: np.ndarray, ranks: int, blocks: int | None = None) -> Routing:
    """Route tokens.

    Parameters
    ----------
    executor
        Where it runs.
    logits
        float32 [T, E], E from 1 to 1024.
    ranks
        Experts of a token, k, from 1 to min(E, 32).
    blocks
        See `launch`.

    Raises
    ------
    StrataError
        For shapes, dtypes and sizes that do not fit.
    """
    if logits.ndim != 2 or logits.dtype != np.float32 or logits.shape[0] < 1:
        raise StrataError(f"logits are {logits.dtype} {logits.shape}, expected float32 [tokens, experts]")
    tokens, experts = logits.shape
    if not 1 <= experts <= MOST_EXPERTS:
        raise StrataError(f"{experts} experts, expected 1 to {MOST_EXPERTS}")
    if not 1 <= ranks <= min(experts, MOST_RANKS):
        raise StrataError(f"{ranks} experts a token, expected 1 to {min(experts, MOST_RANKS)}")
    if blocks is not None and not 1 <= blocks <= _MOST_BLOCKS:
        raise StrataError(f"{blocks} blocks, expected 1 to {_MOST_BLOCKS}")
    check_counted(logits.size, f"{tokens} tokens of {experts} logits")
    source = executor.array(logits, "logits")
    ids = executor.empty((tokens, ranks), np.int32, name="ids")
    weights = executor.empty((tokens, ranks), np.float32, name="weights")
    counts = executor.array(np.zeros(2, np.int32), "counts", written=True)
    witness = launch(executor, source, ids, weights, counts, blocks)
    intact = all(buffer.guards_intact() for buffer in (source, ids, weights, counts))
    nans, infinities = counted(counts)
    return Routing(ids.host(), weights.host(), nans, infinities, [witness], intact)


DESCRIPTOR = Descriptor(
    name="router",
    takes="router",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
