"""Experts at decode width: few tokens, one warp a weight row, integer scale arithmetic as ggml's vector product has it.

Tokens are quantised once, with a binary16 scale for 32 values: amax = max |v|, d = amax / 127, code = v / d to the
nearest integer, ties away from zero, at most 127 in size; stored is fp16(d). A block of zeros has codes 0. A block with
a value that is not finite has codes 0 and d = NaN; it is counted, as is one whose d overflows binary16.

A group of 32 values of a weight row, with the block's own d, gives fma(fl(d d_x), sum, acc), where sum is an integer.
From the dot products of all 32 codes, or of each half (q the codes of include/expert_formats.cuh, l the integer scale
in the block, divisions truncating towards zero as C's do):

    iq3_xxs          (l dot + dot / 2) / 2
    iq2_xxs          dot (2 l + 1) / 8
    iq2_xs, iq2_s    (l0 dot0 + l1 dot1 + (dot0 + dot1) / 2) / 4
    iq3_s            dot (1 + 2 l)
    iq4_xs           dot (l - 32)
    iq4_nl, q2_0     dot

Lane i takes groups i, i + 32, ... in order, from +0; then lanes add in pairs i and i + 16, i and i + 8, ... i and
i + 1. So the bits of a pair do not depend on the others; by design they differ from those of the prompt kernels, by the
truncation and the binary16 scales. SwiGLU is that of include/swiglu.cuh, a pass of its own, as is quantising h.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, Witness
from strata.formats import FORMATS, device_table
from strata.kernels import experts_baseline
from strata.kernels.descriptor import Descriptor
from strata.kernels.experts import BLOCK, EXPERT_MODES, PlacedExperts, Routed, formats_of
from strata.kernels.experts_baseline import PASS_THREADS, Side, swiglu, workspace
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path

WARPS = 4  # of a block of the product
ROWS = 4  # weight rows of a warp
PAIRS = 8  # pairs that share the decoding of a weight row
_TIER = (("TIER", 60),)


def product_kernel(form: str) -> Kernel:
    """The product with weights of a format."""
    size = device_table(form).nbytes
    defines = (
        *_TIER,
        ("WEIGHTS", FORMATS[form].ggml_type),
        ("PAIRS", PAIRS),
        ("WARPS", WARPS),
        ("ROWS", ROWS),
        ("SHARED_BYTES", size),
    )
    return Kernel("expert_decode", "expert_decode", WARPS * 32, size, defines)


def pass_kernel(entry: str) -> Kernel:
    """`expert_decode_quantise` or `swiglu_rows`."""
    return Kernel("expert_decode", entry, PASS_THREADS, 0, _TIER)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches."""
    passes = [pass_kernel("expert_decode_quantise"), pass_kernel("swiglu_rows")]
    return [*passes, *(product_kernel(form) for form in dict.fromkeys(path.mode.split("/")))]


class Codes(NamedTuple):
    """Activations as the products take them.

    Parameters
    ----------
    codes
        int8 [rows, k].
    scales
        uint16 [rows, k / 32], binary16 bits.
    """

    codes: Buffer
    scales: Buffer


Prepared = experts_baseline.Prepared[Codes]


def prepare(executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray) -> Prepared:
    """Inputs and workspaces for `launch`.

    A token is quantised once for all its pairs.

    Parameters
    ----------
    executor
        Where they are made.
    path
        A path of this operation and of the experts' mode.
    placed
        The experts, on the same executor.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], each an expert.

    Raises
    ------
    StrataError
        As `experts_baseline.prepare`.
    """

    def codes(rows: int, width: int, name: str) -> Codes:
        return Codes(
            workspace(executor, (rows, width), np.int8, f"codes of {name}"),
            workspace(executor, (rows, width // BLOCK), np.uint16, f"scales of {name}"),
        )

    return experts_baseline.prepare(
        executor,
        "expert_decode",
        path,
        placed,
        x,
        ids,
        codes_of_x=len(x),
        codes=codes,
        tiles=lambda grouping, form: [grouping.tiles(PAIRS, range(placed.count))],
    )


def launch(executor: Executor, path: Path, p: Prepared) -> list[Witness]:
    """Queue one run: what is timed.

    The counts of `lost` grow by what this run lost.

    Parameters
    ----------
    executor
        Where `p` lies.
    path
        The path that `p` was made for.
    p
        See `prepare`.

    Returns
    -------
    list of Witness
        One for each launch, in order.
    """

    def quantise(x: Buffer, to: Codes, lost: Buffer) -> Witness:
        rows, width = x.shape
        grid = -(-rows * -(-width // 128) // (PASS_THREADS // 32))
        args = (x, to.codes, to.scales, lost, np.int32(rows), np.int32(width))
        return executor.launch(pass_kernel("expert_decode_quantise"), (grid, 1, 1), args)

    def product(side: Side, x: Codes, out: Buffer, lost: Buffer | None, divisor: int) -> Witness:
        (tiles,) = side.tiles
        grid = tiles.shape[0] * (side.weight_rows // (WARPS * ROWS))
        sizes = (np.int32(side.weight_rows), np.int32(side.width), np.int32(side.row_bytes), np.int32(divisor))
        buffers = (p.placed.table, side.table, x.codes, x.scales, tiles, p.pairs, out, lost)
        args = (*buffers, np.int64(side.offset), *sizes)
        return executor.launch(product_kernel(side.form), (grid, 1, 1), args, p.placed.blobs)

    return [
        quantise(p.x, p.x_codes, p.lost[0]),
        product(p.gate_up, p.x_codes, p.product, None, p.top),
        swiglu(executor, pass_kernel("swiglu_rows"), p),
        quantise(p.h, p.h_codes, p.lost[1]),
        product(p.down, p.h_codes, p.rows, p.lost[2], 1),
    ]


def run(
    executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray, *, trace: bool = False
) -> Routed:
    """Experts of routed tokens.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of this operation and of the experts' mode.
    placed
        The experts, on the same executor.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], each an expert.
    trace
        Whether gate and up are returned.

    Raises
    ------
    StrataError
        As `prepare`.
    """
    p = prepare(executor, path, placed, x, ids)
    witnesses = launch(executor, path, p)
    scales = p.h_codes.scales.host().view(np.float16).astype(np.float32)
    gate_up = p.product.host() if trace else None
    return experts_baseline.routed(p, witnesses, p.h_codes.codes.host(), scales, gate_up)


DESCRIPTOR = Descriptor(
    name="expert_decode",
    takes="experts",
    modes=EXPERT_MODES,
    tiers=("simt",),
    kernels=kernels,
    limits=lambda path, entry, arch: without_matrix(),
    lowest=61,  # the first with an instruction for four products of int8
    codebooks=formats_of,
)
