"""Root-mean-square norm of rows, checked: `python -m validation check examples/rmsnorm/rmsnorm.py`.

The kernel, rmsnorm.cu, is an ordinary one: a sum over a row by one block, then a pass that scales it. This file says
what `check` must know. Sizes: rows and width, where something changes at multiples of the 128 threads of a block.
Inputs: x may lie anywhere from 2^-60 to 2^50, so that no square overflows. The reference is the formula, in FP64.
The bound counts roundings: a thread adds ceil(width / 128) squares, a warp adds 5 times, the block 4 times; then come
a quotient and epsilon. The root halves the relative error of all that and rounds once; y has two roundings more.
Nothing cancels in a sum of squares, so |reference| is the magnitude. A quotient that underflows is multiplied by the
weight, so `underflow` is the weight. Rows know nothing of each other. No recipe is left out: a row with an infinity has
rms infinity, zeros besides it, and a NaN in its place, in the kernel as in the formula.
"""

from __future__ import annotations

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, Values

THREADS = 128
EPSILON = np.float32(1e-6)


def launch(sizes):
    return Launch((sizes["rows"], 1, 1), ("x", "weight", "y", "rms", np.int32(sizes["width"]), EPSILON))


def reference(inputs, sizes):
    x, weight = inputs["x"], inputs["weight"]
    with np.errstate(invalid="ignore"):  # an infinity over an infinity
        rms = np.sqrt(np.mean(x * x, axis=1) + float(EPSILON))
        return {"y": x / rms[:, None] * weight, "rms": rms}


def roundings(sizes):
    """Of rms: a square root halves the relative error of what is under it."""
    squares = -(-sizes["width"] // THREADS) + 5 + THREADS // 32
    return (squares + 2 + 1) // 2 + 1


rmsnorm = OwnKernel(
    name="rmsnorm",
    source="rmsnorm.cu",
    block=THREADS,
    shared_bytes=4 * (THREADS // 32),
    defines={"THREADS": THREADS},
    sizes={"rows": Size(1, 1 << 20), "width": Size(1, 1 << 14, tile=THREADS)},
    inputs={"x": Values("float32", ("rows", "width"), within=(-60, 50)), "weight": Values("float32", ("width",))},
    outputs={"y": Output("float32", ("rows", "width")), "rms": Output("float32", ("rows",))},
    independent="rows",
    launch=launch,
    reference=reference,
    bound={
        "y": Roundings(lambda sizes: roundings(sizes) + 2, underflow=lambda inputs, sizes: inputs["weight"]),
        "rms": Roundings(roundings),
    },
)
