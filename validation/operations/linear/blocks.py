"""Matrices of blocks: random bytes with the FP16 numbers of each block as a recipe says.

Random bytes are valid blocks of every format here: each index is in the range of its codebook. Only the FP16 scale of
a block, and beside it the minimum of some formats, have to be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from strata.formats import FORMATS
from validation.core.random_streams import Stream, scaled
from validation.operations.linear.formats import GROUP, HALVES


@dataclass(frozen=True)
class Half:
    """One FP16 number of a block.

    Parameters
    ----------
    at
        Its first byte.
    size
        log2 of how much larger than a scale it is made, so that an offset weighs as much as what it is taken from.
    """

    at: int
    size: int = 0


#: FP16 numbers of blocks that have others than a scale at byte 0.
HALVES_OF: Mapping[str, tuple[Half, ...]] = {
    "q5_1": (Half(0), Half(2, 4)),
    "q4_k": (Half(0), Half(2, 3)),
    "q5_k": (Half(0), Half(2, 4)),
    "q6_k": (Half(208),),
}
#: Exponents of plain scales, of scales over decades, and of the smallest and largest subnormal.
PLAIN, DECADES = (-8, -6), (-13, 5)
_MANTISSA = 1 << 10
_SUBNORMALS = _MANTISSA - 1
#: FP16 bits of what is no usual scale: infinities and NaN of both signs, zeros, subnormals, the largest.
BROKEN = (0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF)
#: Bytes of which a block is made throughout: fields all 0, all ones, and the smallest and largest signed byte.
FILLS = (0x00, 0xFF, 0x80, 0x7F)
#: One FP16 number in so many of a matrix of halves is none or the largest, in outputs that have such.
_RARE = 64


def matrix(stream: Stream, kind: str, mode: str, outputs: int, width: int) -> np.ndarray:
    """A matrix by the name of a recipe without `linear_`.

    Returns
    -------
    uint8 [outputs, row bytes], of FP16 uint16 [outputs, width].
    """
    if mode == HALVES:
        return _halves(stream, kind, outputs, width)
    form = FORMATS[mode]
    count = width // form.values
    blocks = stream.child("bytes").octets((outputs, count, form.nbytes))
    if kind == "extreme":
        fill = np.array(FILLS, np.uint8)[stream.child("fill").below(len(FILLS), (outputs, count, 1))]
        blocks = np.broadcast_to(fill, blocks.shape).copy()
    for index, half in enumerate(HALVES_OF.get(mode, (Half(0),))):
        bits = _scales(stream.child("scale", index), kind, half.size, outputs, count)
        blocks[..., half.at : half.at + 2] = bits.astype("<u2")[..., None].view(np.uint8)
    if kind == "cancelling":
        blocks = _twice(blocks)
    return np.ascontiguousarray(blocks.reshape(outputs, -1))


def _twice(x: np.ndarray) -> np.ndarray:
    """The first half along the second axis again in the second half; of an odd number, the last one stays."""
    half = x.shape[1] // 2
    out = x.copy()
    out[:, half : 2 * half] = x[:, :half]
    return out


def _scales(stream: Stream, kind: str, size: int, outputs: int, count: int) -> np.ndarray:
    """uint16 [outputs, count]: FP16 bits."""
    shape = (outputs, count)
    low, high = DECADES if kind == "decades" else PLAIN
    exponent = low + size + stream.child("exponent").below(high - low + 1, shape)
    mantissa = _MANTISSA + stream.child("mantissa").below(_MANTISSA, shape)
    bits = np.ldexp(mantissa.astype(np.float64), exponent - 10).astype(np.float16).view(np.uint16)
    sign = stream.child("sign").below(2, shape).astype(np.uint16) << np.uint16(15)
    if kind == "bell":
        return np.asarray(bits)
    bits = bits ^ sign
    if kind == "ladder":
        faint = (1 + stream.child("faint").below(_SUBNORMALS, shape)).astype(np.uint16) ^ sign
        bits[1::2] = faint[1::2]
    if kind == "broken":
        bits = _spoiled(stream, bits)
    return np.asarray(bits)


def _spoiled(stream: Stream, bits: np.ndarray) -> np.ndarray:
    """FP16 bits with some that are no usual numbers, in every third output from the second on; one of them has such
    alone."""
    which = np.array(BROKEN, np.uint16)[stream.child("which").below(len(BROKEN), bits.shape)]
    place = stream.child("place").below(4, bits.shape) == 0
    place[4::9] = True
    own = (np.arange(len(bits)) % 3 == 1)[:, None]
    return np.where(place & own, which, bits)


def _halves(stream: Stream, kind: str, outputs: int, width: int) -> np.ndarray:
    """uint16 [outputs, width]: FP16 bits."""
    shape, groups = (outputs, width), -(-width // GROUP)
    low, high = DECADES if kind == "decades" else PLAIN
    exponent = low + 5 + stream.child("exponent").below(high - low + 1, (outputs, groups))
    size = np.repeat(exponent, GROUP, axis=1)[:, :width].astype(np.int32)
    bits = np.ldexp(stream.child("values").normals(shape), size).astype(np.float16).view(np.uint16)
    sign = stream.child("sign").below(2, shape).astype(np.uint16) << np.uint16(15)
    if kind == "extreme":  # the largest of both signs, and every subnormal size
        faint = scaled(1 + stream.child("faint").below(_SUBNORMALS, shape), -24).astype(np.float16).view(np.uint16)
        bits = np.where(stream.child("fill").below(4, (outputs, 1)) == 0, faint, np.uint16(0x7BFF)) ^ sign
    if kind == "cancelling":
        bits = np.concatenate([bits[:, : width // 2]] * 2, axis=1)
    if kind == "ladder":
        faint = (1 + stream.child("faint").below(_SUBNORMALS, shape)).astype(np.uint16) ^ sign
        bits[1::2] = faint[1::2]
    if kind == "broken":
        which = np.array(BROKEN, np.uint16)[stream.child("which").below(len(BROKEN), shape)]
        place = stream.child("place").below(_RARE, shape) == 0
        bits = np.where(place & (np.arange(outputs) % 3 == 1)[:, None], which, bits)
    return np.ascontiguousarray(bits)
