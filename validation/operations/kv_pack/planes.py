"""K and V of a case in logical order: drawn codes and scales, or float values packed by the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.core.random_streams import NORMAL_BITS, Stream, scaled
from validation.operations.kv_pack import reference as kv_pack
from validation.operations.kv_pack.recipes import Kind, Plane, Sign
from validation.operations.kv_pack.reference import HEAD_DIM, INT8_GROUP, Q4_BLOCK, Q4_BYTES, Q4_ROW

#: Dimensions under one scale. FP16 values are drawn in groups of 64 too, so that recipes mean the same.
GROUP = {"fp16": INT8_GROUP, "int8": INT8_GROUP, "q4_0": Q4_BLOCK}
#: Kinds that are drawn as float values and packed.
PACKED = (Kind.BELL, Kind.OUTLIERS, Kind.SAME, Kind.CLIMBING, Kind.SHINING, Kind.LADDER, Kind.STAIRS)
#: Dims of a step of `Plane.slopes`.
STEP = Q4_BLOCK
#: Cells of a step of STAIRS: two chunks, or one.
STAIR = 64
#: Exponent of the typical code: what is taken off a scale so that values of all formats are alike.
_CODE_EXPONENT = {"fp16": 0, "int8": 6, "q4_0": 1}

_FP16_BIAS = 15
_FP16_MANTISSA = 10
_SIGN_BIT = 0x8000
#: Scales of every class of FP16: zeros, subnormals, the smallest normal, ones, the largest.
EXTREME_SCALES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xB801, 0x7BFF, 0xFBFF)


@dataclass(frozen=True)
class Cells:
    """K or V of all cells. data: float16 or int8 [cells, kv, 256], or uint8 [cells, kv, 144] for
    Q4_0; scale: float16 [cells, kv, 4] for INT8, else None."""

    data: np.ndarray
    scale: np.ndarray | None = None

    def signs(self, cells: np.ndarray, head: np.ndarray) -> np.ndarray:
        """int8 [len(cells), 256] of -1, 0, 1: signs of the values of one (cell, KV head) per row."""
        rows = self.data[cells, head]
        if self.scale is not None:
            scale = np.sign(self.scale[cells, head]).repeat(INT8_GROUP, axis=-1)
            return np.asarray(np.sign(rows) * scale, dtype=np.int8)
        with np.errstate(invalid="ignore"):
            values = kv_pack.unpack_q4_0(rows) if rows.dtype == np.uint8 else rows
            return np.asarray(np.sign(values), dtype=np.int8)


def draw(stream: Stream, plane: Plane, form: str, cells: int, heads: int) -> Cells:
    """The cells of one plane in a format: `fp16`, `int8` or `q4_0`."""
    if plane.kind in PACKED:
        return pack(_floats(stream, plane, cells, heads) * sizes(plane, cells, heads), form)
    groups = (cells, heads, HEAD_DIM // GROUP[form])
    if plane.kind is Kind.PUBLISHED and form != "q4_0":
        # FP16: K and V of deviation near 1; INT8: scales of 0.005..0.03. Q4_0 was published as SCALED.
        low, high = (1 << 14, (1 << 14) + 1) if form == "fp16" else (82, 492)
        steps = low + stream.child("scale").below(high - low, groups)
        scale = scaled(steps, -14).astype(np.float16)
    elif plane.kind is Kind.EXTREMES:
        chosen = stream.child("scale").below(len(EXTREME_SCALES), groups)
        scale = np.array(EXTREME_SCALES, dtype=np.uint16)[chosen].view(np.float16)
    else:
        scale = _scales(stream, plane, form, groups)
    return _coded(stream, form, scale)


def pack(values: np.ndarray, form: str) -> Cells:
    """Cells of float32 values [cells, kv, 256], stored as the reference packers store them."""
    if form == "int8":
        return Cells(*kv_pack.pack_int8(values))
    return Cells(kv_pack.pack_q4_0(values) if form == "q4_0" else kv_pack.pack_fp16(values))


def _scales(stream: Stream, plane: Plane, form: str, groups: tuple[int, int, int]) -> np.ndarray:
    """float16 scales, uniform over the FP16 bit patterns between two powers of two (near log-uniform)."""
    # Biased exponents below 1 are subnormals: the pattern space simply starts at zero there.
    low, high = (max(e - _CODE_EXPONENT[form] + _FP16_BIAS, 0) << _FP16_MANTISSA for e in (plane.low, plane.high))
    bits = low + stream.child("scale").below(high - low, groups)
    negative = stream.child("sign").below(2, groups)
    if plane.sign is Sign.BY_GROUP:
        policy = (np.arange(groups[1])[:, None] + np.arange(groups[2])) % 3
        negative = np.where(policy == 0, 1, np.where(policy == 1, 0, negative))
    return np.asarray(bits + negative * _SIGN_BIT, dtype=np.uint16).view(np.float16)


def _coded(stream: Stream, form: str, scale: np.ndarray) -> Cells:
    """Full-range codes under the given scales [cells, kv, groups]."""
    cells, heads, groups = scale.shape
    codes = stream.child("codes")
    if form == "int8":
        return Cells(codes.octets((cells, heads, HEAD_DIM)).view(np.int8), scale)
    if form == "q4_0":
        blocks = codes.octets((cells, heads, groups, Q4_BYTES)).copy()
        blocks[..., :2] = np.ascontiguousarray(scale.astype("<f2"))[..., None].view(np.uint8)
        return Cells(blocks.reshape(cells, heads, Q4_ROW))
    # 11 significant bits times 11 are exact in float32; one rounding to FP16, to infinity never.
    bell = scaled(codes.normal_ints((cells, heads, groups, INT8_GROUP)) >> (NORMAL_BITS - 9), -9)
    with np.errstate(over="ignore", under="ignore"):
        values = (bell * scale.astype(np.float32)[..., None]).clip(-65504, 65504).astype(np.float16)
    return Cells(values.reshape(cells, heads, HEAD_DIM))


def climb_signs(stream: Stream, heads: int) -> np.ndarray:
    """float32 [kv, 256] of -1 and 1: the direction along which a CLIMBING K grows, and a SHINING one points."""
    return (1 - 2 * stream.child("direction").below(2, (heads, HEAD_DIM))).astype(np.float32)


def slope(plane: Plane, heads: int) -> np.ndarray:
    """int64 [kv, 256]: powers of two by which the steps of a plane's dims are larger; they add up to zero."""
    slopes = np.resize(plane.slopes or (0,), heads)
    steps = np.arange(HEAD_DIM) // STEP
    return np.asarray(slopes[:, None] * steps - slopes[:, None] * steps[-1] // 2)


def along(plane: Plane, cells: int, heads: int) -> np.ndarray:
    """int64 [cells, kv]: powers of two that a LADDER, STAIRS or a SHINING cell has along the cells, 0 for others."""
    place, turned = np.arange(cells), np.arange(heads) % 2 == 1
    if plane.kind is Kind.LADDER:
        steps = plane.low + place * (plane.high - plane.low) // max(cells - 1, 1)
    elif plane.kind is Kind.SHINING:
        steps = (place == 0).astype(np.int64)
    else:
        stairs = (plane.high, plane.low) if plane.kind is Kind.STAIRS else (0, 0)
        return np.repeat(np.where(place // STAIR % 2, stairs[1], stairs[0])[:, None], heads, axis=1)
    return np.where(turned, steps[::-1, None], steps[:, None])


def sizes(plane: Plane, cells: int, heads: int) -> np.ndarray:
    """float32, powers of two that go with [cells, kv, 256]: of levels, slopes and the place of a cell."""
    exponents = np.resize(plane.levels or (0,), heads)[:, None] + slope(plane, heads)
    exponents = exponents + along(plane, cells, heads)[..., None]
    return np.asarray(np.ldexp(np.float32(1), exponents.astype(np.int32)))


def _floats(stream: Stream, plane: Plane, cells: int, heads: int) -> np.ndarray:
    """float32 [cells, kv, 256] of the kinds that are packed, before `sizes`."""
    shape, kind = (cells, heads, HEAD_DIM), plane.kind
    if kind in (Kind.SAME, Kind.SHINING):
        row = stream.child("values").normals((1, heads, HEAD_DIM))
        row = np.abs(row) * climb_signs(stream, heads) if kind is Kind.SHINING else row
        return np.ascontiguousarray(np.broadcast_to(row, shape))
    values = stream.child("values").normals(shape)
    if kind is Kind.OUTLIERS:
        channels = stream.child("channels").permutation(HEAD_DIM)[:4]
        values[..., channels] *= np.float32(32)
        loud = stream.child("cells").below(32, cells) == 0
        values[loud] *= np.float32(16)
    if kind is Kind.CLIMBING:
        first, last = (exponent + _FP16_BIAS << _FP16_MANTISSA for exponent in (-6, 1))
        bits = first + np.arange(cells, dtype=np.int64) * (last - first) // max(cells - 1, 1)
        ramp = bits.astype(np.uint16).view(np.float16).astype(np.float32)
        values = np.abs(values) * ramp[:, None, None] * climb_signs(stream, heads)
    return values
