"""Experts the older way, the baseline of `expert_fused`: the structure of ggml's quantised matrix product.

The launches are those of `experts_baseline`. Every pair's token is quantised once more for that pair, in grouped
order, in which rows lie until down sends them to their pairs.

Quantising 32 values v: amax = max |v|, inv = 127 / amax, code = v inv to the nearest integer, ties away from zero,
d = 1 / inv. Where 127 / amax is infinite the block counts as zeros, d = 0. A block with a value that is not finite has
codes 0 and d = NaN, so that its rows become NaN and never zeros, and is counted.

The product of a weight row (codes q, FP32 scales s) and a row of codes (x, d), over groups of 32 of K in order, each
dot an exact integer, from sum = +0:

    a scale for 32 values    sum = fma(fl(dot s), d, sum)
    a scale for 16           sum = fma(fma(dot1, s1, fl(dot0 s0)), d, sum)

One accumulator, in order, without split of K: so the bits do not depend on the tile, the tier, the card, or on which
pairs go together. SwiGLU is that of include/swiglu.cuh.

A block of the product makes 128 weight rows times up to COLUMNS pairs of one expert, 256 values of K a step; weights
are decoded once a tile, straight from the experts' own bytes. Columns that no pair needs are left out 32 at a time.
Tiers: `sm80` m16n8k32 (m16n8k16 for a scale of 16) and cp.async; `sm75` m8n8k16, plain loads, at most 64 KiB of
shared memory, where the tile of a format with large tables is narrower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import FORMATS, device_table
from strata.kernels import experts_baseline, tiers
from strata.kernels.descriptor import Descriptor
from strata.kernels.experts import EXPERT_MODES, PlacedExperts, Routed, formats_of
from strata.kernels.experts_baseline import PASS_THREADS, Side, swiglu, workspace
from strata.kernels.grouping import Grouping
from strata.kernels.limits import Limits, int8_products, without_matrix
from strata.kernels.path import Path

THREADS = 256
ROWS = 128  # weight rows of a tile
STEP = 256  # values of K of a step
BLOCK = 128  # values of a block of codes
BLOCK_BYTES = 16 + BLOCK
#: Columns of a tile, widest first.
COLUMNS = (128, 96, 64)
#: Blocks of codes in shared memory at once, and blocks that the registers of one multiprocessor must hold together.
STAGED = {75: 1, 80: 2}
MIN_BLOCKS = {75: 1, 80: 2}
#: The passes over values use nothing of a tier.
_PASS_DEFINES = (("TIER", 75),)


def shared_bytes(form: str, tier: int, columns: int) -> int:
    """Dynamic shared memory of a block, in bytes: the sum that `struct Layout` of the source makes.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    columns
        Columns of a tile.
    """
    weights = ROWS * (STEP + 16)
    scales = STEP // 32 * FORMATS[form].scales * (ROWS + 4) * 4
    return weights + scales + STAGED[tier] * columns * BLOCK_BYTES + device_table(form).nbytes


def columns(form: str, tier: int) -> int:
    """Columns of a tile: the most that fit in the shared memory of a tier.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    """
    limit = tiers.of_capability(tier).shared_bytes
    return next(n for n in COLUMNS if shared_bytes(form, tier, n) <= limit)


def product_kernel(form: str, tier: int) -> Kernel:
    """The product with weights of a format.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.

    Raises
    ------
    StrataError
        For another tier.
    """
    if tier not in STAGED:
        raise StrataError(f"expert_mmq: tier {tier}, expected 75 or 80")
    wide = columns(form, tier)
    size = shared_bytes(form, tier, wide)
    defines = (
        ("TIER", tier),
        ("WEIGHTS", FORMATS[form].ggml_type),
        ("COLUMNS", wide),
        ("STAGED", STAGED[tier]),
        ("SHARED_BYTES", size),
        ("MIN_BLOCKS", MIN_BLOCKS[tier]),
    )
    return Kernel("expert_mmq", "expert_mmq", THREADS, size, defines)


def pass_kernel(entry: str) -> Kernel:
    """`expert_mmq_quantise` or `swiglu_rows`."""
    return Kernel("expert_mmq", entry, PASS_THREADS, 0, _PASS_DEFINES)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches."""
    passes = [pass_kernel("expert_mmq_quantise"), pass_kernel("swiglu_rows")]
    return [*passes, *(product_kernel(form, path.tier_number) for form in dict.fromkeys(path.mode.split("/")))]


class Codes(NamedTuple):
    """Activations as the products take them.

    Parameters
    ----------
    blocks
        uint8 [k / 128 rounded up, rows, 144], see expert_mmq.cu.
    """

    blocks: Buffer


Prepared = experts_baseline.Prepared[Codes]


def prepare(
    executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray, together: int | None = None
) -> Prepared:
    """Inputs and workspaces for `launch`.

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
    together
        Experts of a launch, all when None.

    Raises
    ------
    StrataError
        As `experts_baseline.prepare`, and for less than one expert of a launch.
    """
    if together is not None and together < 1:
        raise StrataError(f"{together} experts of a launch, expected at least 1")
    step, tier = together or placed.count, path.tier_number

    def codes(rows: int, width: int, name: str) -> Codes:
        return Codes(workspace(executor, (-(-width // BLOCK), rows, BLOCK_BYTES), np.uint8, f"codes of {name}"))

    def tiles(grouping: Grouping, form: str) -> Iterator[np.ndarray]:
        for first in range(0, placed.count, step):
            yield grouping.tiles(columns(form, tier), range(first, min(first + step, placed.count)))

    return experts_baseline.prepare(
        executor, "expert_mmq", path, placed, x, ids, codes_of_x=ids.size, codes=codes, tiles=tiles
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
    tier, rows = path.tier_number, len(p.grouping.pairs)

    def quantise(x: Buffer, source: Buffer | None, out: Codes, lost: Buffer, divisor: int) -> Witness:
        width = x.shape[1]
        grid = -(-rows * -(-width // BLOCK) // (PASS_THREADS // 32))
        args = (x, source, out.blocks, lost, np.int32(rows), np.int32(width), np.int32(divisor))
        return executor.launch(pass_kernel("expert_mmq_quantise"), (grid, 1, 1), args)

    def product(side: Side, codes: Codes, target: Buffer | None, out: Buffer, lost: Buffer | None) -> list[Witness]:
        kernel = product_kernel(side.form, tier)
        sizes = (np.int32(side.weight_rows), np.int32(side.width), np.int32(side.row_bytes), np.int32(rows))
        done = []
        for tiles in side.tiles:
            grid = tiles.shape[0] * (side.weight_rows // ROWS)
            args = (p.placed.table, side.table, codes.blocks, tiles, target, out, lost, np.int64(side.offset), *sizes)
            done.append(executor.launch(kernel, (grid, 1, 1), args, p.placed.blobs))
        return done

    return [
        quantise(p.x, p.pairs, p.x_codes, p.lost[0], p.top),
        *product(p.gate_up, p.x_codes, None, p.product, None),
        swiglu(executor, pass_kernel("swiglu_rows"), p),
        quantise(p.h, None, p.h_codes, p.lost[1], 1),
        *product(p.down, p.h_codes, p.pairs, p.rows, p.lost[2]),
    ]


def run(
    executor: Executor,
    path: Path,
    placed: PlacedExperts,
    x: np.ndarray,
    ids: np.ndarray,
    *,
    trace: bool = False,
    together: int | None = None,
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
    together
        Experts of a launch, all when None.

    Raises
    ------
    StrataError
        As `prepare`.
    """
    p = prepare(executor, path, placed, x, ids, together)
    witnesses = launch(executor, path, p)
    slot, ff = p.grouping.slot, placed.experts.geometry.ff
    blocks = p.h_codes.blocks.host()[:, slot]  # [blocks, pairs, bytes]
    turned = np.ascontiguousarray(blocks.transpose(1, 0, 2))
    scales = np.ascontiguousarray(turned[..., :16]).view(np.float32).reshape(len(slot), -1)[:, : ff // 32]
    codes = np.ascontiguousarray(turned[..., 16:]).view(np.int8).reshape(len(slot), -1)[:, :ff]
    gate_up = p.product.host()[slot] if trace else None
    return experts_baseline.routed(p, witnesses, np.ascontiguousarray(codes), np.ascontiguousarray(scales), gate_up)


def _limits(path: Path, entry: str, arch: int) -> Limits:
    """Of the products, which have integer instructions, and of the passes, which have none."""
    return int8_products(path, arch) if entry == "expert_mmq" else without_matrix()


DESCRIPTOR = Descriptor(
    name="expert_mmq",
    takes="experts",
    modes=EXPERT_MODES,
    tiers=("sm75", "sm80"),
    kernels=kernels,
    limits=_limits,
    codebooks=formats_of,
)
