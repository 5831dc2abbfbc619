"""Float values that are hard to pack, made of exact operations."""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Stream, power_of_two
from validation.operations.kv_pack.reference import HEAD_DIM, INT8_GROUP, INT8_LARGEST, Q4_BLOCK

#: Powers of two of `pack_decades`: from scales that FP16 rounds to zero to just below its largest.
LOWEST, HIGHEST = -30, 17
#: Deviations of `pack_lost`: a group beyond every FP16 scale, and one whose 1 / d float32 cannot hold.
BEYOND, SUBNORMAL = 25, -136


def draw(recipe: str, stream: Stream, cells: int, heads: int) -> np.ndarray:
    """float32 [cells, heads, 256] of a kv_pack recipe, one of K and V."""
    shape = (cells, heads, HEAD_DIM)
    makers = {
        "pack_bell": lambda: stream.normals(shape),
        "pack_far": lambda: stream.normals(shape),
        "pack_decades": lambda: _decades(stream, shape),
        "pack_ties": lambda: _ties(stream, shape),
        "pack_halfway": lambda: _halfway(stream, shape),
        "pack_sparse": lambda: _sparse(stream, shape),
        "pack_lost": lambda: _lost(stream, shape),
    }
    return np.ascontiguousarray(makers[recipe](), dtype=np.float32)


def _powers(stream: Stream, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """float64 powers of two with exponents low..high-1."""
    table = np.array([power_of_two(exponent) for exponent in range(low, high)])
    return np.asarray(table[stream.below(high - low, shape)])


def _decades(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Half of the rows have one power throughout: the rotation lifts every block to the loudest of its row."""
    groups = (*shape[:2], HEAD_DIM // Q4_BLOCK)
    powers = _powers(stream.child("powers"), LOWEST, HIGHEST, groups)
    alike = stream.child("alike").below(2, shape[:2])[..., None] == 0
    scale = np.where(alike, powers[..., :1], powers).repeat(Q4_BLOCK, axis=-1)
    return np.asarray(stream.child("values").normals(shape).astype(np.float64) * scale)


def _ties(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Small integers, so that the largest magnitude of a block occurs often and with both signs."""
    return stream.child("values").below(17, shape).astype(np.float64) - 8


def _halfway(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Groups of 64 whose values lie halfway between codes.

    The scale has 12 significant bits: a power of two in half of the groups; in the rest, where 1 / scale is inexact,
    an FP16 value or a middle of two.

    Even groups are halfway for INT8 (largest value 127 steps), odd ones for Q4_0 (8 steps, either
    sign, in each of the two blocks). A third of the values move one float32 step up, a third down.
    """
    grouped = (*shape[:2], HEAD_DIM // INT8_GROUP, INT8_GROUP)
    even = (np.arange(grouped[2]) % 2 == 0)[:, None]
    span = np.where(even, INT8_LARGEST, 7)
    halves = stream.child("codes").below(1 << 20, grouped) % (2 * span) - span + 0.5
    moved = stream.child("moved").below(3, grouped) - 1
    single = halves.astype(np.float32)
    single = np.where(moved == 0, single, np.nextafter(single, np.where(moved > 0, np.float32(512), np.float32(-512))))
    signs = 1 - 2 * stream.child("signs").below(2, (*grouped[:3], 2))
    single[..., 0] = signs[..., 0] * np.where(even[:, 0], INT8_LARGEST, 8)
    single[..., Q4_BLOCK] = signs[..., 1] * np.where(even[:, 0], INT8_LARGEST, 8)
    drawn = stream.child("fractions").below(4096, grouped[:3])
    fraction = np.where(drawn < 2048, 0, np.where(drawn < 3072, drawn % 16, drawn - 2048)) / 2048
    scale = (_powers(stream.child("powers"), -6, 6, grouped[:3]) * (1 + fraction))[..., None]
    made = (single.astype(np.float64) * scale).astype(np.float32)
    # One float32 step of the largest value is 64 / 127 of one of its quotient just above a power of two, and there
    # a product with 1 / 127 falls on the other side of the middle of two scales.
    ends = made[..., [0, Q4_BLOCK]]
    way = stream.child("ends").below(3, grouped[:3])[..., None].astype(np.float32)  # down, not at all, up
    made[..., [0, Q4_BLOCK]] = np.where(even & (fraction > 0)[..., None], np.nextafter(ends, ends * way), ends)
    return np.asarray(made.reshape(shape))


def _sparse(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Zeros of both signs; half of the blocks have one element that is not zero."""
    blocks = (*shape[:2], HEAD_DIM // Q4_BLOCK, Q4_BLOCK)
    zeros = np.where(stream.child("zeros").below(2, blocks) == 0, 0.0, -0.0)
    values = stream.child("values").normals(blocks).astype(np.float64)
    place = stream.child("place").below(2 * Q4_BLOCK, blocks[:3])[..., None]
    return np.asarray(np.where(np.arange(Q4_BLOCK) == place, values, zeros).reshape(shape))


def _lost(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Rows of five kinds: plain; one element in 32 a NaN or an infinity; a fourth of the groups beyond FP16; tiny; the
    second and third at once. (Rotated, any NaN takes its whole row: the third kind alone overflows there.)

    A tiny row is subnormal, and half of its elements are zeros, which an infinite 1 / d turns into NaN.
    """
    values = stream.child("values").normals(shape).astype(np.float64)
    kind = stream.child("kind").below(5, shape[:2])[..., None]
    bad = np.array([np.nan, np.inf, -np.inf])[stream.child("bad").below(3, shape)]
    tiny = values * power_of_two(SUBNORMAL) * stream.child("kept").below(2, shape)
    loose = np.where(((kind == 1) | (kind == 4)) & (stream.child("where").below(32, shape) == 0), bad, values)
    groups = (*shape[:2], HEAD_DIM // INT8_GROUP)
    loud = (stream.child("loud").below(4, groups) == 0).repeat(INT8_GROUP, axis=-1)
    loose = np.where(((kind == 2) | (kind == 4)) & loud, loose * power_of_two(BEYOND), loose)
    return np.where(kind == 3, tiny, loose)
