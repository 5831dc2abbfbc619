"""A dense product once more in NumPy, from the formulas of linear_quantise.py and linear_dp4a.py, and its inputs."""

from __future__ import annotations

import numpy as np

from strata.formats import FORMATS
from strata.formats.blocks import plain
from validation.core.random_streams import Stream
from validation.numerics.fma import fma

GROUP = 32


def weights(name: str, outputs: int, width: int, seed: int) -> np.ndarray:
    """uint8 [outputs, row bytes]: any bytes, with finite scales and offsets between 2^-9 and 2^3 of both signs."""
    form = FORMATS[name]
    count = outputs * (width // form.values)
    blocks = Stream.of(seed, "blocks", name).octets((count, form.nbytes))
    places = {"q6_k": [208], "q4_k": [0, 2], "q5_k": [0, 2], "q5_1": [0, 2]}.get(name, [0])
    for place in places:
        blocks[:, place + 1] = blocks[:, place + 1] & 0x8F | 0x18 + (blocks[:, place + 1] & 0x30) // 2
    return blocks.reshape(outputs, -1)


def rows(count: int, width: int, seed: int) -> np.ndarray:
    """float32 [count, width]: whole numbers over decades that change with the group."""
    stream = Stream.of(seed, "rows")
    values = stream.octets((count, width)).astype(np.float32) - np.float32(127.5)
    decades = stream.child("decades").octets((count, width // GROUP)).astype(np.int32) % 9 - 4
    return np.ldexp(values, np.repeat(decades, GROUP, axis=1)).astype(np.float32)


def quantised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float32 d [rows, groups] and int64 codes [rows, groups, 32] of rows."""
    groups = x.reshape(len(x), -1, GROUP)
    amax = np.abs(groups).max(axis=-1)
    bad = ~np.isfinite(groups).all(axis=-1)
    with np.errstate(all="ignore"):
        inverse = np.float32(127) / amax
        empty = bad | ~np.isfinite(inverse)
        codes = np.where(empty[..., None], 0, np.rint(groups * inverse[..., None]))
        d = np.where(empty, np.float32(0), amax / np.float32(127))
    return np.where(bad, np.float32(np.nan), d).astype(np.float32), codes.astype(np.int64)


def product(name: str, blocks: np.ndarray, x: np.ndarray) -> np.ndarray:
    """float32 [rows, outputs], every NaN as 7fffffff."""
    form = FORMATS[name]
    parts = form.parts(blocks.reshape(-1, form.nbytes))
    outputs, groups = len(blocks), x.shape[1] // GROUP
    codes = parts.codes.reshape(outputs, groups, form.scales, -1).astype(np.int64)
    scales = parts.scales.reshape(outputs, groups, form.scales)
    d, given = quantised(x)
    halves = given.reshape(len(x), groups, form.scales, -1)
    out = np.zeros((len(x), outputs), np.float32)
    with np.errstate(all="ignore"):
        for g in range(groups):
            dots = np.einsum("tsi,osi->tos", halves[:, g], codes[:, g]).astype(np.float32)
            v = (dots[..., 0] * scales[:, g, 0]).astype(np.float32)
            if form.scales == 2:
                v = fma(dots[..., 1], np.broadcast_to(scales[:, g, 1], v.shape), v)
            if parts.offsets is not None:
                offset = parts.offsets.reshape(outputs, groups)[:, g]
                sums = given[:, g].sum(axis=-1).astype(np.float32)
                v = fma(np.broadcast_to(-offset, v.shape), np.broadcast_to(sums[:, None], v.shape), v)
            out = fma(v, np.broadcast_to(d[:, g, None], v.shape), out)
    return plain(np.asarray(out, np.float32))
