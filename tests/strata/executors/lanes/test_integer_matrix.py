"""The integer matrix instructions of lanes against NumPy, exactly, through kernels that gather real fragments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.sources import kernel
from validation.core.random_streams import Stream

Array = np.ndarray[Any, Any]
BLOCKS, M, N = 17, 3, 2
WHAT = {"m16n8k32": 0, "m16n8k16": 1, "m8n8k16": 2, "multiply_k32": 3, "multiply_k16": 4, "dp4a": 5}


def operands(family: str) -> tuple[Array, Array, Array]:
    """a int8 [blocks, M, 16, 32], b int8 [blocks, N, 32, 8], c int32 [blocks, M, N, 16, 8]."""
    stream = Stream.of(5, "integer matrix", family)
    shapes = ((BLOCKS, M, 16, 32), (BLOCKS, N, 32, 8), (BLOCKS, M, N, 16, 8))
    if family == "extreme":  # -128 and 127 alone: the largest sums, and accumulators that wrap
        a, b = (np.where(stream.below(2, s) == 0, -128, 127).astype(np.int8) for s in shapes[:2])
        return a, b, np.where(stream.below(2, shapes[2]) == 0, 2**31 - 1, -(2**31)).astype(np.int32)
    a, b = (stream.below(256, s).astype(np.uint8).view(np.int8) for s in shapes[:2])
    high, low = (stream.below(1 << 16, shapes[2]) for _ in range(2))
    return a, b, (high << 16 | low).astype(np.uint32).view(np.int32)


def expected(what: str, a: Array, b: Array, c: Array) -> Array:
    """The accumulators afterwards, modulo 2^32."""
    x, y, out = a.astype(np.int64), b.astype(np.int64), c.astype(np.int64)
    if what == "m16n8k32":
        out[:, 0, 0] += x[:, 0] @ y[:, 0]
    elif what == "m16n8k16":
        out[:, 0, 0] += x[:, 0, :, :16] @ y[:, 0, :16]
    elif what == "m8n8k16":
        out[:, 0, 0, :8] += x[:, 0, :8, :16] @ y[:, 0, :16]
    elif what == "multiply_k32":
        out += x[:, :, None] @ y[:, None]
    elif what == "multiply_k16":
        out += x[:, :, None, :, :16] @ y[:, None, :, :16]
    else:
        short = x[:, 0, :, :4] @ y[:, 0, :4]
        for lane in range(32):
            out[:, 0, 0, lane % 16, lane % 8] = c[:, 0, 0, lane % 16, lane % 8] + short[:, lane % 16, lane % 8]
    return out.astype(np.uint64).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("flavor", ["fast", "checked"])
@pytest.mark.parametrize("tier", [75, 80])
@pytest.mark.parametrize("family", ["bits", "extreme"])
def test_exact(family: str, tier: int, flavor: str) -> None:
    executor = LanesExecutor(flavor=flavor)
    a, b, c = operands(family)
    for what, number in WHAT.items():
        if tier < 80 and number < 2:
            continue
        out = executor.empty(c.shape, np.int32, name="d")
        buffers = [executor.array(v, name) for v, name in ((a, "a"), (b, "b"), (c, "c"))]
        executor.launch(kernel("integer_matrix", tier=tier), (BLOCKS, 1, 1), [*buffers, out, np.int32(number)])
        assert np.array_equal(out.host(), expected(what, a, b, c)), what
        assert out.guards_intact()
        assert (out.host() != c).mean() > (0.5 if "multiply" in what else 0.01)
