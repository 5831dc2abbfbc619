"""Prompt attention over selected cells of a quantised paged KV pool, on tensor cores.

For query i, head h on KV head j = h // group, over the selected resident cells c:

    out = sum_c w_c V[c, j] / sum_c w_c,    w_c = 2^(x_c - max x),    x_c = q.K[c, j] log2(e) / 16

K and V enter the tensor cores as exact binary16 numbers: int8 codes and 4-bit codes less 8 are small
integers, binary16 pools go in as they are. Everything that would not fit is a scale outside:

- q: each head is multiplied by 2^(14-e), e the exponent of its largest finite |q|, and split into
  hi = fp16(x) and lo = fp16(x - hi): about 22 bits. The power comes back in the softmax, where the
  difference of two raw scores is scaled, not the scores: raw scores stay below 2^60 for any finite
  q, so the softmax of a huge q is a maximum and not a NaN.
- K scales multiply FP32 sums of 32 or 64 dims, and the four warps' shares are added in order. The tensor
  core cuts its sum towards zero at each step, so sums are short (32 dims, 32 or 64 cells) and the small
  lo products go before the hi ones.
- V scales are folded into p, in a chunk and scale group: p' = w (scale 2^(14-e)), e the exponent of
  the largest finite |scale|. Scales have signs: the largest positive one bounds nothing. p' is split
  like q. The sums start at zero for every 32 cells. The accumulator is kept in units of 2^(e-14), so
  that they are added as they are; a change of e is a power of two in the factor alpha.
- K8V4 keeps V exact in the same way. (A published kernel rounds code * scale to binary16 instead,
  which costs 3e-4 of the output scale and gains nothing here.)

Per chunk the softmax keeps a running maximum m and sum: L = fma(L, alpha, sum), acc = fma(acc,
alpha 2^(e_old - e), T), alpha = 2^((m_old - m_new) q_down); out = acc 2^(e-14) / L. exp2 is the
project's own (include/exp2.cuh).
Cells past the width or on absent pages have weight 0; without any cell the output is 0; a NaN or
infinity in the inputs of a head gives NaN or infinity in its output.

Tiers: `sm80` uses m16n8k16 and cp.async, two chunks in flight; `sm75` uses pairs of m16n8k8 and plain
loads through registers, at most 64 KiB of shared memory, 64 cells a chunk for q4_0.

References
----------
M. Milakov, N. Gimelshein, "Online Normalizer Calculation for Softmax", arXiv:1805.02867, 2018: the running maximum and
sum.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.attention import Inputs, Result, prepare
from strata.kernels.attention import run as run_once
from strata.kernels.descriptor import Descriptor, SwitchRule
from strata.kernels.limits import Limits, fp16_products
from strata.kernels.path import Path
from strata.kernels.pool import GROUPS, MODES, Pool, mode_formats
from strata.kernels.required import Required
from strata.switches import PROMPT_OLD, PROMPT_Q4, PROMPT_Q4_TC

THREADS = 128
WARPS = 4
ROWS = 16  # heads, padded to the rows of a matrix tile
RING = 4  # chunks whose pool rows are held
#: Blocks that the registers of one multiprocessor must hold together: at most 168 registers a thread for 3.
#: On an H200 the fourth block gains 8 % for q4_0 and loses as much elsewhere, and makes the compiler spill.
MIN_BLOCKS = {75: 2, 80: 3}


def cells_per_chunk(mode: str, tier: int) -> int:
    """Cells of a chunk: 32, and 64 for q4_0 on sm75.

    Parameters
    ----------
    mode
        The mode of the pool.
    tier
        75 or 80.
    """
    return 64 if (mode, tier) == ("q4_0", 75) else 32


def shared_bytes(mode: str, tier: int) -> int:
    """Dynamic shared memory of a block, in bytes: the sum that `struct Layout` of the source makes.

    Parameters
    ----------
    mode
        The mode of the pool.
    tier
        75 or 80.
    """
    k, v = mode_formats(mode)
    cells, stages = cells_per_chunk(mode, tier), 2 if tier >= 80 else 1

    def plane(code: int, row: int, itemsize: int, scales: int) -> int:
        bytes_ = row * itemsize
        return stages * cells * (bytes_ + (0 if code == 2 else 16) + scales * 2)

    planes = sum(plane(f.code, f.row, np.dtype(f.dtype).itemsize, f.scales) for f in (k, v))
    score_row = (cells + 8) * 4
    fold = 0 if v.code == 0 else WARPS * (2 if v.code == 2 else 1) * cells * 4
    return planes + (WARPS + 1) * ROWS * score_row + fold + RING * cells * 4 + 3 * ROWS * 4


def kernel(mode: str, tier: int, group: int) -> Kernel:
    """The kernel of a mode.

    Parameters
    ----------
    mode
        `fp16`, `int8`, `k8v4` or `q4_0`.
    tier
        75 or 80.
    group
        Query heads that share a KV head: 4, 8 or 12.

    Raises
    ------
    StrataError
        For a mode, a tier or a group that no kernel is built for.
    """
    k, v = mode_formats(mode)
    if tier not in MIN_BLOCKS or group not in GROUPS:
        raise StrataError(f"prompt_attention: tier {tier}, group {group}; expected 75 or 80, and one of {GROUPS}")
    size = shared_bytes(mode, tier)
    return Kernel(
        "prompt_attention",
        "prompt_attention",
        THREADS,
        size,
        (
            ("TIER", tier),
            ("K_FORMAT", k.code),
            ("V_FORMAT", v.code),
            ("GROUP", group),
            ("CELLS", cells_per_chunk(mode, tier)),
            ("SHARED_BYTES", size),
            ("MIN_BLOCKS", MIN_BLOCKS[tier]),
        ),
    )


def launch(executor: Executor, path: Path, inputs: Inputs, out: Buffer) -> list[Witness]:
    """Launch a path on prepared inputs: one block for each query and KV head.

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

    Raises
    ------
    StrataError
        For a path of another operation or mode.
    """
    if path.operation != "prompt_attention" or path.mode != inputs.mode:
        raise StrataError(f"{path.name} cannot run on a {inputs.mode} pool as prompt_attention")
    program = kernel(path.mode, path.tier_number, inputs.group)
    pool = inputs.pool
    args = (
        inputs.q, pool.k, pool.k_scale, pool.v, pool.v_scale, pool.table, inputs.ids, inputs.steps, out,
        np.int32(inputs.cap), np.int32(inputs.page_size),
    )  # fmt: skip
    return [executor.launch(program, (inputs.queries, inputs.kv_heads, 1), args)]


def run(executor: Executor, path: Path, q: np.ndarray, pool: Pool, ids: np.ndarray, steps: np.ndarray) -> Result:
    """Prompt attention of host arrays.

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
    return run_once(executor, lambda i, out: launch(executor, path, i, out), inputs)


def _limits(path: Path, entry: str, arch: int) -> Limits:
    """k8v4 spills a few bytes a chunk of 64 cells on sm80, which cost less than a block fewer a multiprocessor."""
    return fp16_products(path, spilled={("k8v4", "sm80"): 16}.get((path.mode, path.tier), 0))


DESCRIPTOR = Descriptor(
    name="prompt_attention",
    takes="attention",
    modes=MODES,
    tiers=("sm75", "sm80"),
    kernels=lambda path: [kernel(path.mode, path.tier_number, group) for group in GROUPS],
    limits=_limits,
    replaces="decode_attention",
    # The first selects among more cells than a query may take, the second is ragged in tiles, chunks and pages.
    required=(Required("signed_decades", ("context", "queries"), ((4096, 512), (1500, 512))),),
    rounded_sums=True,
    vetoes=(SwitchRule(PROMPT_OLD, "1"), SwitchRule(PROMPT_Q4, "0", ("q4_0",))),
    requests=(SwitchRule(PROMPT_Q4_TC, "1", ("q4_0",), "sm75"),),
)
