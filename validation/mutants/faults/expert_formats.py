"""Mutants of the block formats on the device: indices, signs, scales and nibbles of each, and their codebooks.

The product of the older kernels decodes by these functions, 32 values at a time; formats that no expert path has are
judged by the tests of the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

FORMATS = "strata/kernels/include/expert_formats.cuh"
BOOKS = "strata/formats/codebooks.py"
_DECODER = ("tests/strata/kernels/test_block_decode.py",)


def _path(gate_up: str, down: str = "iq4_nl") -> str:
    return f"expert_mmq/{gate_up}/{down}/sm75"


IQ3_XXS, IQ3_S, IQ4_XS = (_path(name) for name in ("iq3_xxs", "iq3_s", "iq4_xs"))
IQ2_XXS, IQ2_XS, IQ2_S = (_path(name, "q2_0") for name in ("iq2_xxs", "iq2_xs", "iq2_s"))


def _fault(name: str, old: str, new: str, why: str, path: str, *recipes: str) -> Mutant:
    return Mutant(f"block-{name}", FORMATS, old, new, why, path, recipes or ("experts_plain",))


def _decoder(name: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"block-{name}", FORMATS, old, new, why, tests=_DECODER)


_SIGNS = (
    "const u32 signs = with_parity((a & 0x7fu) | (a << 1 & 0x7f00u) | (a << 2 & 0x7f0000u) | (a << 3 & 0x7f000000u));\n"
)
_LEVELS = (
    "0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};\n#pragma unroll\n  for (int i = 0; i < 4; ++i) nibble_lookup"
)

_SIGN = (
    _fault(
        "parity-zero",
        "return sevens | (p & 0x01010101u) << 7;",
        "return sevens;",
        "The eighth sign of every eight values, the parity of seven, is read as 0.",
        IQ3_XXS,
    ),
    _fault(
        "parity-inverted",
        "return sevens | (p & 0x01010101u) << 7;",
        "return sevens | (~p & 0x01010101u) << 7;",
        "The eighth sign is the parity turned over.",
        IQ2_XXS,
    ),
    _fault("parity-of-six", "  p ^= p >> 1;\n", "", "The parity leaves out every second of the seven signs.", IQ2_XS),
    _fault(
        "sign-not-extended",
        "(magnitudes ^ mask) + (mask & 0x01010101u)",
        "(magnitudes ^ mask)",
        "Negative codes are one off: the bits are turned over and nothing is added.",
        IQ3_S,
    ),
    _fault(
        "sign-word-carry",
        "(magnitudes ^ mask) + (mask & 0x01010101u)",
        "(magnitudes ^ mask) + (mask & 1u)",
        "Only the first of four negative codes becomes the negative.",
        IQ2_S,
    ),
    _fault(
        "signs-of-other-half",
        "mask[half + 4] = byte_signs<0x5410>(high01, high23);",
        "mask[half + 4] = byte_signs<0x7632>(high01, high23);",
        "Values 16 to 23 take the signs of values 24 to 31.",
        IQ3_S,
    ),
    _fault(
        "iq3-xxs-signs-by-eights",
        "    const u32 a = joined(f.h[5], f.h[6]);\n    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.25f);\n    "
        + _SIGNS,
        "    const u32 a = joined(f.h[5], f.h[6]);\n    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.25f);\n    const u32 signs = with_parity(a & 0x7f7f7f7fu);\n",
        "Seven sign bits of each group are taken at multiples of eight bits.",
        IQ3_XXS,
    ),
    _fault(
        "iq2-xs-signs-in-index",
        "index[l] = q[l] & 511u;",
        "index[l] = q[l] & 255u;",
        "The ninth bit of an index is masked away.",
        IQ2_XS,
    ),
    _fault(
        "iq2-s-signs-shifted",
        "fetch<2>(f.h + 3, block + 34 + 4 * s);            // signs",
        "fetch<2>(f.h + 3, block + 34 + 4 * (s ^ 1));",
        "Signs are those of the neighbouring 32 values.",
        IQ2_S,
    ),
    _fault(
        "iq3-s-signs-of-pair",
        "fetch<2>(f.h + 5, block + 74 + 4 * s);            // signs",
        "fetch<2>(f.h + 5, block + 74 + 4 * (s & 6u));",
        "Odd parts of a block take the signs of the part before.",
        IQ3_S,
    ),
)

_INDEX = (
    _fault(
        "iq3-s-high-bits-ignored",
        "byte_of(q[m / 2], m % 2) | (high << (8 - m) & 256u)",
        "byte_of(q[m / 2], m % 2)",
        "The ninth bit of IQ3_S indices is ignored.",
        IQ3_S,
    ),
    _fault(
        "iq3-s-high-bits-reversed",
        "(high << (8 - m) & 256u)",
        "(high << (1 + m) & 256u)",
        "The ninth bits of a part are taken from the other end.",
        IQ3_S,
    ),
    _fault(
        "iq3-s-high-byte-of-pair",
        "    const u32 high = byte_of(f.h[7], s % 2);\n",
        "    const u32 high = byte_of(f.h[7], 0);\n",
        "Odd parts take the ninth bits of the part before.",
        IQ3_S,
    ),
    _fault(
        "iq2-s-high-bits-ignored",
        "byte_of(q[l / 2], l % 2) | (high << (8 - 2 * l) & 768u)",
        "byte_of(q[l / 2], l % 2)",
        "Bits nine and ten of IQ2_S indices are ignored.",
        IQ2_S,
    ),
    _fault(
        "iq2-s-tenth-bit-ignored",
        "(high << (8 - 2 * l) & 768u)",
        "(high << (8 - 2 * l) & 256u)",
        "The tenth bit of IQ2_S indices is ignored.",
        IQ2_S,
    ),
    _fault(
        "iq3-xxs-bytes-crossed",
        "      const u32 index = byte_of(q[m / 2], m % 2);\n",
        "      const u32 index = byte_of(q[m / 2], 1 - m % 2);\n",
        "The two indices of eight values change places.",
        IQ3_XXS,
    ),
    _fault(
        "iq2-xxs-group-repeated",
        "byte_of(q[1], 0), byte_of(q[1], 1)};",
        "byte_of(q[1], 0), byte_of(q[1], 0)};",
        "The last eight values of a part are the eight before them.",
        IQ2_XXS,
    ),
    _fault(
        "byte-mask-removed",
        "static_cast<u32>(word) >> 8 * i & 255u",
        "static_cast<u32>(word) >> 8 * i",
        "The mask on the byte of an index is gone, and low bytes bring their neighbour: past the end of the codebook.",
        IQ3_XXS,
    ),
    _fault(
        "grid-halves-crossed",
        "codes[2 * l] = negated(magnitudes.x, mask[2 * l]);",
        "codes[2 * l] = negated(magnitudes.y, mask[2 * l]);",
        "The first four of eight values are the last four.",
        IQ2_XXS,
    ),
    _fault(
        "grid-last-word-missing",
        "i < Blocks<TYPE>::grid_words; i += threads) grid.st",
        "i < Blocks<TYPE>::grid_words - 1; i += threads) grid.st",
        "The last word of the codebook never reaches shared memory.",
        IQ3_S,
        "experts_plain",
        "experts_decades",
    ),
    _fault(
        "grid-one-turn",
        "for (int i = thread; i < Blocks<TYPE>::grid_words; i += threads) grid.st(i, load(table + i));",
        "if (thread < Blocks<TYPE>::grid_words) grid.st(thread, load(table + thread));",
        "Only as much of the codebook is loaded as there are threads.",
        IQ2_S,
    ),
)

_SCALES = (
    _fault(
        "iq3-xxs-lost-one",
        "static_cast<int>(a >> 28) * 2 + 1) * 0.25f)",
        "static_cast<int>(a >> 28) * 2) * 0.25f)",
        "The + 1 of 2 s + 1 is lost.",
        IQ3_XXS,
    ),
    _fault(
        "iq2-xxs-lost-one",
        "static_cast<int>(a >> 28) * 2 + 1) * 0.125f)",
        "static_cast<int>(a >> 28) * 2) * 0.125f)",
        "The + 1 of 2 s + 1 is lost.",
        IQ2_XXS,
    ),
    _fault(
        "iq3-s-lost-one",
        "__int2float_rn(2 * level + 1)",
        "__int2float_rn(2 * level)",
        "The + 1 of 2 s + 1 is lost.",
        IQ3_S,
    ),
    _fault(
        "iq3-s-scale-nibbles-swapped",
        "const int level = f.h[8] >> 4 * (s % 4) & 15;",
        "const int level = f.h[8] >> 4 * (s % 4 ^ 1) & 15;",
        "Low and high nibbles of the scales change places.",
        IQ3_S,
    ),
    _fault(
        "iq4-xs-bias-omitted",
        "__int2float_rn((low | high << 4) - 32)",
        "__int2float_rn(low | high << 4)",
        "The bias of 32 of IQ4_XS scales is omitted.",
        IQ4_XS,
    ),
    _fault(
        "iq4-xs-high-bits-constant",
        "const int high = f.h[9] >> 2 * s & 3;",
        "const int high = f.h[9] & 3;",
        "Every part takes the high scale bits of the first.",
        IQ4_XS,
    ),
    _fault(
        "iq4-xs-low-bits-of-block",
        "f.h[10] = load<u16>(block + 4 + s / 4 * 2);       // low",
        "f.h[10] = load<u16>(block + 4);       // low",
        "The last four parts take the low scale bits of the first four.",
        IQ4_XS,
    ),
    _fault(
        "iq4-xs-scale-nibbles-swapped",
        "const int low = f.h[10] >> 4 * (s % 4) & 15;",
        "const int low = f.h[10] >> 4 * (s % 4 ^ 1) & 15;",
        "Low and high nibbles of the scales change places.",
        IQ4_XS,
    ),
    _fault(
        "iq2-xs-one-scale",
        "    scale[1] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels >> 4) * 2 + 1) * 0.125f);\n    u32 index[4], sevens = 0;",
        "    scale[1] = scale[0];\n    u32 index[4], sevens = 0;",
        "Both halves of a part take the scale of the first.",
        IQ2_XS,
    ),
    _fault(
        "iq2-s-scales-crossed",
        "    scale[1] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels >> 4) * 2 + 1) * 0.125f);\n    u32 index[4];\n",
        "    scale[1] = scale[0], scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels >> 4) * 2 + 1) * 0.125f);\n    u32 index[4];\n",
        "The two scales of a part change places.",
        IQ2_S,
    ),
    _fault(
        "iq2-xs-scale-of-next-part",
        "    const u32 levels = byte_of(f.h[5], s % 2);\n",
        "    const u32 levels = byte_of(f.h[5], 1 - s % 2);\n",
        "A part takes the scales of its neighbour.",
        IQ2_XS,
    ),
    _fault(
        "sub-scale-signed",
        "static_cast<int>(a >> 28) * 2 + 1) * 0.25f)",
        "(static_cast<int>(a) >> 28) * 2 + 1) * 0.25f)",
        "Scales of eight and more count as negative.",
        IQ3_XXS,
    ),
    _fault(
        "d-sign-dropped",
        "return __fmul_rn(half_value(d), factor);",
        "return __fmul_rn(half_value(d & 0x7fffu), factor);",
        "The sign of a block's d is dropped: nothing is wrong while scales are positive.",
        IQ3_S,
        "experts_decades",
    ),
    _fault(
        "d-subnormal-flushed",
        "return __fmul_rn(half_value(d), factor);",
        "return __fmul_rn(half_value(d & 0x7c00u ? d : d & 0x8000u), factor);",
        "Subnormal d become zeros.",
        IQ3_XXS,
        "experts_faint",
    ),
    _fault(
        "d-of-first-block",
        "  f.h[0] = load<u16>(block);   // d\n  if constexpr (TYPE == TYPE_Q4_0",
        "  f.h[0] = load<u16>(row);\n  if constexpr (TYPE == TYPE_Q4_0",
        "Every block takes the d of its row's first block.",
        IQ3_XXS,
        "experts_decades",
    ),
    _fault(
        "scale-rounded-to-half",
        "return __fmul_rn(half_value(d), factor);",
        "return half_value(half_bits(__fmul_rn(half_value(d), factor)));",
        "Scales of 32 values are rounded to half precision.",
        IQ3_S,
    ),
)

_NIBBLES = (
    _fault("iq4-level-off-by-one", _LEVELS, _LEVELS.replace("0x7159", "0x715a"), "The level 89 is 90.", IQ3_XXS),
    _fault("iq4-level-off-by-two", _LEVELS, _LEVELS.replace("0xf6ea", "0xf8ea"), "The level -10 is -8.", IQ4_XS),
    _fault(
        "iq4-nibbles-interleaved",
        "  low = byte_select<0x6420>(first, second);\n  high = byte_select<0x7531>(first, second);\n",
        "  low = first;\n  high = second;\n",
        "The nibbles of a byte are taken for neighbours, not for values sixteen apart.",
        IQ3_XXS,
    ),
    _fault(
        "iq4-halves-swapped",
        "  low = byte_select<0x6420>(first, second);\n  high = byte_select<0x7531>(first, second);\n",
        "  high = byte_select<0x6420>(first, second);\n  low = byte_select<0x7531>(first, second);\n",
        "Low and high nibbles change places.",
        IQ4_XS,
    ),
    _fault(
        "iq4-upper-half-lost",
        "0x32103210u | (q & 0x88888888u) >> 1;",
        "0x32103210u;",
        "The top bit of a nibble is lost: all levels are negative.",
        IQ3_S,
    ),
    _fault(
        "q2-bias-omitted",
        "const u32 levels = 0x020100ffu;   // -1 0 1 2",
        "const u32 levels = 0x03020100u;",
        "The bias of 1 of Q2_0 is omitted.",
        IQ2_XXS,
    ),
    _fault(
        "q2-sign-not-extended",
        "const u32 levels = 0x020100ffu;   // -1 0 1 2",
        "const u32 levels = 0x0201007fu;",
        "The level -1 is not a negative byte.",
        IQ2_XS,
    ),
    _fault(
        "q2-pairs-crossed",
        "codes[2 * i] = byte_select<0x5140>(even, odd);",
        "codes[2 * i] = byte_select<0x4051>(even, odd);",
        "Neighbouring values of Q2_0 change places.",
        IQ2_XXS,
    ),
    _fault(
        "q2-second-half-of-first",
        "fetch<4>(f.h + 1, block + 2 + 8 * s);\n  } else if constexpr (TYPE == TYPE_IQ4_XS)",
        "fetch<4>(f.h + 1, block + 2);\n  } else if constexpr (TYPE == TYPE_IQ4_XS)",
        "The second 32 values of a Q2_0 block are the first ones again.",
        IQ2_XS,
    ),
    _fault(
        "part-of-next-block",
        "const u8* block = row + static_cast<u32>(b) / kParts * Block::bytes;\n  Fetched",
        "const u8* block = row + (static_cast<u32>(b) + 1) / kParts * Block::bytes;\n  Fetched",
        "The last part of every block is read from the block behind it.",
        IQ4_XS,
    ),
)

_OTHERS = (
    _decoder(
        "q4-0-zero-point",
        "(nibbles & 0x0f0f0f0fu) + 0x78787878u ^ 0x80808080u;            // less 8",
        "(nibbles & 0x0f0f0f0fu) + 0x79797979u ^ 0x80808080u;",
        "The zero of low Q4_0 nibbles is 7.",
    ),
    _decoder(
        "q4-0-word-subtract",
        "(nibbles >> 4 & 0x0f0f0f0fu) + 0x78787878u ^ 0x80808080u;",
        "(nibbles >> 4 & 0x0f0f0f0fu) - 0x08080808u;",
        "Eight is subtracted from a word and not from each byte, so that borrows run on.",
    ),
    _decoder(
        "q8-0-words-crossed",
        "codes[i] = joined(q[2 * i], q[2 * i + 1]);\n  } else if constexpr (TYPE == TYPE_Q2_0)",
        "codes[i] = joined(q[2 * i + 1], q[2 * i]);\n  } else if constexpr (TYPE == TYPE_Q2_0)",
        "The two halves of four Q8_0 codes change places.",
    ),
    _decoder(
        "q5-k-fifth-bit-of-first",
        ">> s & 0x01010101u;",
        "& 0x01010101u;",
        "Every part takes the fifth bits of the first.",
    ),
    _decoder(
        "q5-k-minimum-of-scale",
        "s < 4 ? second & 63u :",
        "s < 4 ? first & 63u :",
        "The offset of the first four parts is their scale.",
    ),
    _decoder(
        "q5-k-high-scale-bits",
        "(third & 15u) | first >> 6 << 4;",
        "(third & 15u) | second >> 6 << 4;",
        "Scales of the last four parts take their high bits from the offsets.",
    ),
    _decoder(
        "q5-k-six-bits-unmasked",
        "s < 4 ? first & 63u :",
        "s < 4 ? first :",
        "Scales of the first four parts keep the bits of others.",
    ),
    Mutant(
        "block-codebook-byte-by-two",
        BOOKS,
        'return codebook(name).reshape(-1).view("<u4").astype(np.uint32)',
        'return codebook(name).reshape(-1).view("<u4").astype(np.uint32) + (np.arange(codebook(name).size // 4) == 77).astype(np.uint32) * np.uint32(2)',
        "One byte of the codebook that goes to the device is larger by 2.",
        IQ3_S,
        ("experts_plain",),
    ),
    Mutant(
        "block-codebook-digest-unchecked",
        BOOKS,
        "    if digest != DIGESTS[name]:\n",
        "    if digest == name:\n",
        "A codebook with another digest is taken.",
        tests=("tests/strata/formats/test_codebooks.py",),
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_SIGN, *_INDEX, *_SCALES, *_NIBBLES, *_OTHERS)
