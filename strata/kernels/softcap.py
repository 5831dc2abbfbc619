"""Soft capping: out = cap tanh(x / cap), element by element, as Gemma has it on logits.

    y = fl(x / cap),   t = 2^fl(|y| K),   h = fl(fl(1 - t) / fl(1 + t)),   out = fl(sign(x) cap h)

each operation rounded to FP32 in that order, K = -2 log2(e) as FP32 c038aa3b, exp2 the project's own
(include/exp2.cuh): with t = e^(-2|y|) the quotient is tanh |y|. No output is larger than the cap. It is an odd
function, bit for bit: zeros keep their sign, and so does an x so small that t rounds to 1, whose output is zero, since
1 - t has an error of 2^-25 that does not shrink with x. From |y| of 63 log(2) on, where t is 2^-126, and long before
it, h is 1. An infinity gives the cap with its sign, a NaN the NaN of bits 7fffffff.

`out` may be the buffer of x: an element depends on x there alone.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels import pointwise
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path

#: Caps that are normal floats.
LEAST_CAP, LARGEST_CAP = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def kernel() -> Kernel:
    """The one kernel of softcap.cu, for any cap."""
    return Kernel("softcap", "softcap", pointwise.THREADS, 0, (("THREADS", pointwise.THREADS),))


def launch(executor: Executor, x: Buffer, out: Buffer, count: int, cap: float) -> Witness:
    """Queue the capping.

    Parameters
    ----------
    executor
        Where the buffers lie.
    x
        float32, of at least `count` elements.
    out
        float32, whose first `count` elements are written. It may be `x`.
    count
        How many elements, at least 1.
    cap
        The bound of outputs, rounded to FP32; a normal float above zero.
    """
    return executor.launch(kernel(), pointwise.grid(count), (x, out, np.int64(count), np.float32(cap)))


def run(executor: Executor, path: Path, x: np.ndarray, cap: float, over: str | None = None) -> pointwise.Made:
    """Cap a host array.

    Parameters
    ----------
    executor
        Where it runs.
    path
        The path; every one has the same kernel.
    x
        float32.
    cap
        The bound of outputs, see `launch`.
    over
        `x` for outputs that are written over it.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, and for a cap that is no normal float above zero.
    """
    if not LEAST_CAP <= cap <= LARGEST_CAP:
        raise StrataError(f"a cap of {cap}, expected {LEAST_CAP:.8g} to {LARGEST_CAP:.8g}")
    return pointwise.run(executor, {"x": x}, over, lambda of, out, count: launch(executor, of["x"], out, count, cap))


DESCRIPTOR = Descriptor(
    name="softcap",
    takes="softcap",
    modes=("fp32",),
    tiers=("simt",),
    kernels=lambda path: [kernel()],
    limits=lambda path, entry, arch: without_matrix(),
)
