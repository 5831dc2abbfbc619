"""Codes and scales of tokens as the kernel writes them, against the model: what no output of a layer need show."""

from __future__ import annotations

import numpy as np

from strata.executors import open_executor
from strata.kernels import expert_fused
from strata.kernels.experts import place
from strata.kernels.paths import PATHS
from tests.strata.kernels.expert_small import layer
from validation.core.random_streams import Stream
from validation.operations.experts.reference import BLOCK, LARGEST, quantise

MODE = "iq4_xs/q2_0"
N = 256


def written(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes int8 [tokens, n] and scales float32 [tokens, n / 32] that the kernel makes of float32 x [tokens, n]."""
    lanes = open_executor("lanes")
    small = layer(MODE, len(x), 2, 1, n=N)
    path = PATHS[f"expert_fused/{MODE}/sm75"]
    ready = expert_fused.prepare(lanes, path, place(lanes, small.experts), x, small.ids)
    ready.group()
    units = np.ascontiguousarray(ready.units.host()).view(np.uint8).reshape(len(x), N // 64, 80)
    scales = np.ascontiguousarray(units[:, :, 64:72]).view(np.float32)
    return units[:, :, :64].view(np.int8).reshape(x.shape), scales.reshape(len(x), N // BLOCK)


def same(x: np.ndarray) -> None:
    codes, scales = written(x)
    want = quantise(x)
    assert np.array_equal(codes, want.q)
    assert np.array_equal(scales.view(np.uint32), np.asarray(want.scale, np.float32).view(np.uint32))


def near_a_tie() -> np.ndarray:
    """float32 [blocks, 32]: blocks in which v times 127 / amax and v / (amax / 127) round to different codes."""
    drawn = Stream.of(1, "near a tie").below(1 << 24, (1 << 17, BLOCK)).astype(np.int64) - (1 << 23)
    blocks = drawn.astype(np.float32)
    amax = np.abs(blocks).max(axis=1, keepdims=True)
    product = np.rint(blocks * (np.float32(LARGEST) / amax))
    quotient = np.rint(blocks / (amax / np.float32(LARGEST)))
    return np.asarray(blocks[(product != quotient).any(axis=1)])


def test_codes_are_products_with_the_inverse_where_a_quotient_rounds_otherwise() -> None:
    found = near_a_tie()
    assert len(found) >= 4
    same(np.resize(found, (len(found), N)))


def test_blocks_too_small_to_invert_are_zeros_with_a_scale_of_zero() -> None:
    """Exponents -126 to -112, both sides of the edge at which 127 / amax overflows, and below the normal numbers."""
    exponents = np.concatenate([np.arange(-149, -125, 4), np.arange(-124, -112)])
    signs = np.where(np.arange(BLOCK) % 2, -1.0, 1.0)
    blocks = np.ldexp(signs[None, :], exponents[:, None]).astype(np.float32)
    x = np.resize(blocks, (9, N))
    codes, scales = written(x)
    assert (scales == 0).any()
    assert (scales != 0).any()
    assert not codes.reshape(9, -1, BLOCK)[scales == 0].any()
    same(x)
