"""The shortened division, and SwiGLU and scales made with it, against the whole ones, which a card has its own of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from strata.executors import open_executor
from strata.executors.base import ExecutorUnavailable, Kernel
from validation.numerics.exp2 import exp2
from validation.operations.experts.reference import NEGATIVE_LOG2_E

SOURCE = r"""
#include "include/activation.cuh"
#include "include/swiglu.cuh"

DEVICE u64 mixed(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// out: how many operands were usual, scales that differ, gates that were usual, swiglu that differ.
extern "C" __global__ void shortened(u32* out, u64 seed, int rounds) {
  u32 found[4] = {0, 0, 0, 0};
  for (int round = 0; round < rounds; ++round) {
    const u64 number = (static_cast<u64>(round) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    const u64 bits = mixed(seed + number);
    const u32 largest[1] = {static_cast<u32>(bits) & 0x7fffffffu};
    ActivationScale made[1];
    activation_scales(largest, made);
    const ActivationScale whole = activation_scale(largest[0]);
    found[0] += usual_operand(bits_to_float(largest[0]));
    found[1] += float_to_bits(made[0].inverse) != float_to_bits(whole.inverse) ||
                float_to_bits(made[0].d) != float_to_bits(whole.d) || made[0].finite != whole.finite;
    // Half of the gates have any exponent, half lie between -128 and 128.
    const u32 high = static_cast<u32>(bits >> 32);
    const float spread = __fmul_rn(__int2float_rn(static_cast<i32>(high)), bits_to_float(0x33800000u));   // 2^-24
    const float gate[1] = {round % 2 ? bits_to_float(high) : spread}, up[1] = {1.25f};
    float h[1];
    swiglu_all(gate, up, h);
    const float want = swiglu(gate[0], up[0]);
    found[2] += usual_gate(gate[0]);
    found[3] += float_to_bits(h[0]) != float_to_bits(want) && !(h[0] != h[0] && want != want);
  }
  for (int i = 0; i < 4; ++i) atomicAdd(reinterpret_cast<i32*>(out) + i, static_cast<i32>(found[i]));
}
"""


@pytest.mark.parametrize(("name", "blocks", "rounds"), [("lanes", 4, 64), ("cuda", 1024, 2048)])
def test_shortened_operations_give_the_bits_of_whole_ones(tmp_path: Path, name: str, blocks: int, rounds: int) -> None:
    """On a card, 2^29 operands; the lanes' division is the host's own, and gives NaN where it may not be asked."""
    try:
        executor = open_executor(name)
    except ExecutorUnavailable as error:
        pytest.skip(str(error))
    (tmp_path / "shortened.cu").write_text(SOURCE)
    kernel = Kernel("shortened", "shortened", 256, 0, (("TIER", 75),), directory=str(tmp_path))
    out = executor.array(np.zeros(4, np.uint32), "counts", written=True)
    executor.launch(kernel, (blocks, 1, 1), (out, np.uint64(11), np.int32(rounds)))
    total = blocks * 256 * rounds
    usual, scales, gates, products = out.host().tolist()
    assert 0.7 * total < usual < total
    assert 0.2 * total < gates < total
    assert (scales, products) == (0, 0)


def test_no_usual_gate_that_is_a_power_of_two_has_a_divisor_just_below_one() -> None:
    """The one pair of operands for which the shortened division may be off: the gate 2^-23, say, which is not usual."""
    powers = np.array([sign * 2.0**k for k in range(-30, 7) for sign in (1, -1)], np.float32)
    below = (np.float32(1) + exp2((powers * NEGATIVE_LOG2_E).astype(np.float32))).view(np.uint32) & 0x7FFFFF == 0x7FFFFF
    assert (powers[below] == np.float32(2.0**-23)).any()
    assert (np.abs(powers[below]) < 2.0**-20).all()
