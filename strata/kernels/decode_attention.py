"""The FP32 attention that prompt attention replaces: one query at a time, no tensor cores.

A block takes 64 selected cells of one query and KV head. Score: lane l holds dims 8l..8l+7, a chain of
fused multiply-adds, then a butterfly over the warp (16, 8, 4, 2, 1), times log2(e)/16. Weight:
2^(x - m), m the chunk's maximum. Values: thread t owns dim t, cells ascending. A second kernel
merges the chunks in order: w = 2^(m_c - M), acc = fma(sum_c, w, acc), out = acc / L.

K and V are dequantised in FP32, exactly: code times a binary16 scale has at most 19 bits. Scores are
plain FP32, so |q| beyond about 1e34 overflows here, as in any FP32 kernel; prompt attention does not.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.attention import Inputs, Result, prepare
from strata.kernels.attention import run as run_once
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path
from strata.kernels.pool import GROUPS, HEAD_DIM, MODES, Pool, mode_formats

THREADS = 256
CELLS = 64  # of a chunk
#: Queries of one pair of launches: what bounds the workspace, and how the published caller runs it.
BATCH = 32


def shared_bytes(mode: str, group: int) -> int:
    """Dynamic shared memory of a chunk block, in bytes: q, weights, pool rows, V scales.

    Parameters
    ----------
    mode
        The mode of the pool.
    group
        Query heads that share a KV head.
    """
    scales = {0: 0, 1: HEAD_DIM // 64, 2: HEAD_DIM // 32}[mode_formats(mode)[1].code]
    return group * HEAD_DIM * 4 + group * CELLS * 4 + CELLS * 8 + CELLS * scales * 4


def kernels(mode: str, group: int) -> tuple[Kernel, Kernel]:
    """The chunk and the merge kernel of a mode.

    Parameters
    ----------
    mode
        The mode of the pool.
    group
        Query heads that share a KV head: 4, 8 or 12.

    Raises
    ------
    StrataError
        For a mode or a group that no kernel is built for.
    """
    k, v = mode_formats(mode)
    if group not in GROUPS:
        raise StrataError(f"decode_attention: group {group}, expected one of {GROUPS}")
    size = shared_bytes(mode, group)
    defines = (("TIER", 60), ("K_FORMAT", k.code), ("V_FORMAT", v.code), ("GROUP", group), ("SHARED_BYTES", size))
    chunk = Kernel("decode_attention", "decode_attention_chunk", THREADS, size, defines)
    # The merge knows no format: every mode shares the one built with fp16's macros.
    merge = chunk if mode == "fp16" else kernels("fp16", group)[0]
    return chunk, Kernel("decode_attention", "decode_attention_merge", THREADS, 0, merge.defines)


class Workspace:
    """Partial results of `BATCH` queries, poisoned; every batch uses them again.

    Its buffers are `sums`, float32 [slots, group, 256], and `maxima` and `weights`, float32 [slots, group], where a
    slot is a chunk of a query and a KV head.

    Parameters
    ----------
    executor
        Where the buffers are made.
    inputs
        What will be computed, whose sizes they have.
    """

    def __init__(self, executor: Executor, inputs: Inputs) -> None:
        self.chunks = -(-inputs.cap // CELLS)
        slots = min(BATCH, inputs.queries) * inputs.kv_heads * self.chunks
        make = executor.empty
        self.sums = make((slots, inputs.group, HEAD_DIM), np.float32, poison=POISON_WORKSPACE, name="sums")
        self.maxima = make((slots, inputs.group), np.float32, poison=POISON_WORKSPACE, name="maxima")
        self.weights = make((slots, inputs.group), np.float32, poison=POISON_WORKSPACE, name="weights")

    def guards_intact(self) -> bool:
        """False when a byte beside one of its buffers was overwritten."""
        return all(buffer.guards_intact() for buffer in (self.sums, self.maxima, self.weights))


def launch(executor: Executor, path: Path, inputs: Inputs, out: Buffer, workspace: Workspace) -> list[Witness]:
    """Launch a path on prepared inputs, `BATCH` queries at a time.

    Parameters
    ----------
    executor
        Where the inputs lie.
    path
        A path of this operation and of the pool's mode.
    inputs
        See `attention.prepare`.
    out
        float32 [queries, heads, 256], written in full.
    workspace
        The workspace of the same inputs.

    Returns
    -------
    list of Witness
        Of the chunk and the merge kernel of each batch.

    Raises
    ------
    StrataError
        For a path of another operation or mode.
    """
    if path.operation != "decode_attention" or path.mode != inputs.mode:
        raise StrataError(f"{path.name} cannot run on a {inputs.mode} pool as decode_attention")
    chunk, merge = kernels(path.mode, inputs.group)
    pool, work = inputs.pool, workspace
    witnesses = []
    for first in range(0, inputs.queries, BATCH):
        count = min(BATCH, inputs.queries - first)
        args = (
            inputs.q, pool.k, pool.k_scale, pool.v, pool.v_scale, pool.table, inputs.ids, inputs.steps,
            work.sums, work.maxima, work.weights, np.int32(inputs.cap), np.int32(inputs.page_size), np.int32(first),
        )  # fmt: skip
        witnesses.append(executor.launch(chunk, (work.chunks, inputs.kv_heads, count), args))
        merged = (
            work.sums, work.maxima, work.weights, out,
            np.int32(inputs.kv_heads), np.int32(work.chunks), np.int32(first),
        )  # fmt: skip
        witnesses.append(executor.launch(merge, (inputs.kv_heads * inputs.group, count, 1), merged))
    return witnesses


def run(executor: Executor, path: Path, q: np.ndarray, pool: Pool, ids: np.ndarray, steps: np.ndarray) -> Result:
    """FP32 attention of host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of this operation and of the pool's mode.
    q
        float32 [queries, heads, 256].
    pool
        Keys and values.
    ids
        int32 [queries, cap], logical cells.
    steps
        int32 [queries, 4], of which entry 3 is the number of ids to read.

    Raises
    ------
    StrataError
        For arrays that do not fit, see `attention.prepare`, and for a path of another operation or mode.
    """
    inputs = prepare(executor, q, pool, ids, steps)
    workspace = Workspace(executor, inputs)
    result = run_once(executor, lambda i, out: launch(executor, path, i, out, workspace), inputs)
    return Result(result.out, result.witnesses, result.guards_ok and workspace.guards_intact())


DESCRIPTOR = Descriptor(
    name="decode_attention",
    takes="attention",
    modes=MODES,
    tiers=("simt",),
    kernels=lambda path: [kernel for group in GROUPS for kernel in kernels(path.mode, group)],
    limits=lambda path, entry, arch: without_matrix(),
)
