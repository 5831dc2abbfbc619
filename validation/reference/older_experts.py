"""The bits of the two older expert kernels, from their definitions (`expert_mmq.py`, `expert_decode.py`).

They differ from the fused path in how they quantise (ties away from zero; d = 1 / inv, or a binary16 d), in the order of
the factors of a product, and, at decode width, in integer scales with a truncating division and sums in 32 lanes.
"""

from __future__ import annotations

import numpy as np

from validation.reference.experts import (
    BLOCK,
    LARGEST,
    NAN,
    Array,
    Codes,
    Rows,
    Weights,
    canonical,
    dots,
    fma,
    swiglu,
)

#: Lanes among which the groups of a row are dealt out at decode width.
LANES = 32
_INFINITE_HALF = 0x7C00
_HALF_NAN = 0x7FFF


def round_away(x: Array) -> Array:
    """float32 to the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    rest = x - whole  # exact
    return np.asarray(whole + (rest >= np.float32(0.5)) - (rest <= np.float32(-0.5)))


def _blocks(x: Array) -> tuple[Array, Array, Array]:
    """Blocks of 32 of float32 rows [rows, k], whether each holds a value that is not finite, and its amax, 0 there."""
    blocks = x.reshape(len(x), -1, BLOCK)
    lost = ~np.isfinite(blocks).all(axis=-1)
    amax = np.abs(np.where(lost[..., None], np.float32(0), blocks)).max(axis=-1)
    return blocks, lost, amax


def quantise_mmq(x: Array) -> Codes:
    """inv = 127 / amax, code = v inv with ties away from zero, d = 1 / inv; 0 where inv is infinite."""
    blocks, lost, amax = _blocks(x)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        inverse = np.float32(LARGEST) / amax
        live = np.isfinite(inverse) & ~lost
        inverse = np.where(live, inverse, np.float32(1))
        codes = round_away(np.where(live[..., None], blocks, np.float32(0)) * inverse[..., None])
        scale = np.where(live, np.float32(1) / inverse, np.float32(0))
    scale = np.where(lost, NAN.view(np.float32), scale)
    return Codes(codes.astype(np.int8).reshape(x.shape), scale, int(lost.sum()))


def product_mmq(w: Weights, x: Codes) -> Array:
    """sum = fma(dot s, d, sum), or with two scales fma(fma(dot1, s1, dot0 s0), d, sum)."""
    acc = np.zeros((len(x.q), len(w.q)), np.float32)
    dot = dots(w.q, x.q, BLOCK // w.per_block)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for block in range(x.q.shape[1] // BLOCK):
            first = w.per_block * block
            v = canonical(dot[first] * w.scale[None, :, first])
            if w.per_block == 2:
                v = fma(dot[first + 1], w.scale[None, :, first + 1], v)
            acc = fma(v, x.scale[:, block, None], acc)
    return acc


def expert_mmq(gate: Weights, up: Weights, down: Weights, x: Codes) -> Rows:
    """The bits of one expert on tokens quantised by `quantise_mmq`."""
    g, u = product_mmq(gate, x), product_mmq(up, x)
    h = quantise_mmq(swiglu(g, u))
    return Rows(g, u, h, product_mmq(down, h))
