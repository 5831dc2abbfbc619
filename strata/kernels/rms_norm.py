"""RMSNorm: every row divided by its root mean square and weighted, with or without a residual added behind it.

For row t of n columns, n a multiple of 4 up to 2^24, and eps from 2^-126 to 1:

    s = sum of x[t, c]^2,   mean = fl(s / n),   r = fl(1 / fl(sqrt(fl(mean + eps)))),   y = fl(fl(x[t, c] r) w[c])

and out = y in mode `plain`, fl(residual[t, c] + y) in mode `residual`. s: for each lane l below 32 the columns
128 j + 4 l to + 3 in order, each s_l = fma(x, x, s_l) from +0; then sums of those in pairs l and l + 16, l and l + 8,
... l and l + 1. Each operation is rounded to FP32 in that order.

A row whose s is not finite, since it holds a NaN or an infinity or since its squares overflow, is NaN throughout and
counts in `lost`: r of an infinite sum would be 0 and the row would vanish unseen. Where s is finite so is x r, whose
size is at most about sqrt(n); an infinite product with a weight stays and is not counted. Every NaN has the bits
7fffffff.

The bits of a row depend on that row, the weights and n alone: not on other rows, nor on the grid. `out` may be the
buffer of `x` or of `residual`: a lane reads there what it writes itself, and before it writes it.

References
----------
B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019, arXiv:1910.07467.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.counts import counted
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path

WARPS = 4  # rows of a block
#: Columns of a lane at a time.
_VECTOR = 4
MODES = ("plain", "residual")
#: With eps in this range no operation behind the sum leaves the normal floats but the products.
LEAST_EPS, LARGEST_EPS = float(np.finfo(np.float32).tiny), 1.0
#: Columns of a row at most, so that their number is a float without rounding; and rows, which are counted in 32 bits.
MOST_COLUMNS, MOST_ROWS = 1 << 24, (1 << 31) - 1


class Normed(NamedTuple):
    """Rows behind their norm.

    Parameters
    ----------
    out
        float32 [rows, n].
    lost
        How many rows have a sum of squares that is not finite.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel of rms_norm.cu, for any sizes, with and without a residual."""
    return Kernel("rms_norm", "rms_norm", WARPS * 32, 0, (("WARPS", WARPS),))


def launch(
    executor: Executor,
    x: Buffer,
    weight: Buffer,
    out: Buffer,
    lost: Buffer,
    rows: int,
    n: int,
    eps: float,
    residual: Buffer | None = None,
) -> Witness:
    """Queue the norm.

    Parameters
    ----------
    executor
        Where the buffers lie.
    x
        float32 [rows, n].
    weight
        float32 [n].
    out
        float32 [rows, n], written. It may be `x` or `residual`.
    lost
        int32 [1], to which the number of rows whose sum of squares is not finite is added.
    rows, n
        1 to `MOST_ROWS`, and a multiple of 4 up to `MOST_COLUMNS`.
    eps
        What is added to the mean, rounded to FP32; 2^-126 to 1.
    residual
        float32 [rows, n], added behind the norm, or None.
    """
    sizes = (np.int32(rows), np.int32(n), np.float32(eps))
    return executor.launch(kernel(), (-(-rows // WARPS), 1, 1), (x, weight, residual, out, lost, *sizes))


def run(
    executor: Executor,
    path: Path,
    x: np.ndarray,
    weight: np.ndarray,
    eps: float,
    residual: np.ndarray | None = None,
    over: str | None = None,
) -> Normed:
    """Norm a host array.

    Parameters
    ----------
    executor
        Where it runs.
    path
        The path, whose mode says whether there is a residual.
    x
        float32 [rows, n], n a multiple of 4.
    weight
        float32 [n].
    eps
        What is added to the mean, 2^-126 to 1.
    residual
        float32 [rows, n] in mode `residual`, else None.
    over
        `x` or `residual` for outputs that are written over it, None for a buffer of their own.

    Raises
    ------
    StrataError
        For a mode that does not exist, for shapes, dtypes and an eps that do not fit, and for a residual that is not
        as the mode has it.
    """
    if path.mode not in MODES:
        raise StrataError(f"rms_norm mode {path.mode!r}: expected one of {', '.join(MODES)}")
    if x.ndim != 2 or x.dtype != np.float32 or min(x.shape) < 1 or x.shape[1] % _VECTOR:
        raise StrataError(f"x is {x.dtype} {x.shape}, expected float32 [rows, multiple of {_VECTOR}]")
    rows, n = x.shape
    if rows > MOST_ROWS or n > MOST_COLUMNS:
        raise StrataError(f"{rows} rows of {n} columns, expected up to {MOST_ROWS} of {MOST_COLUMNS}")
    if not LEAST_EPS <= eps <= LARGEST_EPS:
        raise StrataError(f"an eps of {eps}, expected {LEAST_EPS:.8g} to {LARGEST_EPS:.8g}")
    if (residual is None) != (path.mode == "plain"):
        given = "no residual" if residual is None else "a residual"
        raise StrataError(f"mode {path.mode} is given {given}, expected {'one' if residual is None else 'none'}")
    arrays = {"x": x, "weight": weight} | ({} if residual is None else {"residual": residual})
    for name, shape in (("weight", (n,)), ("residual", (rows, n))):
        if name in arrays and (arrays[name].shape != shape or arrays[name].dtype != np.float32):
            raise StrataError(f"{name} is {arrays[name].dtype} {arrays[name].shape}, expected float32 {shape}")
    if over is not None and (over == "weight" or over not in arrays):
        places = ", ".join(name for name in arrays if name != "weight")
        raise StrataError(f"the output lies over {over!r}, expected None or one of {places}")
    buffers = {name: executor.array(one, name, written=name == over) for name, one in arrays.items()}
    out = executor.empty((rows, n), np.float32, name="out") if over is None else buffers[over]
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    witness = launch(executor, buffers["x"], buffers["weight"], out, lost, rows, n, eps, buffers.get("residual"))
    intact = all(buffer.guards_intact() for buffer in (*buffers.values(), out, lost))
    return Normed(out.host(), counted(lost)[0], [witness], intact)


DESCRIPTOR = Descriptor(
    name="rms_norm",
    takes="rms_norm",
    modes=MODES,
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
