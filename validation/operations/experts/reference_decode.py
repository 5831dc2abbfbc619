"""The bits of the decode-width expert kernel, by the formulas of strata/kernels/expert_decode.py.

Its integer scales are read from the blocks' bytes here, apart from the decoders: a block's own d and, for 32 or 16
values, a level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from strata.formats import FORMATS
from validation.numerics.fma import NAN, Array, Fma, canonical
from validation.operations.experts import reference
from validation.operations.experts.reference import BLOCK, LARGEST, Codes, dots
from validation.operations.experts.reference_mmq import round_away

_LANES = 32


@dataclass(frozen=True)
class Matrix:
    """A matrix with its integer scales.

    Parameters
    ----------
    form
        The format.
    q
        int8 [rows, k].
    d
        float32 [rows, k / 32], the block's.
    level
        int64 [rows, k / 32 * (1 or 2)], the integer scale, zeros in a format without one.
    """

    form: str
    q: Array
    d: Array
    level: Array


def matrix(form: str, data: Array, rows: int) -> Matrix:
    """A matrix from its bytes.

    Parameters
    ----------
    form
        The format.
    data
        uint8, the blocks of its rows one after another.
    rows
        How many rows it has.
    """
    made = FORMATS[form]
    blocks = data.reshape(rows, -1, made.nbytes)
    parts = made.values // BLOCK
    q, _ = made.quants(blocks)
    d = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    level = np.stack([_levels(form, blocks, part) for part in range(parts)], axis=2)  # [rows, blocks, parts, 1 or 2]
    return Matrix(form, q.reshape(rows, -1), np.repeat(d[..., 0], parts, axis=1), level.reshape(rows, -1))


def _levels(form: str, blocks: Array, part: int) -> Array:
    """int64 [rows, blocks, 1 or 2]: the levels of values 32 part .. 32 part + 31 of every block."""
    b = blocks.astype(np.int64)
    if form == "iq3_xxs":
        return b[..., 66 + 4 * part + 3, None] >> 4
    if form == "iq2_xxs":
        return b[..., 2 + 8 * part + 7, None] >> 4
    if form in ("iq2_xs", "iq2_s"):
        packed = b[..., (66 if form == "iq2_xs" else 74) + part]
        return np.stack([packed & 15, packed >> 4], axis=-1)
    if form == "iq3_s":
        return b[..., 106 + part // 2, None] >> 4 * (part % 2) & 15
    if form == "iq4_xs":
        low = b[..., 4 + part // 2] >> 4 * (part % 2) & 15
        high = b[..., 2 + part // 4] >> 2 * (part % 4) & 3
        return (low | high << 4)[..., None]
    return np.zeros((*blocks.shape[:2], 1), np.int64)


def quantise(x: Array) -> Codes:
    """Codes of rows; the scales are binary16 numbers, widened.

    Parameters
    ----------
    x
        float32 [rows, k], k a multiple of 32.
    """
    blocks = x.reshape(len(x), -1, BLOCK)
    broken = ~np.isfinite(blocks).all(axis=-1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        amax = np.where(broken, np.float32(0), np.abs(blocks).max(axis=-1))
        d = amax / np.float32(LARGEST)
        held = np.where((d > 0)[..., None], blocks, np.float32(0))
        codes = np.clip(round_away(held / np.where(d > 0, d, np.float32(1))[..., None]), -LARGEST, LARGEST)
        scale = np.where(broken, NAN.view(np.float32), d.astype(np.float16).astype(np.float32))
    return Codes(codes.astype(np.int8).reshape(x.shape), scale, int((~np.isfinite(scale)).sum()))


def truncated(x: Array, divisor: int) -> Array:
    """Integer division as C does it: towards zero.

    Parameters
    ----------
    x
        Integers, of any shape.
    divisor
        Above 0.
    """
    return np.asarray(np.sign(x) * (np.abs(x) // divisor))


def scaled_dots(w: Matrix, x: Codes) -> Array:
    """Each dot product times its integer scale.

    Parameters
    ----------
    w
        The matrix.
    x
        Codes of the rows.

    Returns
    -------
    int64 array [k / 32, rows of x, rows of w]
    """
    halves = dots(w.q, x.q, BLOCK // 2).astype(np.int64)
    first, second = halves[0::2], halves[1::2]
    whole = first + second
    level = w.level.T[:, None, :]
    if w.form == "iq3_xxs":
        return truncated(level * whole + truncated(whole, 2), 2)
    if w.form == "iq2_xxs":
        return truncated(whole * (2 * level + 1), 8)
    if w.form in ("iq2_xs", "iq2_s"):
        return truncated(first * level[0::2] + second * level[1::2] + truncated(whole, 2), 4)
    if w.form == "iq3_s":
        return np.asarray(whole * (1 + 2 * level))
    if w.form == "iq4_xs":
        return np.asarray(whole * (level - 32))
    return whole


def product(w: Matrix, x: Codes) -> Array:
    """The bits of the product.

    Parameters
    ----------
    w
        The matrix.
    x
        Codes of the rows.

    Returns
    -------
    float32 array [rows of x, rows of w]
    """
    dot = scaled_dots(w, x).astype(np.float32)
    lanes = np.zeros((_LANES, len(x.q), len(w.q)), np.float32)
    add = Fma(lanes[0].shape, True)  # a multiple of 2**-149 times an integer
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for block in range(len(dot)):
            lane = block % _LANES
            scale = canonical(w.d[None, :, block] * x.scale[:, block, None])
            add(scale, dot[block], lanes[lane], out=lanes[lane])
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = canonical(lanes[:half] + lanes[half:])
    return np.asarray(lanes[0])


#: The bits of one expert on quantised tokens, see `reference.expert`.
expert = partial(reference.expert, product=product, quantise=quantise)
