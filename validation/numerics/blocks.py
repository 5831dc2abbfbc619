"""Block formats a second time: where each bit of a field lies, and what the fields mean.

A layout lists, for every field of a block, the places of its bits, so packing and unpacking are one scatter and one
gather for all formats; nothing is shared with the decoders but the codebooks, whose digests are pinned. Bit i of a
block is bit i % 8 of byte i / 8.

Fields: `d` (binary16 bits), `level` (what a scale is made of), `index` (into the grid), `sign` (of eight values, bit m
of value m; seven bits where the eighth is their parity), `code` (an unsigned number a value), `dmin` (binary16 bits: of
Q5_1 what is added to every value) and `offset`.

References
----------
The fields are those of ggml's block structures, `ggml-common.h` of https://github.com/ggml-org/ggml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from strata.formats import FORMATS, codebook
from validation.core.arrays import frozen

Fields = Mapping[str, np.ndarray]
#: int64 [count, bits]: the place of every bit of a field, its lowest first.
Places = np.ndarray

#: What a scale is divided by: of IQ2 and IQ3, d (2 level + 1) / divisor.
DIVISORS = {"iq2_xxs": 8, "iq2_xs": 8, "iq2_s": 8, "iq3_xxs": 4, "iq3_s": 1}
#: What is taken off the codes of formats without a codebook.
BIASES = {"q4_0": 8, "q5_0": 16, "q5_1": 0, "q8_0": 0, "q2_0": 1, "q4_k": 0, "q5_k": 0, "q6_k": 32}

#: Formats with twelve bytes of scales and offsets, and all formats with offsets.
_SIXES = ("q4_k", "q5_k")
OFFSETS = ("q5_1", *_SIXES)


def _run(first: np.ndarray | list[int] | int, bits: int) -> Places:
    """Places of fields whose bits follow each other, each beginning at one of `first`."""
    return np.atleast_1d(np.asarray(first, np.int64))[:, None] + np.arange(bits)


def _joined(*parts: Places) -> Places:
    """Places of fields that are kept in pieces, the low bits first."""
    return np.concatenate(parts, axis=1)


def _halves(byte: int, values: int) -> np.ndarray:
    """First bits of nibbles: of `values` values from `byte`, the low nibbles first."""
    j = np.arange(values)
    return 8 * (byte + j % (values // 2)) + 4 * (j // (values // 2))


@cache
def layout(name: str) -> dict[str, Places]:
    """The fields of a format, from the tables of ggml's block structures, read-only."""
    return frozen(_layout(name))


def _layout(name: str) -> dict[str, Places]:
    i = np.arange(256)
    group, part, half = i[:32], i[:8], i[:16]
    d = {"d": _run(0, 16)}
    if name in ("q4_0", "iq4_nl"):
        return d | {"code": _run(_halves(2, 32), 4)}
    if name in ("q5_0", "q5_1"):
        fifths = 16 if name == "q5_0" else 32
        code = _joined(_run(_halves(fifths // 8 + 4, 32), 4), _run(fifths + i[:32], 1))
        return d | {"code": code} | ({"dmin": _run(16, 16)} if name == "q5_1" else {})
    if name == "q6_k":
        w = i % 128
        nibble = _run(8 * (64 * (i // 128) + w % 64) + 4 * (w // 64), 4)
        pair = _run(8 * (128 + 32 * (i // 128) + w % 32) + 2 * (w // 32), 2)
        return {"d": _run(8 * 208, 16), "level": _run(8 * 192 + 8 * half, 8), "code": _joined(nibble, pair)}
    if name == "q8_0":
        return d | {"code": _run(16 + 8 * i[:32], 8)}
    if name == "q2_0":
        return d | {"code": _run(16 + 2 * i[:64], 2)}
    if name == "iq4_xs":
        code = np.concatenate([_halves(8 + 16 * b, 32) for b in range(8)])
        return d | {"code": _run(code, 4), "level": _joined(_run(32 + 4 * part, 4), _run(16 + 2 * part, 2))}
    if name == "iq3_xxs":
        word = 8 * 66 + 32 * part
        sign = 8 * 66 + 32 * (group // 4) + 7 * (group % 4)
        return d | {"index": _run(16 + 8 * i[:64], 8), "sign": _run(sign, 7), "level": _run(word + 28, 4)}
    if name == "iq3_s":
        index = _joined(_run(16 + 8 * i[:64], 8), _run(8 * 66 + i[:64], 1))
        return d | {"index": index, "sign": _run(8 * 74 + 8 * group, 8), "level": _run(8 * 106 + 4 * part, 4)}
    if name == "iq2_xxs":
        pair = 16 + 64 * (group // 4)
        index, sign = pair + 8 * (group % 4), pair + 32 + 7 * (group % 4)
        return d | {"index": _run(index, 8), "sign": _run(sign, 7), "level": _run(16 + 64 * part + 60, 4)}
    if name == "iq2_xs":
        word = 16 + 16 * group
        return d | {"index": _run(word, 9), "sign": _run(word + 9, 7), "level": _run(8 * 66 + 4 * half, 4)}
    if name == "iq2_s":
        index = _joined(_run(16 + 8 * group, 8), _run(8 * 66 + 2 * group, 2))
        return d | {"index": index, "sign": _run(8 * 34 + 8 * group, 8), "level": _run(8 * 74 + 4 * half, 4)}
    assert name in _SIXES, name
    early, late = part[:4], part[4:]
    S = 32  # scales and offsets: six bits of a byte, or four of one and two of another
    late_level = _joined(_run(S + 8 * (late + 4), 4), _run(S + 8 * (late - 4) + 6, 2))
    late_offset = _joined(_run(S + 8 * (late + 4) + 4, 4), _run(S + 8 * late + 6, 2))
    level = np.concatenate([_run(S + 8 * early, 6), late_level])
    offset = np.concatenate([_run(S + 8 * (early + 4), 6), late_offset])
    first = 48 if name == "q5_k" else 16
    code = _run(8 * (first + 32 * (i // 64) + i % 32) + 4 * (i // 32 % 2), 4)
    if name == "q5_k":
        code = _joined(code, _run(8 * (16 + i % 32) + i // 32, 1))
    return d | {"dmin": _run(16, 16), "level": level, "offset": offset, "code": code}


def pack(name: str, fields: Fields) -> np.ndarray:
    """Blocks with given fields.

    Parameters
    ----------
    name
        The name of the format.
    fields
        An integer array [n, count] for every field.

    Returns
    -------
    uint8 array [n, nbytes]
    """
    places = layout(name)
    assert fields.keys() == places.keys(), (name, sorted(fields))
    n = len(next(iter(fields.values())))
    bits = np.zeros((n, 8 * FORMATS[name].nbytes), np.uint8)
    for field, at in places.items():
        bits[:, at] = fields[field][..., None] >> np.arange(at.shape[1]) & 1
    return np.packbits(bits, axis=1, bitorder="little")


def unpack(name: str, blocks: np.ndarray) -> dict[str, np.ndarray]:
    """The fields of blocks.

    Parameters
    ----------
    name
        The name of the format.
    blocks
        uint8 [n, nbytes].

    Returns
    -------
    dict of str to int64 array [n, count]
    """
    bits = np.unpackbits(blocks, axis=1, bitorder="little").astype(np.int64)
    return {field: (bits[:, at] << np.arange(at.shape[1])).sum(axis=-1) for field, at in layout(name).items()}


def signed_codes(name: str, fields: Fields) -> np.ndarray:
    """The integers that scales multiply.

    Parameters
    ----------
    name
        The name of the format.
    fields
        The fields, as `unpack` gives them.

    Returns
    -------
    int64 array [n, values]
    """
    if name in BIASES:
        code = fields["code"]
        return np.where(code >= 128, code - 256, code) if name == "q8_0" else code - BIASES[name]
    if name in ("iq4_nl", "iq4_xs"):
        return codebook(name)[fields["code"]].astype(np.int64)
    sign = fields["sign"]
    bits = sign[..., None] >> np.arange(8) & 1
    if layout(name)["sign"].shape[1] == 7:
        bits[..., 7] = bits[..., :7].sum(axis=-1) % 2
    magnitudes = codebook(name)[fields["index"]].astype(np.int64)
    n = len(sign)
    return (magnitudes.reshape(n, -1, 8) * (1 - 2 * bits)).reshape(n, -1)


def scales(name: str, fields: Fields) -> np.ndarray:
    """The scales of blocks, exact: one for every 32 values, or for 16.

    Parameters
    ----------
    name
        The name of the format.
    fields
        The fields, as `unpack` gives them.

    Returns
    -------
    float64 array [n, scales of a block]
    """
    with np.errstate(invalid="ignore"):
        d = fields["d"].astype(np.uint16).view(np.float16).astype(np.float64)
        if name in DIVISORS:
            return np.asarray(d * (2 * fields["level"] + 1) / DIVISORS[name])
        if name == "iq4_xs":
            return np.asarray(d * (fields["level"] - 32))
        if name in _SIXES:
            return np.asarray(d * fields["level"])
        if name == "q6_k":
            return np.asarray(d * fields["level"].astype(np.int8))
    return np.repeat(d, FORMATS[name].values // 32, axis=1)


def offsets(name: str, fields: Fields) -> np.ndarray:
    """What is taken off each part, exact; of Q5_1 the negative of what is added.

    Parameters
    ----------
    name
        The name of the format, one of `OFFSETS`.
    fields
        The fields, as `unpack` gives them.

    Returns
    -------
    float64 array [n, parts]
    """
    assert name in OFFSETS, name
    with np.errstate(invalid="ignore"):
        dmin = fields["dmin"].astype(np.uint16).view(np.float16).astype(np.float64)
        return np.asarray(-dmin if name == "q5_1" else dmin * fields["offset"])


def values(name: str, fields: Fields) -> np.ndarray:
    """What blocks stand for, exact but for the difference where a format has offsets, which is rounded to float32 once.

    Parameters
    ----------
    name
        The name of the format.
    fields
        The fields, as `unpack` gives them.

    Returns
    -------
    float64 array [n, values]
    """
    q, s = signed_codes(name, fields), scales(name, fields)
    each = q.shape[1] // s.shape[1]
    with np.errstate(invalid="ignore"):
        product: np.ndarray = q * np.repeat(s, each, axis=1)
        if name not in OFFSETS:
            return product
        difference: np.ndarray = product - np.repeat(offsets(name, fields), each, axis=1)
    return difference.astype(np.float32).astype(np.float64)
