"""Residual sums: out = fl(a + b), element by element, one FP32 rounding to nearest even.

-0 and -0 give -0, zeros of both signs and an exact cancellation +0. A NaN in either operand and infinities of both
signs give a NaN, which on every machine has the bits 7fffffff; a sum beyond the largest float is an infinity.

`out` may be the buffer of `a`, or of `b`, or both may be one buffer: an element depends on its own operands alone.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, Witness
from strata.kernels import pointwise
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path


def kernel() -> Kernel:
    """The one kernel of residual.cu."""
    return Kernel("residual", "residual", pointwise.THREADS, 0, (("THREADS", pointwise.THREADS),))


def launch(executor: Executor, a: Buffer, b: Buffer, out: Buffer, count: int) -> Witness:
    """Queue the sum.

    Parameters
    ----------
    executor
        Where the buffers lie.
    a, b
        float32, of at least `count` elements each.
    out
        float32, whose first `count` elements are written. It may be `a` or `b`.
    count
        How many elements, at least 1.
    """
    return executor.launch(kernel(), pointwise.grid(count), (a, b, out, np.int64(count)))


def run(executor: Executor, path: Path, a: np.ndarray, b: np.ndarray, over: str | None = None) -> pointwise.Made:
    """Add host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    path
        The path; every one has the same kernel.
    a, b
        float32, of one shape.
    over
        `a` or `b` for a sum that is written over it.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit.
    """
    return pointwise.run(
        executor, {"a": a, "b": b}, over, lambda of, out, count: launch(executor, of["a"], of["b"], out, count)
    )


DESCRIPTOR = Descriptor(
    name="residual",
    takes="residual",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
