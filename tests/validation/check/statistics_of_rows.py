"""An author's file: statistics of rows, and the same kernel with faults of the textbook.

The bounds. u is 2^-24 and k = ceil(width / 32) + 7 the roundings of a sum over a row and its division, of the square
and of the difference. The mean is off by d = gamma(k) mean|x| at most. Around a mean that is off by d the squares sum
to those around the true one and width d^2, for the deviations sum to zero; so the variance is off by
d^2 + gamma(k) (variance + d^2). The division by the root of a sum of squares rounds 4 times more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validation.check import Launch, Output, OwnKernel, Size, Values
from validation.check.roundings import SMALLEST, gamma

#: Faults by the number that the kernel takes.
FAULTS = {
    1: "a maximum begins at zero",
    2: "a lane without an element brings in zero",
    3: "the variance is a mean of squares less the square of the mean",
    4: "the tail is left out where it is one element",
    5: "of equal maxima the last one is named",
    6: "the mean is over the width rounded up to whole warps",
    7: "nothing keeps a row of zeros from a division by zero",
    8: "rows are read in pairs, those of an odd width from the row before",
}
EPSILON = 2.0**-40
Arrays = Mapping[str, np.ndarray]
Sizes = Mapping[str, int]


def reference(inputs: Arrays, sizes: Sizes) -> dict[str, np.ndarray]:
    x = inputs["x"]
    return {
        "top": x.max(axis=1),
        "at": x.argmax(axis=1).astype(np.int32),
        "mean": x.mean(axis=1),
        "variance": x.var(axis=1),
        "unit": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON),
    }


def bound(inputs: Arrays, due: Arrays, sizes: Sizes) -> dict[str, np.ndarray]:
    k = -(-sizes["width"] // 32) + 7
    d = gamma(k) * np.abs(inputs["x"]).mean(axis=1) + k * SMALLEST
    return {
        "top": np.zeros(sizes["rows"]),
        "mean": d,
        "variance": d * d + gamma(k) * (due["variance"] + d * d) + k * SMALLEST,
        "unit": gamma(k + 4) * np.abs(due["unit"]) + SMALLEST,
    }


def with_fault(fault: int) -> OwnKernel:
    """The kernel with a fault of `FAULTS`; with 0 it is right."""
    arguments = ("x", "top", "at", "mean", "variance", "unit")
    return OwnKernel(
        name="statistics",
        source="statistics.cu",
        block=32,
        sizes={"rows": Size(1, 1 << 16), "width": Size(1, 1 << 12, tile=32)},
        inputs={"x": Values("float32", ("rows", "width"))},
        outputs={
            "top": Output("float32", ("rows",)),
            "at": Output("int32", ("rows",)),
            "mean": Output("float32", ("rows",)),
            "variance": Output("float32", ("rows",)),
            "unit": Output("float32", ("rows", "width")),
        },
        independent="rows",
        launch=lambda sizes: Launch((sizes["rows"], 1, 1), (*arguments, np.int32(sizes["width"]), np.int32(fault))),
        reference=reference,
        bound=bound,
        without={"not_finite": "a comparison with a NaN passes it over"},
    )


statistics = with_fault(0)
