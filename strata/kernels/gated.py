"""Gated activations, element by element: act(gate) up, as between the products of a dense layer.

`gelu_tanh`, Gemma's: gelu(g) = g/2 (1 + tanh u) with u = sqrt(2/pi) (g + 0.044715 g^3), which is g / (1 + e^(-2u)):

    p = fma(fl(g g), 0.044715, 1),   z = fl(g p),   e = 2^fl(z K),   out = fl(fl(g / fl(1 + e)) up)

0.044715 as FP32 3d372713, K = -2 sqrt(2/pi) log2(e) as FP32 c0135761. `swiglu`: g / (1 + e^-g) up, with
e = 2^fl(g (-log2 e)), -log2(e) as FP32 bfb8aa3b, and the same end (include/swiglu.cuh). Each operation is rounded to
FP32 in that order, exp2 is the project's own (include/exp2.cuh).

A gate far above zero gives fl(g up), since e is 0; one far below zero, where e is infinite, a zero of the sign of
-up. Zeros keep their sign as in a product. g = -infinity gives a NaN, as an infinite `up` behind a zero does: what is
not finite does not vanish. Every NaN has the bits 7fffffff. A g so large that g^2 overflows needs no case: p and z are
infinite and e is 0 or infinite, as it is from far smaller gates on.

`out` may be the buffer of `gate` or of `up`: an element depends on its own operands alone.

References
----------
D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016, arXiv:1606.08415.
N. Shazeer, "GLU Variants Improve Transformer", 2020, arXiv:2002.05202.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels import pointwise
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path

MODES = ("gelu_tanh", "swiglu")


def kernel(mode: str) -> Kernel:
    """The kernel of a mode.

    Raises
    ------
    StrataError
        For a mode that does not exist.
    """
    if mode not in MODES:
        raise StrataError(f"gated mode {mode!r}: expected one of {', '.join(MODES)}")
    defines = (("SWIGLU", int(mode == "swiglu")), ("THREADS", pointwise.THREADS))
    return Kernel("gated", "gated", pointwise.THREADS, 0, defines)


def launch(executor: Executor, mode: str, gate: Buffer, up: Buffer, out: Buffer, count: int) -> Witness:
    """Queue the activation.

    Parameters
    ----------
    executor
        Where the buffers lie.
    mode
        `gelu_tanh` or `swiglu`.
    gate, up
        float32, of at least `count` elements each.
    out
        float32, whose first `count` elements are written. It may be `gate` or `up`.
    count
        How many elements, at least 1.

    Raises
    ------
    StrataError
        For a mode that does not exist.
    """
    return executor.launch(kernel(mode), pointwise.grid(count), (gate, up, out, np.int64(count)))


def run(executor: Executor, path: Path, gate: np.ndarray, up: np.ndarray, over: str | None = None) -> pointwise.Made:
    """Gate a host array.

    Parameters
    ----------
    executor
        Where it runs.
    path
        The path, whose mode is the activation.
    gate, up
        float32, of one shape.
    over
        `gate` or `up` for outputs that are written over it.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, and for a mode that does not exist.
    """
    return pointwise.run(
        executor,
        {"gate": gate, "up": up},
        over,
        lambda of, out, count: launch(executor, path.mode, of["gate"], of["up"], out, count),
    )


DESCRIPTOR = Descriptor(
    name="gated",
    takes="gated",
    modes=MODES,
    tiers=("simt",),
    kernels=lambda path: [kernel(path.mode)],
    limits=lambda path, entry, arch: without_matrix(),
)
