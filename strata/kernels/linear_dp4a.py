"""Dense products over block weights without tensor cores: the baseline of `linear`, what decoding uses, and lanes.

Row t of activations is int8 codes with an FP32 scale d for every 32 values (`linear_quantise`). Row r of the weights is
codes with an exact FP32 scale s for every 32 values, or for 16, and of some formats an exact FP32 offset m: a weight is
s code - m. For output r of row t, over the groups of 32 in order, every dot and every sum of codes an exact integer:

    v = fl(s dot)                       one scale
    v = fma(s1, dot1, fl(s0 dot0))      two scales: q6_k, iq2_xs, iq2_s
    v = fma(-m, sum, fl(s dot))         an offset: q5_1, q4_k, q5_k;  sum of the activations' codes
    out = fma(v, d, out)                from +0

One accumulator, in order, without split of K: so the bits of an output follow from its row of weights and its row of
activations alone, whatever goes with them in a launch, on every tier. `linear` gives the same bits.

A group that is not finite has d = NaN, and the outputs of its row are NaN. A block makes 8 outputs of up to 32 rows;
where a launch has no more than 4 rows, of up to 4, with chunks of K twice as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, Witness
from strata.formats import device_table
from strata.kernels import linear_quantise
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.linear_products import Multiplied, arguments, check_path, codebooks, multiplied
from strata.kernels.linear_weights import LINEAR_FORMATS, Weights, linear_format
from strata.kernels.path import Path

#: Outputs of a block.
OUTPUTS = 8


class Shape(NamedTuple):
    """The work shape of an entry.

    Parameters
    ----------
    entry
        Its name.
    threads, rows
        Of a block.
    groups
        Groups of 32 of K whose terms are in shared memory at once.
    """

    entry: str
    threads: int
    rows: int
    groups: int


MANY = Shape("linear_dp4a", 64, 32, 32)
FEW = Shape("linear_dp4a_few", 32, 4, 64)


def shape_for(rows: int) -> Shape:
    """The work shape of a launch of so many rows."""
    return FEW if rows <= FEW.rows else MANY


def kernel(path: Path, rows: int) -> Kernel:
    """The product of a launch.

    Parameters
    ----------
    path
        A path of this operation.
    rows
        Rows of activations of the launch.

    Raises
    ------
    StrataError
        For a format that products do not take.
    """
    shape = shape_for(rows)
    defines = (
        ("TIER", 75),
        ("WEIGHTS", linear_format(path.mode).ggml_type),
        ("OUTPUTS", OUTPUTS),
        ("MANY_THREADS", MANY.threads),
        ("MANY_ROWS", MANY.rows),
        ("MANY_GROUPS", MANY.groups),
        ("FEW_THREADS", FEW.threads),
        ("FEW_ROWS", FEW.rows),
        ("FEW_GROUPS", FEW.groups),
    )
    size = device_table(path.mode).nbytes + (OUTPUTS + 1) * shape.groups * shape.rows * 4
    return Kernel("linear_dp4a", shape.entry, shape.threads, size, defines)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches: many rows and few, and what makes their codes."""
    return [linear_quantise.kernel(), kernel(path, MANY.rows), kernel(path, FEW.rows)]


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
    grid = (-(-weights.outputs // OUTPUTS), -(-rows // shape_for(rows).rows), 1)
    return executor.launch(kernel(path, rows), grid, arguments(weights, units, out, rows, first))


def run(executor: Executor, path: Path, blocks: np.ndarray, x: np.ndarray) -> Multiplied:
    """Multiply host rows with a host matrix.

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


DESCRIPTOR = Descriptor(
    name="linear_dp4a",
    takes="linear",
    modes=LINEAR_FORMATS,
    tiers=("simt",),
    kernels=kernels,
    limits=lambda path, entry, arch: without_matrix(),
    lowest=61,
    codebooks=codebooks,
)
