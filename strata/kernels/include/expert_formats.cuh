// Block formats of expert weights: 32 values of a row as int8 codes and exact FP32 scales.
//
// TYPE is the number ggml gives a format. A row is whole blocks, at any even address. Values 32b..32b+31 are
// scale * code, with the codes of words 0..3 under scale[0] and those of 4..7 under the last scale; scale, code and
// product are exact in FP32, since a binary16 d has 11 bits, its factor at most 6 and a code at most 7.
//
// Decoding has two halves, so that a kernel can start the loads of its next step before it computes: fetch_32 reads
// the 16-bit words, decode_fetched makes the values. decode_32 does both. There are no byte loads and no branches.
// Q5_K, whose values have an offset, is decoded by decode_q5_k alone.
#pragma once

#include "ptx.cuh"

#define TYPE_Q4_0 2
#define TYPE_Q8_0 8
#define TYPE_Q5_K 13
#define TYPE_IQ2_XXS 16
#define TYPE_IQ2_XS 17
#define TYPE_IQ3_XXS 18
#define TYPE_IQ4_NL 20
#define TYPE_IQ3_S 21
#define TYPE_IQ2_S 22
#define TYPE_IQ4_XS 23
#define TYPE_Q2_0 42

// values, bytes: of a block. scales: of 32 values. grid_words: of the codebook in shared memory, 0 for none.
// halves: 16-bit words that 32 values are made of.
template <int VALUES, int BYTES, int SCALES, int GRID_WORDS, int HALVES>
struct BlockSizes {
  static constexpr int values = VALUES, bytes = BYTES, scales = SCALES, grid_words = GRID_WORDS, halves = HALVES;
};
template <int TYPE>
struct Blocks;
template <> struct Blocks<TYPE_Q4_0> : BlockSizes<32, 18, 1, 0, 9> {};
template <> struct Blocks<TYPE_Q8_0> : BlockSizes<32, 34, 1, 0, 17> {};
template <> struct Blocks<TYPE_Q2_0> : BlockSizes<64, 18, 1, 0, 5> {};
template <> struct Blocks<TYPE_IQ4_NL> : BlockSizes<32, 18, 1, 0, 9> {};
template <> struct Blocks<TYPE_IQ4_XS> : BlockSizes<256, 136, 1, 0, 11> {};
template <> struct Blocks<TYPE_IQ3_XXS> : BlockSizes<256, 98, 1, 256, 7> {};
template <> struct Blocks<TYPE_IQ3_S> : BlockSizes<256, 110, 1, 512, 9> {};
template <> struct Blocks<TYPE_Q5_K> : BlockSizes<256, 176, 1, 0, 0> {};   // by decode_q5_k alone
template <> struct Blocks<TYPE_IQ2_XXS> : BlockSizes<256, 66, 1, 512, 5> {};
template <> struct Blocks<TYPE_IQ2_XS> : BlockSizes<256, 74, 2, 1024, 6> {};
template <> struct Blocks<TYPE_IQ2_S> : BlockSizes<256, 82, 2, 2048, 7> {};

// ---- pieces --------------------------------------------------------------------------------------

// prmt.b32 by a selector known only at run time: result byte i is byte (selector >> 4i & 7) of the eight bytes
// low (0..3) and high (4..7). Bits 3, 7, 11 and 15 of the selector must be 0; those above 15 do not matter.
DEVICE u32 byte_lookup(u32 low, u32 high, u32 selector) {
#ifdef STRATA_LANES
  return lanes::select_bytes(low, high, selector);
#else
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(selector));
  return r;
#endif
}

// prmt.b32 in its sign mode: result byte i is ff or 0, the top bit of the byte that byte_select would take.
template <u32 SELECTOR>
DEVICE u32 byte_signs(u32 a, u32 b) {
#ifdef STRATA_LANES
  return (lanes::select_bytes(a, b, SELECTOR) >> 7 & 0x01010101u) * 255u;
#else
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "n"(SELECTOR | 0x8888u));
  return r;
#endif
}

DEVICE u32 joined(u16 low, u16 high) { return static_cast<u32>(low) | static_cast<u32>(high) << 16; }

// Byte i (0 or 1) of a 16-bit word.
DEVICE u32 byte_of(u16 word, u32 i) { return static_cast<u32>(word) >> 8 * i & 255u; }

// Four sign bytes from four bytes of seven bits: bit 7 of each becomes the parity of the others.
DEVICE u32 with_parity(u32 sevens) {
  u32 p = sevens ^ sevens >> 4;
  p ^= p >> 2;
  p ^= p >> 1;
  return sevens | (p & 0x01010101u) << 7;
}

// Byte j of mask[m] is ff where bit 4m + j of `signs` is set, else 0. Shifts bring the bits of one j to the top of the
// four bytes; two rounds of byte permutations then turn rows into columns.
DEVICE void sign_masks(u32 signs, u32 (&mask)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const u32 bit0 = signs << (7 - 4 * half), bit1 = signs << (6 - 4 * half);
    const u32 bit2 = signs << (5 - 4 * half), bit3 = signs << (4 - 4 * half);
    const u32 low01 = byte_select<0x5140>(bit0, bit1), high01 = byte_select<0x7362>(bit0, bit1);
    const u32 low23 = byte_select<0x5140>(bit2, bit3), high23 = byte_select<0x7362>(bit2, bit3);
    mask[half] = byte_signs<0x5410>(low01, low23);
    mask[half + 2] = byte_signs<0x7632>(low01, low23);
    mask[half + 4] = byte_signs<0x5410>(high01, high23);
    mask[half + 6] = byte_signs<0x7632>(high01, high23);
  }
}

// Four magnitudes, each 1..127, negated where the mask is ff. 255 - m + 1 stays below 256 for m >= 1, so no byte
// carries into the next.
DEVICE u32 negated(u32 magnitudes, u32 mask) { return (magnitudes ^ mask) + (mask & 0x01010101u); }

// The same for kernels that decode fewer than 32 values at once: negated where bit i of the low four bits of `signs`
// is set.
DEVICE u32 signed_bytes(u32 magnitudes, u32 signs) {
  const u32 ones = (signs & 15u) * 0x00204081u & 0x01010101u;   // bit i to bit 8i
  return (magnitudes ^ ones * 255u) + ones;
}

// Eight 4-bit indices of q (byte j: the low one of value j, the high one of value j + 16) through a table of sixteen
// bytes in four words; `low` and `high` are the values of the low and of the high indices.
DEVICE void nibble_lookup(u32 q, const u32 (&table)[4], u32& low, u32& high) {
  const u32 index = q & 0x77777777u, upper = 0x32103210u | (q & 0x88888888u) >> 1;
  const u32 first = byte_lookup(byte_lookup(table[0], table[1], index), byte_lookup(table[2], table[3], index), upper);
  const u32 second = byte_lookup(byte_lookup(table[0], table[1], index >> 16), byte_lookup(table[2], table[3], index >> 16),
                                 upper >> 16);
  low = byte_select<0x6420>(first, second);
  high = byte_select<0x7531>(first, second);
}

// The sixteen levels of IQ4_NL and IQ4_XS: -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113.
DEVICE void iq4_levels(const u16* q, u32 (&codes)[8]) {
  const u32 table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
#pragma unroll
  for (int i = 0; i < 4; ++i) nibble_lookup(joined(q[2 * i], q[2 * i + 1]), table, codes[i], codes[i + 4]);
}

// Four groups of eight values: entries `index` of a grid of eight bytes each, and a sign byte for each.
DEVICE void grid_of_eights(const u32 (&index)[4], u32 signs, Shared<u32> grid, u32 (&codes)[8]) {
  u32 mask[8];
  sign_masks(signs, mask);
#pragma unroll
  for (int l = 0; l < 4; ++l) {
    const uint2 magnitudes = grid.template ld<uint2>(2 * static_cast<int>(index[l]));
    codes[2 * l] = negated(magnitudes.x, mask[2 * l]);
    codes[2 * l + 1] = negated(magnitudes.y, mask[2 * l + 1]);
  }
}

// d times a small factor, exact.
DEVICE float scaled(u16 d, float factor) { return __fmul_rn(half_value(d), factor); }

// ---- reading -------------------------------------------------------------------------------------

// The 16-bit words of 32 values, in the order in which they are listed in decode_fetched.
template <int TYPE>
struct Fetched {
  u16 h[Blocks<TYPE>::halves];
};

template <int COUNT>
DEVICE void fetch(u16* to, const u8* from) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) to[i] = load<u16>(from + 2 * i);
}

// Reads values 32b..32b+31 of the row at `row`.
template <int TYPE>
DEVICE Fetched<TYPE> fetch_32(const u8* row, int b) {
  using Block = Blocks<TYPE>;
  constexpr int kParts = Block::values / 32;
  const u32 s = static_cast<u32>(b) % kParts;   // part of its block
  const u8* block = row + static_cast<u32>(b) / kParts * Block::bytes;
  Fetched<TYPE> f;
  f.h[0] = load<u16>(block);   // d
  if constexpr (TYPE == TYPE_Q4_0 || TYPE == TYPE_IQ4_NL) {
    fetch<8>(f.h + 1, block + 2);
  } else if constexpr (TYPE == TYPE_Q8_0) {
    fetch<16>(f.h + 1, block + 2);
  } else if constexpr (TYPE == TYPE_Q2_0) {
    fetch<4>(f.h + 1, block + 2 + 8 * s);
  } else if constexpr (TYPE == TYPE_IQ4_XS) {
    fetch<8>(f.h + 1, block + 8 + 16 * s);
    f.h[9] = load<u16>(block + 2);                    // high bits of the eight scales
    f.h[10] = load<u16>(block + 4 + s / 4 * 2);       // low bits of four of them
  } else if constexpr (TYPE == TYPE_IQ3_XXS) {
    fetch<4>(f.h + 1, block + 2 + 8 * s);             // indices
    fetch<2>(f.h + 5, block + 66 + 4 * s);            // signs and scale
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    fetch<4>(f.h + 1, block + 2 + 8 * s);
    fetch<2>(f.h + 5, block + 74 + 4 * s);            // signs
    f.h[7] = load<u16>(block + 66 + s / 2 * 2);       // high bits of the indices of two parts
    f.h[8] = load<u16>(block + 106 + s / 4 * 2);      // scales of four parts
  } else if constexpr (TYPE == TYPE_IQ2_XXS) {
    fetch<4>(f.h + 1, block + 2 + 8 * s);             // indices, then signs and scale
  } else if constexpr (TYPE == TYPE_IQ2_XS) {
    fetch<4>(f.h + 1, block + 2 + 8 * s);             // index and signs of each group
    f.h[5] = load<u16>(block + 66 + s / 2 * 2);       // scales of two parts
  } else {
    static_assert(TYPE == TYPE_IQ2_S, "no such format, or one whose values have an offset");
    fetch<2>(f.h + 1, block + 2 + 4 * s);
    fetch<2>(f.h + 3, block + 34 + 4 * s);            // signs
    f.h[5] = load<u16>(block + 66 + s / 2 * 2);       // high bits of the indices of two parts
    f.h[6] = load<u16>(block + 74 + s / 2 * 2);       // scales of two parts
  }
  return f;
}

// ---- values --------------------------------------------------------------------------------------

// codes[i]: int8 codes of values 4i..4i+3, the first in the low byte. b: as given to fetch_32. grid: the words that
// load_grid put there, at a multiple of 8 bytes; formats without a codebook do not look at it.
template <int TYPE>
DEVICE void decode_fetched(const Fetched<TYPE>& f, int b, Shared<u32> grid, u32 (&codes)[8],
                           float (&scale)[Blocks<TYPE>::scales]) {
  constexpr int kParts = Blocks<TYPE>::values / 32;
  const u32 s = static_cast<u32>(b) % kParts;
  const u16* q = f.h + 1;
  if constexpr (TYPE == TYPE_Q4_0) {
    scale[0] = half_value(f.h[0]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 nibbles = joined(q[2 * i], q[2 * i + 1]);
      codes[i] = (nibbles & 0x0f0f0f0fu) + 0x78787878u ^ 0x80808080u;            // less 8
      codes[i + 4] = (nibbles >> 4 & 0x0f0f0f0fu) + 0x78787878u ^ 0x80808080u;
    }
  } else if constexpr (TYPE == TYPE_Q8_0) {
    scale[0] = half_value(f.h[0]);
#pragma unroll
    for (int i = 0; i < 8; ++i) codes[i] = joined(q[2 * i], q[2 * i + 1]);
  } else if constexpr (TYPE == TYPE_Q2_0) {
    scale[0] = half_value(f.h[0]);
    const u32 levels = 0x020100ffu;   // -1 0 1 2
#pragma unroll
    for (int i = 0; i < 4; ++i) {     // a word holds eight values of two bits
      const u32 even = byte_lookup(levels, 0, q[i] & 0x3333u);
      const u32 odd = byte_lookup(levels, 0, q[i] >> 2 & 0x3333u);
      codes[2 * i] = byte_select<0x5140>(even, odd);
      codes[2 * i + 1] = byte_select<0x7362>(even, odd);
    }
  } else if constexpr (TYPE == TYPE_IQ4_NL) {
    scale[0] = half_value(f.h[0]);
    iq4_levels(q, codes);
  } else if constexpr (TYPE == TYPE_IQ4_XS) {
    const int low = f.h[10] >> 4 * (s % 4) & 15;
    const int high = f.h[9] >> 2 * s & 3;
    scale[0] = scaled(f.h[0], __int2float_rn((low | high << 4) - 32));
    iq4_levels(q, codes);
  } else if constexpr (TYPE == TYPE_IQ3_XXS) {
    const u32 a = joined(f.h[5], f.h[6]);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.25f);
    const u32 signs = with_parity((a & 0x7fu) | (a << 1 & 0x7f00u) | (a << 2 & 0x7f0000u) | (a << 3 & 0x7f000000u));
    u32 mask[8];
    sign_masks(signs, mask);
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      const u32 index = byte_of(q[m / 2], m % 2);
      codes[m] = negated(grid.ld(static_cast<int>(index)), mask[m]);
    }
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    const u32 high = byte_of(f.h[7], s % 2);
    const int level = f.h[8] >> 4 * (s % 4) & 15;
    scale[0] = scaled(f.h[0], __int2float_rn(2 * level + 1));
    u32 mask[8];
    sign_masks(joined(f.h[5], f.h[6]), mask);
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      const u32 index = byte_of(q[m / 2], m % 2) | (high << (8 - m) & 256u);
      codes[m] = negated(grid.ld(static_cast<int>(index)), mask[m]);
    }
  } else if constexpr (TYPE == TYPE_IQ2_XXS) {
    const u32 a = joined(q[2], q[3]);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.125f);
    const u32 signs = with_parity((a & 0x7fu) | (a << 1 & 0x7f00u) | (a << 2 & 0x7f0000u) | (a << 3 & 0x7f000000u));
    const u32 index[4] = {byte_of(q[0], 0), byte_of(q[0], 1), byte_of(q[1], 0), byte_of(q[1], 1)};
    grid_of_eights(index, signs, grid, codes);
  } else if constexpr (TYPE == TYPE_IQ2_XS) {
    const u32 levels = byte_of(f.h[5], s % 2);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels & 15u) * 2 + 1) * 0.125f);
    scale[1] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels >> 4) * 2 + 1) * 0.125f);
    u32 index[4], sevens = 0;
#pragma unroll
    for (int l = 0; l < 4; ++l) {
      index[l] = q[l] & 511u;
      sevens |= static_cast<u32>(q[l]) >> 9 << 8 * l;
    }
    grid_of_eights(index, with_parity(sevens), grid, codes);
  } else {
    static_assert(TYPE == TYPE_IQ2_S, "no such format, or one whose values have an offset");
    const u32 high = byte_of(f.h[5], s % 2);
    const u32 levels = byte_of(f.h[6], s % 2);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels & 15u) * 2 + 1) * 0.125f);
    scale[1] = scaled(f.h[0], __int2float_rn(static_cast<int>(levels >> 4) * 2 + 1) * 0.125f);
    u32 index[4];
#pragma unroll
    for (int l = 0; l < 4; ++l) index[l] = byte_of(q[l / 2], l % 2) | (high << (8 - 2 * l) & 768u);
    grid_of_eights(index, joined(f.h[3], f.h[4]), grid, codes);
  }
}

// Values 32b..32b+31 of the row at `row`.
template <int TYPE>
DEVICE void decode_32(const u8* row, int b, Shared<u32> grid, u32 (&codes)[8], float (&scale)[Blocks<TYPE>::scales]) {
  decode_fetched<TYPE>(fetch_32<TYPE>(row, b), b, grid, codes, scale);
}

// Q5_K: values 32b..32b+31 of the row at `row` are scale * code - offset, where the product is exact and the
// difference is rounded once. codes: 0..31. For whole rows, not for a matrix product: it reads single bytes.
DEVICE void decode_q5_k(const u8* row, int b, u32 (&codes)[8], float& scale, float& offset) {
  using Block = Blocks<TYPE_Q5_K>;
  const u32 s = static_cast<u32>(b) % 8;
  const u8* block = row + static_cast<u32>(b) / 8 * Block::bytes;
  const u8* packed = block + 4;   // eight scales and eight offsets of six bits
  const u32 third = load(packed + 8 + s % 4);
  const u32 first = load(packed + s % 4), second = load(packed + 4 + s % 4);
  const u32 factor = s < 4 ? first & 63u : (third & 15u) | first >> 6 << 4;
  const u32 minimum = s < 4 ? second & 63u : third >> 4 | second >> 6 << 4;
  scale = scaled(load<u16>(block), __int2float_rn(static_cast<int>(factor)));
  offset = scaled(load<u16>(block + 2), __int2float_rn(static_cast<int>(minimum)));
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const u8* high = block + 16 + 4 * i;
    const u8* low = block + 48 + s / 2 * 32 + 4 * i;
    const u32 fives = joined(load<u16>(high), load<u16>(high + 2)) >> s & 0x01010101u;
    const u32 nibbles = joined(load<u16>(low), load<u16>(low + 2)) >> 4 * (s % 2) & 0x0f0f0f0fu;
    codes[i] = nibbles | fives << 4;
  }
}

// Copies a format's codebook to shared memory, by `threads` threads of which this is number `thread`. A barrier is
// the caller's. table: the words of strata.formats; may be null for a format without one.
template <int TYPE>
DEVICE void load_grid(const u32* table, Shared<u32> grid, int thread, int threads) {
  for (int i = thread; i < Blocks<TYPE>::grid_words; i += threads) grid.st(i, load(table + i));
}
