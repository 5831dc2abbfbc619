"""Float values that are hard to pack, made of exact operations."""

from __future__ import annotations

import numpy as np

from validation.draws import Stream, power_of_two
from validation.reference.kv_pack import HEAD_DIM, INT8_GROUP, INT8_LARGEST, Q4_BLOCK

#: Powers of two of `pack_decades`: from scales that FP16 rounds to zero to just below its largest.
LOWEST, HIGHEST = -30, 17


def draw(recipe: str, stream: Stream, cells: int, heads: int) -> np.ndarray:
    """float32 [cells, heads, 256] of a kv_pack recipe, one of K and V."""
    shape = (cells, heads, HEAD_DIM)
    makers = {
        "pack_bell": lambda: stream.normals(shape),
        "pack_decades": lambda: _decades(stream, shape),
        "pack_ties": lambda: _ties(stream, shape),
        "pack_halfway": lambda: _halfway(stream, shape),
        "pack_sparse": lambda: _sparse(stream, shape),
    }
    return np.ascontiguousarray(makers[recipe](), dtype=np.float32)


def _powers(stream: Stream, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """float64 powers of two with exponents low..high-1."""
    table = np.array([power_of_two(exponent) for exponent in range(low, high)])
    return np.asarray(table[stream.below(high - low, shape)])


def _decades(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    groups = (*shape[:2], HEAD_DIM // Q4_BLOCK)
    scale = _powers(stream.child("powers"), LOWEST, HIGHEST, groups).repeat(Q4_BLOCK, axis=-1)
    return np.asarray(stream.child("values").normals(shape).astype(np.float64) * scale)


def _ties(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Small integers, so that the largest magnitude of a block occurs often and with both signs."""
    return stream.child("values").below(17, shape).astype(np.float64) - 8


def _halfway(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Groups of 64 whose scale is a power of two and whose values lie halfway between codes.

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
    scale = _powers(stream.child("powers"), -6, 6, grouped[:3])[..., None]
    return np.asarray((single.astype(np.float64) * scale).reshape(shape))


def _sparse(stream: Stream, shape: tuple[int, int, int]) -> np.ndarray:
    """Zeros of both signs; half of the blocks have one element that is not zero."""
    blocks = (*shape[:2], HEAD_DIM // Q4_BLOCK, Q4_BLOCK)
    zeros = np.where(stream.child("zeros").below(2, blocks) == 0, 0.0, -0.0)
    values = stream.child("values").normals(blocks).astype(np.float64)
    place = stream.child("place").below(2 * Q4_BLOCK, blocks[:3])[..., None]
    return np.asarray(np.where(np.arange(Q4_BLOCK) == place, values, zeros).reshape(shape))
