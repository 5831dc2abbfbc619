"""What `kv_pack` must store, from the definition of the formats, and what stored bytes mean.

INT8: groups of 64. `s = fp16(amax / 127)` with the division in float32; `code = clamp(rint(x /
float32(s)), -127, 127)`, division in float32, ties to even; all codes are 0 when `s` is 0.

Q4_0: blocks of 32 in 18 bytes. `m` is the element of largest magnitude, and of several the one met
first (the rule of ggml and of the `gguf` package); `d = m / -8` in float32, `id = 1 / d` (0 if d is
0), `code = clamp(trunc(x * id + 8.5), 0, 15)`, product and sum each rounded to float32 (as in `gguf`
from 0.18 on); stored are `fp16(d)` and the codes, element j in the low nibble of byte j and j + 16 in its high nibble.

A value that is not finite is packed as +0 by INT8 and Q4_0; FP16 keeps infinities and stores every NaN as 7fff. A
Q4_0 code that comes out as NaN (0 times an infinite 1 / d, below 2**-125) is 0.

Every operation used is correctly rounded by IEEE 754, so these bytes are the same everywhere.

References
----------
Q4_0 and its bytes are ggml's, `ggml-quants.c` and the `gguf` package of https://github.com/ggml-org.
"""

from __future__ import annotations

import numpy as np

HEAD_DIM = 256
INT8_GROUP = 64
INT8_LARGEST = 127
Q4_BLOCK = 32
Q4_BYTES = 18
Q4_ZERO = 8
Q4_ROW = HEAD_DIM // Q4_BLOCK * Q4_BYTES

#: The bits that a computed NaN has on a card.
HALF_NAN = 0x7FFF
SINGLE_NAN = 0x7FFFFFFF


def _float32(x: np.ndarray, group: int) -> np.ndarray:
    if x.dtype != np.float32 or x.shape[-1] % group:
        raise ValueError(f"got {x.dtype} {x.shape}, expected float32 [..., multiple of {group}]")
    held = np.where(np.isfinite(x), x, np.float32(0))
    return held.reshape(*x.shape[:-1], x.shape[-1] // group, group)


def pack_fp16(x: np.ndarray) -> np.ndarray:
    """Each element rounded to nearest even, NaN to 7fff.

    Parameters
    ----------
    x
        float32, of any shape.

    Returns
    -------
    float16 array
        Of the shape of x.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        half = x.astype(np.float16)
    half.view(np.uint16)[np.isnan(x)] = HALF_NAN
    return half


def pack_int8(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of INT8.

    Parameters
    ----------
    x
        float32 [..., d], d a multiple of 64.

    Returns
    -------
    (int8 array [..., d], float16 array [..., d / 64])

    Raises
    ------
    ValueError
        For another dtype or shape.
    """
    groups = _float32(x, INT8_GROUP)
    largest = np.abs(groups).max(axis=-1)
    with np.errstate(over="ignore", under="ignore"):
        scale = (largest / np.float32(INT8_LARGEST)).astype(np.float16)
    wide = scale.astype(np.float32)[..., None]
    divisor = np.where(wide == 0, np.float32(1), wide)
    with np.errstate(over="ignore", under="ignore"):
        codes = np.clip(np.rint(groups / divisor), -INT8_LARGEST, INT8_LARGEST)
    codes = np.where(wide == 0, np.float32(0), codes).astype(np.int8)
    return codes.reshape(x.shape), scale


def pack_q4_0(x: np.ndarray) -> np.ndarray:
    """The blocks of Q4_0, those of a row one after another.

    Parameters
    ----------
    x
        float32 [..., d], d a multiple of 32.

    Returns
    -------
    uint8 array [..., d / 32 * 18]

    Raises
    ------
    ValueError
        For another dtype or shape.
    """
    blocks = _float32(x, Q4_BLOCK)
    place = np.abs(blocks).argmax(axis=-1, keepdims=True)
    d = np.take_along_axis(blocks, place, axis=-1) / np.float32(-8)
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.where(d == 0, np.float32(0), np.float32(1) / np.where(d == 0, np.float32(1), d))
        steps = np.trunc(blocks * inverse + np.float32(8.5))
    codes = np.clip(np.where(np.isnan(steps), np.float32(0), steps), 0, 15).astype(np.uint8)
    out = np.empty((*blocks.shape[:-1], Q4_BYTES), dtype=np.uint8)
    with np.errstate(over="ignore", under="ignore"):
        out[..., :2] = d.astype("<f2").view(np.uint8)
    half = Q4_BLOCK // 2
    out[..., 2:] = codes[..., :half] | (codes[..., half:] << 4)
    return out.reshape(*x.shape[:-1], out.shape[-2] * Q4_BYTES)


def unpack_int8(codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What INT8 stands for: code * scale, exact.

    Parameters
    ----------
    codes
        int8 [..., d].
    scale
        float16 [..., d / 64].

    Returns
    -------
    float64 array [..., d]
    """
    groups = codes.reshape(*codes.shape[:-1], codes.shape[-1] // INT8_GROUP, INT8_GROUP).astype(np.float64)
    return (groups * scale.astype(np.float64)[..., None]).reshape(codes.shape)


def q4_0_scales(rows: np.ndarray) -> np.ndarray:
    """The stored scale of every block.

    Parameters
    ----------
    rows
        uint8 [..., blocks * 18].

    Returns
    -------
    float16 array [..., blocks]
    """
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // Q4_BYTES, Q4_BYTES)
    return np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0]


def unpack_q4_0(rows: np.ndarray) -> np.ndarray:
    """What Q4_0 stands for: (code - 8) * d, exact.

    Parameters
    ----------
    rows
        uint8 [..., blocks * 18].

    Returns
    -------
    float64 array [..., blocks * 32]
    """
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // Q4_BYTES, Q4_BYTES)
    codes = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1).astype(np.float64)
    values = (codes - Q4_ZERO) * q4_0_scales(rows).astype(np.float64)[..., None]
    return values.reshape(*rows.shape[:-1], values.shape[-2] * Q4_BLOCK)


def hadamard(x: np.ndarray) -> np.ndarray:
    """The orthonormal Walsh-Hadamard transform (Sylvester order), its own inverse.

    y[i] = sum_j (-1)**popcount(i & j) * x[j] / 16. Sums run in one fixed order of exactly rounded additions, so the
    result is the same on every machine.

    Parameters
    ----------
    x
        [..., 256].

    Returns
    -------
    float64 array [..., 256]

    Raises
    ------
    ValueError
        For another last axis.

    References
    ----------
    J. J. Sylvester, "Thoughts on inverse orthogonal matrices", Philosophical Magazine 34, 1867.
    """
    return _butterflies(x.astype(np.float64)) / 16.0


def hadamard32(x: np.ndarray) -> np.ndarray:
    """The transform of `hadamard` in the arithmetic that stored rows are defined by.

    Each element is multiplied by 1/16, then index bits 0 to 7 are combined in that order, the pair (a, b) giving (a +
    b, a - b), every operation rounded to float32. A NaN is 7fffffff.

    Parameters
    ----------
    x
        float32 [..., 256].

    Returns
    -------
    float32 array [..., 256]

    Raises
    ------
    ValueError
        For another dtype or last axis.
    """
    if x.dtype != np.float32:
        raise ValueError(f"dtype is {x.dtype}, expected float32")
    with np.errstate(invalid="ignore"):
        turned = _butterflies(x * np.float32(1 / 16))
    turned.view(np.uint32)[np.isnan(turned)] = SINGLE_NAN
    return turned


def _butterflies(x: np.ndarray) -> np.ndarray:
    """Unscaled transform of the last axis in the dtype of `x`, index bit 0 first."""
    if x.shape[-1] != HEAD_DIM:
        raise ValueError(f"last axis is {x.shape[-1]}, expected {HEAD_DIM}")
    y, half = x.reshape(-1, HEAD_DIM), 1
    while half < HEAD_DIM:
        pairs = y.reshape(-1, HEAD_DIM // (2 * half), 2, half)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        y = y.reshape(-1, HEAD_DIM)
        half *= 2
    return y.reshape(x.shape)


def lost(x: np.ndarray, form: str) -> int:
    """How many values a format cannot hold.

    FP16: those that round to infinity or are not finite. The others: a whole scale group whose scale rounds to
    infinity, besides elements that are not finite.

    Parameters
    ----------
    x
        float32 [..., 256].
    form
        `fp16`, `int8` or `q4_0`.
    """
    if form == "fp16":
        return int((~np.isfinite(pack_fp16(x))).sum())
    group = INT8_GROUP if form == "int8" else Q4_BLOCK
    scale = pack_int8(x)[1] if form == "int8" else q4_0_scales(pack_q4_0(x))
    whole = ~np.isfinite(scale).repeat(group, axis=-1)
    return int((whole | ~np.isfinite(x)).sum())
