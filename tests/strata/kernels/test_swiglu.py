"""SwiGLU itself, bit for bit over every sign and size of a gate: what rounding h to int8 would hide."""

from __future__ import annotations

import numpy as np

from strata.executors import open_executor
from strata.kernels import expert_mmq
from strata.kernels.expert_mmq import THREADS
from validation.core.random_streams import Stream
from validation.operations.experts.reference import swiglu

ROWS, FF = 64, 64


def written(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """h float32 [rows, ff] of gate and up, as the pass between the products writes it."""
    lanes = open_executor("lanes")
    both = lanes.array(np.concatenate([gate, up], axis=1), "gate and up")
    h = lanes.empty(gate.shape, np.float32, name="h")
    grid = (-(-gate.size // 4 // THREADS), 1, 1)
    lanes.launch(
        expert_mmq.pass_kernel("swiglu_rows"), grid, (both, h, np.int32(gate.shape[0]), np.int32(gate.shape[1]))
    )
    return h.host()


def test_every_sign_and_size_of_a_gate() -> None:
    """Gates from -128 to 128 in steps, and of every exponent; -20 and below are small numbers, not zeros, up to where
    e overflows."""
    stream = Stream.of(1, "swiglu")
    steps = (np.arange(ROWS * FF // 2) - ROWS * FF // 4) / np.float32(8)
    bits = stream.child("gate").below(1 << 31, (ROWS * FF // 2,)).astype(np.uint32) * 2 + 1
    gate = np.concatenate([steps.astype(np.float32), bits.view(np.float32)]).reshape(ROWS, FF)
    up = ((stream.child("up").below(1 << 16, (ROWS, FF)).astype(np.int64) - (1 << 15)) / np.float32(1 << 12)).astype(
        np.float32
    )
    got, want = written(gate, up), swiglu(gate, up)
    real = ~np.isnan(want)
    assert np.array_equal(np.isnan(got), ~real)
    assert np.array_equal(got.view(np.uint32)[real], want.view(np.uint32)[real])
    low = (gate < -20) & (gate > -80) & (up != 0)
    assert low.sum() > 100
    assert (got[low] != 0).all()
