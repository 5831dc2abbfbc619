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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import FORMATS, device_table
from strata.kernels.counts import counted
from strata.kernels.experts import BLOCK, PlacedExperts, Routed, check_tokens
from strata.kernels.grouping import Grouping, group
from strata.kernels.paths import Path

WARPS = 4  # of a block of the product
ROWS = 4  # weight rows of a warp
PAIRS = 8  # pairs that share the decoding of a weight row
PASS_THREADS = 256
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


class Side(NamedTuple):
    """One product: its format's codebook, where its matrix begins in a blob, weight rows, K, and bytes of a row."""

    form: str
    table: Buffer | None
    offset: int
    weight_rows: int
    width: int
    row_bytes: int


class Codes(NamedTuple):
    """codes: int8 [rows, k]; scales: uint16 [rows, k / 32], binary16 bits."""

    codes: Buffer
    scales: Buffer


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs, workspaces and outputs on an executor, ready to be launched any number of times."""

    placed: PlacedExperts
    grouping: Grouping
    top: int
    x: Buffer
    pairs: Buffer
    tiles: Buffer
    x_codes: Codes
    product: Buffer
    h: Buffer
    h_codes: Codes
    rows: Buffer
    lost: tuple[Buffer, Buffer, Buffer]
    gate_up: Side
    down: Side

    def buffers(self) -> list[Buffer]:
        tables = [side.table for side in (self.gate_up, self.down) if side.table is not None]
        own = [
            self.x,
            self.pairs,
            self.tiles,
            *self.x_codes,
            self.product,
            self.h,
            *self.h_codes,
            self.rows,
            *self.lost,
        ]
        return [*own, *tables, *self.placed.blobs, self.placed.table]


def prepare(executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray) -> Prepared:
    """Group the pairs and copy what a run needs to the executor.

    x: float32 [tokens, n]; ids: int32 [tokens, top], each an expert. Raises StrataError for shapes and dtypes that do
    not fit, and for an id that names nobody.
    """
    experts = placed.experts
    if path.operation != "expert_decode" or path.mode != experts.mode:
        raise StrataError(f"{path.name} cannot run on experts of {experts.mode} as expert_decode")
    check_tokens(experts, x, ids)
    grouping = group(ids, placed.count)
    pairs, (n, ff) = ids.size, (experts.geometry.n, experts.geometry.ff)

    def side(form: str, offset: int, weight_rows: int, width: int, row_bytes: int) -> Side:
        words = device_table(form)
        table = executor.array(words, "codebook") if words.size else None
        return Side(form, table, offset, weight_rows, width, row_bytes)

    def workspace(shape: Sequence[int], dtype: type, name: str) -> Buffer:
        return executor.empty(shape, dtype, poison=POISON_WORKSPACE, name=name)

    def codes(rows: int, width: int, name: str) -> Codes:
        scales = workspace((rows, width // BLOCK), np.uint16, f"scales of {name}")
        return Codes(workspace((rows, width), np.int8, f"codes of {name}"), scales)

    layout = experts.layout
    counts = [executor.array(np.zeros(1, np.int32), f"{name} lost") for name in ("x", "h", "output")]
    return Prepared(
        placed,
        grouping,
        ids.shape[1],
        executor.array(x, "x"),
        executor.array(grouping.pairs, "pairs"),
        executor.array(grouping.tiles(PAIRS, range(placed.count)), "tiles"),
        codes(len(x), n, "x"),
        workspace((pairs, 2 * ff), np.float32, "gate and up"),
        workspace((pairs, ff), np.float32, "h"),
        codes(pairs, ff, "h"),
        executor.empty((*ids.shape, n), np.float32, name="rows"),
        (counts[0], counts[1], counts[2]),
        side(experts.gate_up, 0, 2 * ff, n, layout.gate_up_row),
        side(experts.down, layout.down, n, ff, layout.down_row),
    )


def launch(executor: Executor, path: Path, p: Prepared) -> list[Witness]:
    """Queue one run: what is timed. The counts of `lost` grow by what this run lost."""
    n, ff = p.placed.experts.geometry.n, p.placed.experts.geometry.ff
    pairs, tokens = len(p.grouping.pairs), p.x.shape[0]

    def quantise(x: Buffer, to: Codes, lost: Buffer, rows: int, width: int) -> Witness:
        grid = -(-rows * -(-width // 128) // (PASS_THREADS // 32))
        args = (x, to.codes, to.scales, lost, np.int32(rows), np.int32(width))
        return executor.launch(pass_kernel("expert_decode_quantise"), (grid, 1, 1), args)

    def product(side: Side, x: Codes, out: Buffer, lost: Buffer | None, divisor: int) -> Witness:
        grid = p.tiles.shape[0] * (side.weight_rows // (WARPS * ROWS))
        sizes = (np.int32(side.weight_rows), np.int32(side.width), np.int32(side.row_bytes), np.int32(divisor))
        buffers = (p.placed.table, side.table, x.codes, x.scales, p.tiles, p.pairs, out, lost)
        args = (*buffers, np.int64(side.offset), *sizes)
        return executor.launch(product_kernel(side.form), (grid, 1, 1), args, p.placed.blobs)

    swiglu_grid = -(-pairs * (ff // 4) // PASS_THREADS)
    return [
        quantise(p.x, p.x_codes, p.lost[0], tokens, n),
        product(p.gate_up, p.x_codes, p.product, None, p.top),
        executor.launch(
            pass_kernel("swiglu_rows"), (swiglu_grid, 1, 1), (p.product, p.h, np.int32(pairs), np.int32(ff))
        ),
        quantise(p.h, p.h_codes, p.lost[1], pairs, ff),
        product(p.down, p.h_codes, p.rows, p.lost[2], 1),
    ]


def run(
    executor: Executor, path: Path, placed: PlacedExperts, x: np.ndarray, ids: np.ndarray, *, trace: bool = False
) -> Routed:
    """Experts of routed tokens, see `prepare` for what goes in; trace: whether gate and up are returned."""
    p = prepare(executor, path, placed, x, ids)
    witnesses = launch(executor, path, p)
    intact = all(buffer.guards_intact() for buffer in p.buffers())
    ff = placed.experts.geometry.ff
    gate = up = None
    if trace:
        both = p.product.host().reshape(*ids.shape, 2, ff)
        gate, up = np.ascontiguousarray(both[..., 0, :]), np.ascontiguousarray(both[..., 1, :])
    status = [counted(lost)[0] for lost in p.lost]
    scales = p.h_codes.scales.host().view(np.float16).astype(np.float32)
    return Routed(
        p.rows.host(),
        witnesses,
        intact,
        0,
        (status[0], status[1], status[2]),
        p.h_codes.codes.host().reshape(*ids.shape, ff),
        scales.reshape(*ids.shape, ff // BLOCK),
        p.grouping.slot,
        p.grouping.source,
        p.grouping.offsets,
        gate,
        up,
    )
