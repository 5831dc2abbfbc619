"""What the bytes of a block mean: one function a format, from uint8 [..., nbytes] to codes and scales.

All fields are little-endian, and d is a binary16 at byte 0, of Q6_K at the end. Value j belongs to part b = j / 32. A
sign bit that is set makes a value negative; bit m of a sign byte belongs to value m of eight. KS(i) of seven bits i is
i with its parity as bit 7. Scales are exact in float32: d has 11 significant bits and its factor at most 7.

References
----------
The formats are ggml's, `ggml-common.h` and `ggml-quants.c` of https://github.com/ggml-org/ggml.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from strata.formats.codebooks import codebook


class Parts(NamedTuple):
    """Blocks in parts: a value is its scale times its code, less its offset.

    Parameters
    ----------
    codes
        int8 [..., values].
    scales
        float32 [..., values / 32 * scales of 32 values].
    offsets
        float32 like the scales, or None.
    """

    codes: np.ndarray
    scales: np.ndarray
    offsets: np.ndarray | None = None


def q4_0(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q4_0.

    The bytes are d, and 16 more: value j is the low nibble of byte j, or the high one of byte j - 16. A value is d
    (nibble - 8).

    Parameters
    ----------
    blocks
        uint8 [..., 18], of 32 values each.
    """
    return Parts(_nibbles(blocks[..., 2:]).astype(np.int8) - np.int8(8), _half(blocks, 0))


def q5_0(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q5_0.

    The bytes are d, u32 with the fifth bit of value j at bit j, 16 with the nibbles of Q4_0. A value is d (five bits -
    16).

    Parameters
    ----------
    blocks
        uint8 [..., 22], of 32 values each.
    """
    return Parts(_fives(blocks[..., 2:]) - np.int8(16), _half(blocks, 0))


def q5_1(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q5_1.

    The bytes are d, binary16 m, u32 and nibbles as in Q5_0. A value is d (five bits) + m, the product exact and the sum
    rounded once; so the offset, which is taken off, is -m.

    Parameters
    ----------
    blocks
        uint8 [..., 24], of 32 values each.
    """
    return Parts(_fives(blocks[..., 4:]), _half(blocks, 0), -_half(blocks, 2))


def q8_0(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q8_0.

    The bytes are d, and 32 signed bytes. A value is d code.

    Parameters
    ----------
    blocks
        uint8 [..., 34], of 32 values each.
    """
    return Parts(np.ascontiguousarray(blocks[..., 2:]).view(np.int8), _half(blocks, 0))


def q2_0(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q2_0.

    The bytes are d, and 16 of four values each, the first in the low bits. A value is d (two bits - 1).

    Parameters
    ----------
    blocks
        uint8 [..., 18], of 64 values each.
    """
    return Parts(_looked_up(_four_twos(), blocks[..., 2:]), np.repeat(_half(blocks, 0), 2, axis=-1))


def iq4_nl(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ4_NL.

    The bytes are d, and 16 with the nibbles of Q4_0. A value is d level[nibble].

    Parameters
    ----------
    blocks
        uint8 [..., 18], of 32 values each.
    """
    return Parts(np.take(codebook("iq4_nl"), _nibbles(blocks[..., 2:])), _half(blocks, 0))


def iq4_xs(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ4_XS.

    The bytes are d, u16 high bits of scales (two a part), 4 bytes of low bits (four a part), 16 bytes a part with the
    nibbles of Q4_0. A value is d (six bits - 32) level[nibble].

    Parameters
    ----------
    blocks
        uint8 [..., 136], of 256 values each.
    """
    high = _words(blocks, 2, 1, 2) >> np.arange(0, 16, 2, dtype=np.uint32) & 3
    low = _fields(blocks[..., 4:8], 4)
    factor = (low | high << 4).astype(np.int32) - 32
    nibbles = _flat(_nibbles(blocks[..., 8:].reshape(*blocks.shape[:-1], 8, 16)), 2)
    return Parts(np.take(codebook("iq4_xs"), nibbles), _half(blocks, 0) * factor.astype(np.float32))


def iq3_xxs(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ3_XXS.

    The bytes are d, 64 indices, of four values each; u32 a part: four times seven sign bits, a scale s in its top four
    bits. A value is d (2 s + 1) / 4 times its code.

    Parameters
    ----------
    blocks
        uint8 [..., 98], of 256 values each.
    """
    words = _words(blocks, 66, 8, 4)
    return Parts(_signed("iq3_xxs", blocks[..., 2:66], _signs_of_sevens(words)), _odd(blocks, words >> 28, 4))


def iq3_s(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ3_S.

    The bytes are d, 64 low bytes of indices; 8 bytes, one a part, of their ninth bits; 32 sign bytes; 8 nibbles s. A
    value is d (2 s + 1) times its code.

    Parameters
    ----------
    blocks
        uint8 [..., 110], of 256 values each.
    """
    index = blocks[..., 2:66].astype(np.uint32) | _fields(blocks[..., 66:74], 1) << 8
    return Parts(_signed("iq3_s", index, blocks[..., 74:106]), _odd(blocks, _fields(blocks[..., 106:110], 4), 1))


def iq2_xxs(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ2_XXS.

    The bytes are d, 8 bytes a part: four indices, of eight values each; u32 as in IQ3_XXS. A value is d (2 s + 1) / 8
    times its code.

    Parameters
    ----------
    blocks
        uint8 [..., 66], of 256 values each.
    """
    parts = blocks[..., 2:66].reshape(*blocks.shape[:-1], 8, 8)
    words = np.ascontiguousarray(parts[..., 4:]).view("<u4")[..., 0]
    return Parts(_signed("iq2_xxs", _flat(parts[..., :4], 2), _signs_of_sevens(words)), _odd(blocks, words >> 28, 8))


def iq2_xs(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ2_XS.

    The bytes are d, 32 u16: an index of nine bits, of eight values, seven sign bits above it; 16 nibbles s, one for 16
    values. A value is d (2 s + 1) / 8 times its code.

    Parameters
    ----------
    blocks
        uint8 [..., 74], of 256 values each.
    """
    words = _words(blocks, 2, 32, 2)
    signs = with_parity(words >> 9)
    return Parts(_signed("iq2_xs", words & 511, signs), _odd(blocks, _fields(blocks[..., 66:74], 4), 8))


def iq2_s(blocks: np.ndarray) -> Parts:
    """Parts of blocks of IQ2_S.

    The bytes are d, 32 low bytes of indices, of eight values each; 32 sign bytes; 8 bytes, one a part, of the bits nine
    and ten of its indices; scales as IQ2_XS.

    Parameters
    ----------
    blocks
        uint8 [..., 82], of 256 values each.
    """
    index = blocks[..., 2:34].astype(np.uint32) | _fields(blocks[..., 66:74], 2) << 8
    return Parts(_signed("iq2_s", index, blocks[..., 34:66]), _odd(blocks, _fields(blocks[..., 74:82], 4), 8))


def q5_k(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q5_K.

    The bytes are d, binary16 dmin, 12 bytes S with a scale and an offset of six bits a part, 32 bytes of fifth bits,
    128 of nibbles. A value is (d scale) code - (dmin offset), the product exact and the difference rounded once.

    Bit b of fifth-bits byte i belongs to value i of part b; parts 2c and 2c + 1 are the low and the high nibbles of
    bytes 32c..32c+31. Parts below 4: scale S[b] and offset S[b + 4], six bits each; the others: the low and the high
    nibble of S[b + 4], with the top two bits of S[b - 4] and S[b] above them.

    Parameters
    ----------
    blocks
        uint8 [..., 176], of 256 values each.
    """
    fifth = blocks[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    low = _flat(_nibbles(blocks[..., 48:].reshape(*blocks.shape[:-1], 4, 32)), 2)
    return Parts((low | _flat(fifth, 2) << 4).astype(np.int8), *_sixes(blocks))


def q4_k(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q4_K.

    The bytes are d, binary16 dmin, 12 bytes S and 128 of nibbles, all as in Q5_K, which has a fifth bit besides. A
    value is (d scale) code - (dmin offset), the product exact and the difference rounded once.

    Parameters
    ----------
    blocks
        uint8 [..., 144], of 256 values each.
    """
    nibbles = _flat(_nibbles(blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)), 2)
    return Parts(nibbles.astype(np.int8), *_sixes(blocks))


def q6_k(blocks: np.ndarray) -> Parts:
    """Parts of blocks of Q6_K, the only one here whose d comes last.

    The bytes are 128 of nibbles, 64 of two bits, 16 signed scales, one for 16 values, and d. A value is (d scale) (six
    bits - 32), which is exact.

    Each half of a block, of 128 values, has 64 bytes of nibbles, with values 0..63 in the low ones, and 32 bytes of
    pairs of bits: value v has pair v / 32 of byte v % 32.

    Parameters
    ----------
    blocks
        uint8 [..., 210], of 256 values each.
    """
    lead = blocks.shape[:-1]
    low = _flat(_nibbles(blocks[..., :128].reshape(*lead, 2, 64)), 2)
    pairs = blocks[..., 128:192].reshape(*lead, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    codes = (low | _flat(pairs, 3) << 4).astype(np.int8) - np.int8(32)
    levels = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8).astype(np.float32)
    return Parts(codes, _half(blocks, 208) * levels)


def with_parity(sevens: np.ndarray) -> np.ndarray:
    """Sign bytes KS of seven bits each.

    Parameters
    ----------
    sevens
        Integers below 128, of any shape.

    Returns
    -------
    uint8 array
        Of the shape of `sevens`.
    """
    return np.asarray(sevens | (np.bitwise_count(sevens) & 1) << 7, np.uint8)


def _sixes(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float32 [..., 8] twice: scales and offsets of blocks of Q4_K and Q5_K."""
    S = blocks[..., 4:16].astype(np.uint32)
    first, second, third = S[..., :4], S[..., 4:8], S[..., 8:]
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1)
    offset = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1)
    return _half(blocks, 0) * scale.astype(np.float32), _half(blocks, 2) * offset.astype(np.float32)


def _fives(octets: np.ndarray) -> np.ndarray:
    """int8 [..., 32]: the five bits of each value of Q5_0 and Q5_1, from the u32 of fifth bits on."""
    fifths = _fields(octets[..., :4], 1).astype(np.uint8) << 4
    return np.asarray(_nibbles(octets[..., 4:]) | fifths, np.int8)


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """float32 [..., 1]: the binary16 at byte `at`."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2").astype(np.float32)


def _words(blocks: np.ndarray, at: int, count: int, size: int) -> np.ndarray:
    """uint32 [..., count]: little-endian words of `size` bytes from byte `at`."""
    return np.ascontiguousarray(blocks[..., at : at + count * size]).view(f"<u{size}").astype(np.uint32)


def _fields(octets: np.ndarray, bits: int) -> np.ndarray:
    """uint32 [..., 8 n / bits]: the fields of `bits` bits of each byte, from the lowest."""
    shifts = np.arange(0, 8, bits, dtype=np.uint32)
    return _flat(octets[..., None].astype(np.uint32) >> shifts & ((1 << bits) - 1), 2)


def _nibbles(octets: np.ndarray) -> np.ndarray:
    """uint8 [..., 2 n]: the low nibbles of n bytes, then the high ones."""
    return np.concatenate([octets & 15, octets >> 4], axis=-1)


def _flat(x: np.ndarray, axes: int) -> np.ndarray:
    """`x` with its last axes joined."""
    return x.reshape(*x.shape[:-axes], -1)


def _signs_of_sevens(words: np.ndarray) -> np.ndarray:
    """uint8 [..., 4 n]: sign bytes of the low 28 bits of n words."""
    return with_parity(_flat(words[..., None] >> np.arange(0, 28, 7, dtype=np.uint32) & 127, 2))


def _signed(name: str, index: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """int8 codes: the grid's magnitudes at `index`, negated where a sign bit is set."""
    magnitudes, negative = _looked_up(codebook(name), index), _looked_up(_negative(), signs)
    return np.asarray((magnitudes ^ negative) - negative)  # -x is ~x + 1


def _looked_up(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """int8 [..., n width]: rows of a table [entries, width] of bytes, taken as words of 4 or 8."""
    words = np.ascontiguousarray(table).view(f"u{table.shape[1]}")[:, 0]
    return np.take(words, index).view(np.int8)


@cache
def _four_twos() -> np.ndarray:
    """int8 [256, 4]: of every byte of Q2_0 its four codes."""
    return _kept(_of_bytes(2) - np.int8(1))


@cache
def _negative() -> np.ndarray:
    """int8 [256, 8]: of every sign byte, -1 where the bit of a value is set, else 0."""
    return _kept(-_of_bytes(1))


def _kept(table: np.ndarray) -> np.ndarray:
    """A table for all callers: none may change it."""
    table.flags.writeable = False
    return table


def _of_bytes(bits: int) -> np.ndarray:
    """int8 [256, 8 / bits]: the fields of every byte, as of `_fields`."""
    return _fields(np.arange(256, dtype=np.uint8)[:, None], bits).astype(np.int8)


def _odd(blocks: np.ndarray, s: np.ndarray, divisor: int) -> np.ndarray:
    """float32 d (2 s + 1) / divisor, exact; the divisor is a power of two."""
    return np.asarray(_half(blocks, 0) * ((2 * s + 1).astype(np.float32) / np.float32(divisor)))
