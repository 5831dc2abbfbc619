"""Dense products over block weights by int8 tensor cores, for prompts: the bits of `linear_dp4a`.

The formulas stand there: an exact integer dot for every group of 32, or two halves of it, then FP32 operations in one
order, so that the tile, the tier and what else is in a launch change no bit.

A block makes 128 outputs of up to `columns` rows of activations, 256 values of K a step. Weights are decoded once
a tile. Columns that no row needs are left out 32 at a time. Tiers: `sm80` m16n8k32 (m16n8k16 for scales of 16) and
cp.async; `sm75` m8n8k16, plain loads and at most 64 KiB of shared memory, where the tile of some formats is narrower.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import device_table
from strata.kernels import linear_quantise, tiers
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import Limits, int8_products, without_matrix
from strata.kernels.linear_products import Multiplied, arguments, check_path, codebooks, multiplied
from strata.kernels.linear_weights import LINEAR_FORMATS, Weights, linear_format
from strata.kernels.path import Path
from strata.kernels.required import Required

THREADS = 256
#: Outputs of a tile, and values of K of a step.
ROWS, STEP = 128, 256
#: Columns of a tile, widest first, and how many of formats for which registers do not last for more: they have offsets,
#: two scales or many words of a group.
COLUMNS = (128, 96, 64)
NARROW, NARROW_COLUMNS = ("q5_1", "q4_k", "q5_k", "q6_k", "iq2_xs", "iq2_s", "iq3_s"), 96
#: Bytes of a column's unit in shared memory, and those that sums of codes take besides.
COLUMN_BYTES, SUMS_BYTES = 144, 32
#: Units of a column in shared memory at once, and blocks that the registers of one multiprocessor must hold together.
STAGED = {75: 1, 80: 2}
MIN_BLOCKS = {75: 1, 80: 2}


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
    made = linear_format(form)
    factors = STEP // 32 * (made.scales + made.offset) * (ROWS + 4) * 4
    column = COLUMN_BYTES + (SUMS_BYTES if made.offset else 0)
    return ROWS * (STEP + 16) + factors + STAGED[tier] * columns * column + device_table(form).nbytes


def columns(form: str, tier: int) -> int:
    """Columns of a tile: the most that fit in the shared memory of a tier, and in registers.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    """
    limit = tiers.of_capability(tier).shared_bytes
    widest = NARROW_COLUMNS if form in NARROW else COLUMNS[0]
    return next(n for n in COLUMNS if n <= widest and shared_bytes(form, tier, n) <= limit)


def kernel(path: Path, rows: int | None = None) -> Kernel:
    """The product, which is the same for any number of rows.

    Parameters
    ----------
    path
        A path of this operation.
    rows
        Rows of activations of the launch.

    Raises
    ------
    StrataError
        For a format that products do not take, and for another tier than `sm75` and `sm80`.
    """
    form, tier = path.mode, path.tier_number
    if tier not in STAGED:
        raise StrataError(f"linear: tier {tier}, expected 75 or 80")
    wide = columns(form, tier)
    size = shared_bytes(form, tier, wide)
    defines = (
        ("TIER", tier),
        ("WEIGHTS", linear_format(form).ggml_type),
        ("COLUMNS", wide),
        ("STAGED", STAGED[tier]),
        ("SHARED_BYTES", size),
        ("MIN_BLOCKS", MIN_BLOCKS[tier]),
    )
    return Kernel("linear", "linear", THREADS, size, defines)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches."""
    return [linear_quantise.kernel(), kernel(path)]


def launch(
    executor: Executor, path: Path, weights: Weights, units: Buffer, out: Buffer, rows: int, first: int = 0
) -> Witness:
    """Queue a product.

    Parameters
    ----------
    executor
        Where the buffers lie.
    path
        A path of this operation and of the weights' format.
    weights
        The matrix.
    units
        uint8 [first + rows or more, units, 160], as `linear_quantise.quantise` leaves them.
    out
        float32 [rows, outputs], written.
    rows
        How many rows.
    first
        The first of them in `units`.

    Raises
    ------
    StrataError
        For weights of another format than the path's.
    """
    check_path(path, weights)
    grid = (-(-weights.outputs // ROWS), -(-rows // columns(weights.format, path.tier_number)), 1)
    return executor.launch(kernel(path), grid, arguments(weights, units, out, rows, first))


def run(executor: Executor, path: Path, blocks: np.ndarray, x: np.ndarray) -> Multiplied:
    """Multiply host rows with a host matrix: as `linear_dp4a.run`.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of this operation.
    blocks
        uint8 [outputs, row bytes], of the path's format.
    x
        float32 [rows, width].

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit.
    """
    return multiplied(executor, path, blocks, x, launch)


def _limits(path: Path, entry: str, arch: int) -> Limits:
    """Of the product, which has integer instructions, and of the conversion, which has none."""
    return int8_products(path, arch) if entry == "linear" else without_matrix()


DESCRIPTOR = Descriptor(
    name="linear",
    takes="linear",
    modes=LINEAR_FORMATS,
    tiers=("sm75", "sm80"),
    kernels=kernels,
    limits=_limits,
    replaces="linear_dp4a",
    required=(Required("linear_bell", ("rows", "outputs", "width"), ((512, 640, 2048), (130, 257, 1024))),),
    codebooks=codebooks,
)
