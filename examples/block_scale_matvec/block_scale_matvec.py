"""A matrix in 4-bit blocks times a few vectors: `python -m validation check FILE:NAME`, FILE being this one.

NAME is one of two kernels that differ in their source alone. `block_scale_matvec` is sound. `neighbour_scale` has a
fault that tests of this sort miss: it is right for every matrix whose rows are whole steps of four blocks, and for
every matrix whose scales are alike; else the last blocks of a row get their neighbours' scales. Recipes visit sizes
next to a step's and scales of both signs over decades, so they find it, and `check` says at which sizes it shows.
Inputs: codes 0 to 15, two a byte; a scale for each block of 32 and the vectors may be any FP16 number at all.
The reference is the formula in FP64, block by block: a scale times an exact sum of whole numbers times x.
The bound: each block's sum is two instructions of 16 products, which cut where an FMA rounds; then a rounding for each
block that a warp takes, and 4 to add the warps. Terms cancel, so the magnitude is the same formula on absolute values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, TensorCore, Values

BLOCK, WARPS, ROWS, COLUMNS = 32, 4, 16, 8
STAGED = COLUMNS * (BLOCK * WARPS + 8)  # halves of x in one of two buffers


def launch(sizes):
    rows, blocks, columns = (np.int32(sizes[name]) for name in ("rows", "blocks", "columns"))
    grid = (-(-sizes["rows"] // ROWS), -(-sizes["columns"] // COLUMNS), 1)
    return Launch(grid, ("codes", "scales", "x", "y", rows, blocks, columns))


def product(codes, scales, x):
    """Codes [rows, blocks, 32] and scales [rows, blocks] times x [columns, blocks 32], by blocks."""
    with np.errstate(invalid="ignore"):  # zero times an infinity
        sums = np.einsum("rbi,cbi->crb", codes, x.reshape(len(x), -1, BLOCK))
        return (sums * scales).sum(axis=2)


def whole(inputs):
    """Low nibbles of a block's bytes are its values 0..15, high ones 16..31."""
    packed = inputs["codes"]
    return np.concatenate([packed & 15, packed >> 4], axis=2).astype(np.float64) - 8


def reference(inputs, sizes):
    return product(whole(inputs), inputs["scales"], inputs["x"])


def magnitude(inputs, sizes):
    return product(abs(whole(inputs)), abs(inputs["scales"]), abs(inputs["x"]))


block_scale_matvec = OwnKernel(
    name="block_scale_matvec",
    source="block_scale_matvec.cu",
    block=32 * WARPS,
    shared_bytes=2 * 2 * STAGED + 4 * WARPS * ROWS * COLUMNS,
    defines={"TIER": 80},
    sizes={
        "rows": Size(1, 1 << 20, tile=ROWS),
        "blocks": Size(1, 4096, tile=WARPS),
        "columns": Size(1, 64, tile=COLUMNS),
    },
    inputs={
        "codes": Values("uint8", ("rows", "blocks", BLOCK // 2)),
        "scales": Values("float16", ("rows", "blocks"), within=(-14, 16)),
        "x": Values("float16", ("columns", lambda sizes: BLOCK * sizes["blocks"]), within=(-14, 16)),
    },
    outputs={"y": Output("float32", ("columns", "rows"))},
    independent="rows",
    launch=launch,
    reference=reference,
    bound=Roundings(
        count=lambda sizes: -(-sizes["blocks"] // WARPS) + WARPS,
        magnitude=magnitude,
        tensor_core=TensorCore(products=16, instructions=2),
    ),
)

neighbour_scale = replace(
    block_scale_matvec, name="neighbour_scale", source="neighbour_scale.cu", entry="block_scale_matvec"
)
