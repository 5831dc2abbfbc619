"""The order in which lanes and blocks run: fixed without a seed, permuted by one, and never part of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.test_vocabulary import butterfly, float_rows, run

Array = np.ndarray[Any, Any]


def block_sum(rows: Array) -> Array:
    v = rows[:, 0].view(np.float32)
    blocks, threads = v.shape
    warps = np.zeros_like(v).reshape(blocks, -1, 32)
    for w in range(threads // 32):
        one = rows[:, 0, 32 * w : 32 * w + 32][:, None].repeat(3, axis=1)
        warps[:, w] = butterfly("add", one, 32)[:, 0].view(np.float32)
    total = np.zeros(blocks, np.float32)
    for w in range(threads // 32):
        total = total + warps[:, w, 0]
    return (total[:, None] + v).view(np.uint32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_schedules_change_no_bit_of_a_correct_kernel(threads: int, flavor: str) -> None:
    rows = float_rows("sum", 9, 128)
    want = block_sum(rows)
    for seed in (None, *range(20)):
        got, counters = run(LanesExecutor(seed=seed, threads=threads, flavor=flavor), "block_sum", rows, block=128)
        assert np.array_equal(got[:, 0], want), seed
        assert counters[0] == 9 * 128


def order_of(seed: int | None, threads: int = 1) -> Array:
    got, _ = run(LanesExecutor(seed=seed, threads=threads), "order", np.zeros((5, 4, 64), np.uint32), block=64)
    return got[:, :3]


def test_without_a_seed_lanes_and_blocks_run_in_order() -> None:
    first = order_of(None)
    assert np.array_equal(first, order_of(None))
    # A block takes 192 numbers, its lanes arrive in order, warp after warp.
    assert np.array_equal(first[:, 0].argsort(axis=1), np.tile(np.arange(64), (5, 1)))
    assert np.array_equal(first.min(axis=(1, 2)), 192 * np.arange(5))


def test_a_seed_permutes_lanes_and_blocks() -> None:
    orders = {seed: order_of(seed) for seed in range(6)}
    for seed, order in orders.items():
        assert np.array_equal(order, order_of(seed))  # the same seed, the same order
        assert np.array_equal(np.sort(order, axis=None), np.arange(5 * 192))
        for position in range(3):  # after the start, after __syncwarp, after __syncthreads
            turns = np.diff(order[:, position].argsort(axis=1))
            assert (turns == 1).mean() < 0.25  # nearly always 1 without a seed
    blocks = {tuple(order.min(axis=(1, 2)).argsort().tolist()) for order in orders.values()}
    lanes = {order[0, 0].argsort().tobytes() for order in orders.values()}
    assert len(blocks) > 3
    assert len(lanes) == 6
