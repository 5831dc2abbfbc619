"""Experts the older way, the baseline of `expert_fused`: the structure of ggml's quantised matrix product.

Pairs are grouped by expert on the host, in pair order. Every pair's token is quantised once more for that pair, in
grouped order; gate and up are one product, [gate ff | up ff] a row; SwiGLU is a pass of its own, as is quantising h;
down is a second product, whose rows go to their pairs.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import FORMATS, device_table
from strata.kernels.counts import counted
from strata.kernels.experts import PlacedExperts, Routed, check_tokens
from strata.kernels.grouping import Grouping, group
from strata.kernels.paths import Path

THREADS = 256
ROWS = 128  # weight rows of a tile
STEP = 256  # values of K of a step
BLOCK = 128  # values of a block of codes
BLOCK_BYTES = 16 + BLOCK
#: Columns of a tile, widest first.
COLUMNS = (128, 96, 64)
SM75_SHARED_LIMIT = 65536
#: Blocks of codes in shared memory at once, and blocks that the registers of one multiprocessor must hold together.
STAGED = {75: 1, 80: 2}
MIN_BLOCKS = {75: 1, 80: 2}
#: The passes over values use nothing of a tier.
_PASS_DEFINES = (("TIER", 75),)


def shared_bytes(form: str, tier: int, columns: int) -> int:
    """Dynamic shared memory of a block, the sum that `struct Layout` of the source makes."""
    weights = ROWS * (STEP + 16)
    scales = STEP // 32 * FORMATS[form].scales * (ROWS + 4) * 4
    return weights + scales + STAGED[tier] * columns * BLOCK_BYTES + device_table(form).nbytes


def columns(form: str, tier: int) -> int:
    """Columns of a tile: the most that fit."""
    if tier >= 80:
        return COLUMNS[0]
    return next(n for n in COLUMNS if shared_bytes(form, tier, n) <= SM75_SHARED_LIMIT)


def product_kernel(form: str, tier: int) -> Kernel:
    """The product with weights of a format, tier 75 or 80."""
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
    return Kernel("expert_mmq", entry, THREADS, 0, _PASS_DEFINES)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches."""
    gate_up, down = path.mode.split("/")
    tier = int(path.tier.removeprefix("sm"))
    passes = [pass_kernel("expert_mmq_quantise"), pass_kernel("swiglu_rows")]
    return [*passes, *(product_kernel(form, tier) for form in dict.fromkeys((gate_up, down)))]


class Side(NamedTuple):
    """One product: its format's codebook, where its matrix begins in a blob, weight rows, K, bytes of a row, and its
    tiles, an array for each launch."""

    form: str
    table: Buffer | None
    offset: int
    weight_rows: int
    width: int
    row_bytes: int
    tiles: list[Buffer]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs, workspaces and outputs on an executor, ready to be launched any number of times."""

    placed: PlacedExperts
    grouping: Grouping
    top: int
    x: Buffer
    pairs: Buffer
    x_codes: Buffer
    product: Buffer
    h: Buffer
    h_codes: Buffer
    rows: Buffer
    lost: tuple[Buffer, Buffer, Buffer]
    gate_up: Side
    down: Side

    def buffers(self) -> list[Buffer]:
        sides = [b for side in (self.gate_up, self.down) for b in (side.table, *side.tiles) if b is not None]
        own = [self.x, self.pairs, self.x_codes, self.product, self.h, self.h_codes, self.rows, *self.lost]
        return [*own, *sides, *self.placed.blobs, self.placed.table]


def prepare(
    executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray, together: int | None = None
) -> Prepared:
    """Group the pairs and copy what a run needs to the executor.

    x: float32 [tokens, n]; ids: int32 [tokens, top], each an expert; together: experts of a launch, all when None.
    Raises StrataError for shapes and dtypes that do not fit, and for an id that names nobody.
    """
    experts = placed.experts
    if path.operation != "expert_mmq" or path.mode != experts.mode:
        raise StrataError(f"{path.name} cannot run on experts of {experts.mode} as expert_mmq")
    check_tokens(experts, x, ids)
    if together is not None and together < 1:
        raise StrataError(f"{together} experts of a launch, expected at least 1")
    grouping = group(ids, placed.count)
    rows, (n, ff) = ids.size, (experts.geometry.n, experts.geometry.ff)
    tier = int(path.tier.removeprefix("sm"))
    step = placed.count if together is None else together
    ranges = [range(first, min(first + step, placed.count)) for first in range(0, placed.count, step)]

    def side(form: str, offset: int, weight_rows: int, width: int, row_bytes: int) -> Side:
        cut = [grouping.tiles(columns(form, tier), part) for part in ranges]
        tiles = [executor.array(t, "tiles") for t in cut if len(t)]
        words = device_table(form)
        table = executor.array(words, "codebook") if words.size else None
        return Side(form, table, offset, weight_rows, width, row_bytes, tiles)

    def codes(width: int, name: str) -> Buffer:
        shape = (-(-width // BLOCK), rows, BLOCK_BYTES)
        return executor.empty(shape, np.uint8, poison=POISON_WORKSPACE, name=name)

    def floats(shape: Sequence[int], name: str) -> Buffer:
        return executor.empty(shape, np.float32, poison=POISON_WORKSPACE, name=name)

    layout = experts.layout
    counts = [executor.array(np.zeros(1, np.int32), f"{name} lost") for name in ("x", "h", "output")]
    return Prepared(
        placed,
        grouping,
        ids.shape[1],
        executor.array(x, "x"),
        executor.array(grouping.pairs, "pairs"),
        codes(n, "codes of x"),
        floats((rows, 2 * ff), "gate and up"),
        floats((rows, ff), "h"),
        codes(ff, "codes of h"),
        executor.empty((*ids.shape, n), np.float32, name="rows"),
        (counts[0], counts[1], counts[2]),
        side(experts.gate_up, 0, 2 * ff, n, layout.gate_up_row),
        side(experts.down, layout.down, n, ff, layout.down_row),
    )


def launch(executor: Executor, path: Path, p: Prepared) -> list[Witness]:
    """Queue one run: what is timed. The counts of `lost` grow by what this run lost."""
    tier, rows = int(path.tier.removeprefix("sm")), len(p.grouping.pairs)
    n, ff = p.placed.experts.geometry.n, p.placed.experts.geometry.ff
    warps = THREADS // 32

    def quantise(x: Buffer, source: Buffer | None, out: Buffer, lost: Buffer, width: int, divisor: int) -> Witness:
        grid = -(-rows * -(-width // BLOCK) // warps)
        args = (x, source, out, lost, np.int32(rows), np.int32(width), np.int32(divisor))
        return executor.launch(pass_kernel("expert_mmq_quantise"), (grid, 1, 1), args)

    def product(side: Side, codes: Buffer, target: Buffer | None, out: Buffer, lost: Buffer | None) -> list[Witness]:
        kernel = product_kernel(side.form, tier)
        sizes = (np.int32(side.weight_rows), np.int32(side.width), np.int32(side.row_bytes), np.int32(rows))
        done = []
        for tiles in side.tiles:
            grid = tiles.shape[0] * (side.weight_rows // ROWS)
            args = (p.placed.table, side.table, codes, tiles, target, out, lost, np.int64(side.offset), *sizes)
            done.append(executor.launch(kernel, (grid, 1, 1), args, p.placed.blobs))
        return done

    swiglu_grid = -(-rows * (ff // 4) // THREADS)
    return [
        quantise(p.x, p.pairs, p.x_codes, p.lost[0], n, p.top),
        *product(p.gate_up, p.x_codes, None, p.product, None),
        executor.launch(
            pass_kernel("swiglu_rows"), (swiglu_grid, 1, 1), (p.product, p.h, np.int32(rows), np.int32(ff))
        ),
        quantise(p.h, None, p.h_codes, p.lost[1], ff, 1),
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
    """Experts of routed tokens, see `prepare` for what goes in; trace: whether gate and up are returned."""
    p = prepare(executor, path, placed, x, ids, together)
    witnesses = launch(executor, path, p)
    intact = all(buffer.guards_intact() for buffer in p.buffers())
    ff, slot = placed.experts.geometry.ff, p.grouping.slot
    blocks = p.h_codes.host()[:, slot]  # [blocks, pairs, bytes]
    turned = np.ascontiguousarray(blocks.transpose(1, 0, 2))
    scales = np.ascontiguousarray(turned[..., :16]).view(np.float32).reshape(len(slot), -1)[:, : ff // 32]
    codes = np.ascontiguousarray(turned[..., 16:]).view(np.int8).reshape(len(slot), -1)[:, :ff]
    gate = up = None
    if trace:
        both = p.product.host()[slot].reshape(*ids.shape, 2, ff)
        gate, up = np.ascontiguousarray(both[..., 0, :]), np.ascontiguousarray(both[..., 1, :])
    status = [counted(lost)[0] for lost in p.lost]
    return Routed(
        p.rows.host(),
        witnesses,
        intact,
        0,
        (status[0], status[1], status[2]),
        np.ascontiguousarray(codes).reshape(*ids.shape, ff),
        np.ascontiguousarray(scales).reshape(*ids.shape, ff // 32),
        p.grouping.slot,
        p.grouping.source,
        p.grouping.offsets,
        gate,
        up,
    )
