"""An author's file, as a stranger would write it: products with a weight, their sums and counts, row by row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, Values

THREADS = 64


def reference(inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    y = inputs["x"] * inputs["weight"]
    return {"y": y, "total": y.sum(axis=1), "positive": (y > 0).sum(axis=1).astype(np.int32)}


def magnitude(inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
    return np.asarray(np.abs(inputs["x"] * inputs["weight"]).sum(axis=1))


def launch(sizes: Mapping[str, int]) -> Launch:
    arguments = ("x", "weight", "y", "total", "positive", np.int32(sizes["width"]))
    return Launch((sizes["rows"], 1, 1), arguments)


rows = OwnKernel(
    name="rows",
    source="rows.cu",
    block=THREADS,
    shared_bytes=THREADS // 32 * 4,
    defines={"THREADS": THREADS},
    sizes={"rows": Size(1, 1 << 16), "width": Size(1, 1 << 12, tile=THREADS)},
    inputs={"x": Values("float32", ("rows", "width")), "weight": Values("float32", ("width",))},
    outputs={
        "y": Output("float32", ("rows", "width")),
        "total": Output("float32", ("rows",)),
        "positive": Output("int32", ("rows",), start="zeros"),
    },
    independent="rows",
    launch=launch,
    reference=reference,
    bound={"y": Roundings(1), "total": Roundings(lambda s: s["width"] // THREADS + 10, magnitude=magnitude)},
    without={"subnormals": "a product of a tiny number may underflow to zero, which `positive` counts otherwise"},
)
