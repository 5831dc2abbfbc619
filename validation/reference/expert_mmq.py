"""The bits of the MMQ-style baseline, by the formulas of strata/kernels/expert_mmq.py, straight from their definition.

NumPy has no fused multiply-add; `fma` of the experts' reference makes one. Dots are exact.
"""

from __future__ import annotations

import numpy as np

from validation.reference.experts import BLOCK, LARGEST, NAN, Array, Codes, Rows, Weights, canonical, dots, fma, swiglu


def round_away(x: Array) -> Array:
    """float32 x to the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    rest = x - whole  # exact
    return np.asarray(whole + (rest >= np.float32(0.5)) - (rest <= np.float32(-0.5)))


def quantise(x: Array) -> Codes:
    """Codes of float32 rows [rows, k], k a multiple of 32."""
    blocks = x.reshape(len(x), -1, BLOCK)
    lost = ~np.isfinite(blocks).all(axis=-1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        amax = np.where(lost, np.float32(0), np.abs(blocks).max(axis=-1))
        inverse = np.float32(LARGEST) / amax
        live = np.isfinite(inverse)
        held = np.where(live[..., None], blocks, np.float32(0))
        codes = round_away(held * np.where(live, inverse, np.float32(0))[..., None])
        scale = np.where(live, np.float32(1) / inverse, np.float32(0))
    return Codes(codes.astype(np.int8).reshape(x.shape), np.where(lost, NAN.view(np.float32), scale), int(lost.sum()))


def product(w: Weights, x: Codes) -> Array:
    """float32 [rows of x, rows of w]: the bits of the product."""
    total = np.zeros((len(x.q), len(w.q)), np.float32)
    dot = dots(w.q, x.q, BLOCK // w.per_block)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for block in range(x.q.shape[1] // BLOCK):
            at = block * w.per_block
            scaled = canonical(dot[at] * w.scale[None, :, at])
            if w.per_block == 2:
                scaled = fma(dot[at + 1], w.scale[None, :, at + 1], scaled)
            total = fma(scaled, x.scale[:, block, None], total)
    return total


def expert(gate: Weights, up: Weights, down: Weights, x: Codes) -> Rows:
    """The bits of one expert on quantised tokens."""
    g, u = product(gate, x), product(up, x)
    h = quantise(swiglu(g, u))
    return Rows(g, u, h, product(down, h))
