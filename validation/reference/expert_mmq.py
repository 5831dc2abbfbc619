"""The bits of the MMQ-style baseline, by the formulas of strata/kernels/expert_mmq.py, straight from their definition.

Dots are exact.
"""

from __future__ import annotations

import numpy as np

from validation.reference.experts import BLOCK, LARGEST, TWO_DOTS, Codes, Rows, Weights, lines, swiglu
from validation.reference.fma import NAN, Array, Fma, canonical, exact, gridded, units


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
    left, right = lines(x.q, BLOCK // w.per_block), w.columns
    total, dot, scaled = (np.zeros((len(x.q), len(w.q)), np.float32) for _ in range(3))
    add, inside = Fma(total.shape, gridded(w.units, units(x.scale))), Fma(total.shape, True, exact(w.units, TWO_DOTS))
    scales = np.ascontiguousarray(w.scale.T)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for block in range(x.q.shape[1] // BLOCK):
            at = block * w.per_block
            np.matmul(left[at], right[at], out=dot)
            np.multiply(dot, scales[at], out=scaled)
            if w.per_block == 2:
                np.matmul(left[at + 1], right[at + 1], out=dot)
                inside(dot, scales[at + 1], scaled, out=scaled)
            add(scaled, x.scale[:, block, None], total, out=total)
        return canonical(total)


def expert(gate: Weights, up: Weights, down: Weights, x: Codes) -> Rows:
    """The bits of one expert on quantised tokens."""
    g, u = product(gate, x), product(up, x)
    h = quantise(swiglu(g, u))
    return Rows(g, u, h, product(down, h))
