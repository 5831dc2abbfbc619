// Block formats of dense weights: 32 values of a row as int8 codes, exact FP32 scales and, of some formats, an offset.
//
// The formats of include/expert_formats.cuh, read by its functions, and Q5_0, Q5_1, Q4_K and Q6_K besides. Q5_K is read
// here by whole words. Values 32b..32b+31 are scale * code - offset, with the codes of words 0..3 under scale[0] and
// those of 4..7 under the last scale. Scale and offset are exact in FP32: a binary16 has 11 bits, its factor at most 7.
//
// A row begins at an even address, of Q4_K and Q5_K at a multiple of 16 bytes: so do the rows of a matrix that begins at
// one, since their blocks are multiples of 16 bytes.
//
// As there, decoding has two halves: fetch_group reads, decode_group makes the values.
#pragma once

#include "expert_formats.cuh"

#define TYPE_Q5_0 6
#define TYPE_Q5_1 7
#define TYPE_Q4_K 12
#define TYPE_Q6_K 14

// HALVES is of what fetch_group reads 16 bits at a time.
template <> struct Blocks<TYPE_Q5_0> : BlockSizes<32, 22, 1, 0, 11> {};
template <> struct Blocks<TYPE_Q5_1> : BlockSizes<32, 24, 1, 0, 12> {};
template <> struct Blocks<TYPE_Q4_K> : BlockSizes<256, 144, 1, 0, 0> {};
template <> struct Blocks<TYPE_Q6_K> : BlockSizes<256, 210, 2, 0, 34> {};

// Formats whose blocks are multiples of 16 bytes, and formats whose values have an offset.
template <int TYPE>
constexpr bool kOfSixes = TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K;
template <int TYPE>
constexpr bool kHasOffset = kOfSixes<TYPE> || TYPE == TYPE_Q5_1;

// What fetch_group has read: 16-bit words, or pieces of 16 bytes (the head; of Q5_K the fifth bits; the nibbles).
template <int TYPE>
struct Group {
  static constexpr int kPieces = TYPE == TYPE_Q5_K ? 5 : kOfSixes<TYPE> ? 3 : 0;
  u16 h[Blocks<TYPE>::halves + 1];
  uint4 piece[kPieces + 1];
};

// Reads values 32b..32b+31 of the row at `row`.
template <int TYPE>
DEVICE Group<TYPE> fetch_group(const u8* row, int b) {
  using Block = Blocks<TYPE>;
  constexpr int kParts = Block::values / 32;
  const u32 s = static_cast<u32>(b) % kParts;   // part of its block
  const u8* block = row + static_cast<i64>(static_cast<u32>(b) / kParts) * Block::bytes;
  Group<TYPE> f;
  if constexpr (TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1) {
    fetch<Block::halves>(f.h, block);
  } else if constexpr (kOfSixes<TYPE>) {
    f.piece[0] = load<uint4>(block);
    if constexpr (TYPE == TYPE_Q5_K) {
      f.piece[3] = load<uint4>(block + 16);
      f.piece[4] = load<uint4>(block + 32);
    }
    const u8* nibbles = block + (TYPE == TYPE_Q5_K ? 48 : 16) + s / 2 * 32;
    f.piece[1] = load<uint4>(nibbles);
    f.piece[2] = load<uint4>(nibbles + 16);
  } else if constexpr (TYPE == TYPE_Q6_K) {
    fetch<16>(f.h, block + s / 4 * 64 + s % 2 * 32);      // nibbles
    fetch<16>(f.h + 16, block + 128 + s / 4 * 32);        // pairs of bits
    f.h[32] = load<u16>(block + 192 + 2 * s);             // two scales
    f.h[33] = load<u16>(block + 208);                     // d
  } else {
    const Fetched<TYPE> read = fetch_32<TYPE>(row, b);
#pragma unroll
    for (int i = 0; i < Block::halves; ++i) f.h[i] = read.h[i];
  }
  return f;
}

// Bits 0..3 of `bits` as the fifth bits of four bytes.
DEVICE u32 fifth_bits(u32 bits) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4; }

// Byte i (0..3) of a word.
DEVICE u32 byte_of_word(u32 word, u32 i) { return word >> 8 * i & 255u; }

// codes[i]: int8 codes of values 4i..4i+3, the first in the low byte. b and grid: as decode_fetched has them. offset:
// 0 of a format that has none.
template <int TYPE>
DEVICE void decode_group(const Group<TYPE>& f, int b, Shared<u32> grid, u32 (&codes)[8], float (&scale)[Blocks<TYPE>::scales],
                         float& offset) {
  constexpr int kParts = Blocks<TYPE>::values / 32;
  const u32 s = static_cast<u32>(b) % kParts;
  offset = 0.0f;
  if constexpr (TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1) {
    constexpr int kFirst = TYPE == TYPE_Q5_0 ? 1 : 2;
    scale[0] = half_value(f.h[0]);
    if constexpr (TYPE == TYPE_Q5_1) offset = -half_value(f.h[1]);
    const u32 fifths = joined(f.h[kFirst], f.h[kFirst + 1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 nibbles = joined(f.h[kFirst + 2 + 2 * i], f.h[kFirst + 3 + 2 * i]);
      const u32 low = (nibbles & 0x0f0f0f0fu) | fifth_bits(fifths >> 4 * i);
      const u32 high = (nibbles >> 4 & 0x0f0f0f0fu) | fifth_bits(fifths >> (16 + 4 * i));
      codes[i] = TYPE == TYPE_Q5_1 ? low : low + 0x70707070u ^ 0x80808080u;   // less 16
      codes[i + 4] = TYPE == TYPE_Q5_1 ? high : high + 0x70707070u ^ 0x80808080u;
    }
  } else if constexpr (kOfSixes<TYPE>) {
    const u32 first = byte_of_word(f.piece[0].y, s % 4), second = byte_of_word(f.piece[0].z, s % 4);
    const u32 third = byte_of_word(f.piece[0].w, s % 4);
    const u32 factor = s < 4 ? first & 63u : (third & 15u) | first >> 6 << 4;
    const u32 minimum = s < 4 ? second & 63u : third >> 4 | second >> 6 << 4;
    scale[0] = scaled(static_cast<u16>(f.piece[0].x), __int2float_rn(static_cast<int>(factor)));
    offset = scaled(static_cast<u16>(f.piece[0].x >> 16), __int2float_rn(static_cast<int>(minimum)));
    const u32 q[8] = {f.piece[1].x, f.piece[1].y, f.piece[1].z, f.piece[1].w, f.piece[2].x, f.piece[2].y, f.piece[2].z, f.piece[2].w};
#pragma unroll
    for (int i = 0; i < 8; ++i) codes[i] = q[i] >> 4 * (s % 2) & 0x0f0f0f0fu;
    if constexpr (TYPE == TYPE_Q5_K) {
      const u32 h[8] = {f.piece[3].x, f.piece[3].y, f.piece[3].z, f.piece[3].w, f.piece[4].x, f.piece[4].y, f.piece[4].z, f.piece[4].w};
#pragma unroll
      for (int i = 0; i < 8; ++i) codes[i] |= (h[i] >> s & 0x01010101u) << 4;
    }
  } else if constexpr (TYPE == TYPE_Q6_K) {
    scale[0] = scaled(f.h[33], __int2float_rn(static_cast<int>(static_cast<i8>(byte_of(f.h[32], 0)))));
    scale[1] = scaled(f.h[33], __int2float_rn(static_cast<int>(static_cast<i8>(byte_of(f.h[32], 1)))));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u32 nibbles = joined(f.h[2 * i], f.h[2 * i + 1]) >> (s % 4 < 2 ? 0 : 4) & 0x0f0f0f0fu;
      const u32 pairs = joined(f.h[16 + 2 * i], f.h[17 + 2 * i]) >> 2 * (s % 4) & 0x03030303u;
      codes[i] = (nibbles | pairs << 4) + 0x60606060u ^ 0x80808080u;   // less 32
    }
  } else {
    Fetched<TYPE> read;
#pragma unroll
    for (int i = 0; i < Blocks<TYPE>::halves; ++i) read.h[i] = f.h[i];
    decode_fetched<TYPE>(read, b, grid, codes, scale);
  }
}
