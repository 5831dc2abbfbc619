// A stage of a product: weights from their blocks to registers, and sums over 64 values of K.
#pragma once

#include "expert_tile.cuh"
#include "int8.cuh"

// Dots start at the bits of 1.5 * 2^23: an integer below 2^22 added to them is a float that far from it. So d_w dot is
// fma(that float, d_w, -1.5 * 2^23 d_w), rounded once: d_w has at most 17 significant bits, and three times it 19, so the
// addend is exact. Integers need no conversion. Where d_w is infinite it gives NaN.
constexpr i32 kStart = 0x4b400000;
constexpr float kStartValue = 12582912.0f;


// Blocks of weights hold kParts times 32 values; a stage takes two of those.
constexpr int kParts = Blocks<FORMAT>::values / 32, kStagesOfBlock = kParts / 2 > 0 ? kParts / 2 : 1;
DEVICE int first_part(int stage) { return kParts > 2 ? 2 * (stage % kStagesOfBlock) : 0; }

struct Raw {   // a stage of weights as it lies in memory; rows g and g + 8 of each fragment
  Fragment<FORMAT> part[2][FRAGMENTS][2];
  MEMBER void fetch(const u8* const (&row)[FRAGMENTS][2], int stage, int t) {
    const int s = first_part(stage);
    const u32 at = static_cast<u32>(kParts > 1 ? stage / kStagesOfBlock : 2 * stage) * Blocks<FORMAT>::bytes;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u8* block = row[m][r] + at;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part[i][m][r] = fetch_fragment<FORMAT>(
              [&](int moving, int fixed) { return load<u16>(block + moving + fixed + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes)); },
              s, i, t);
      }
  }
  // words: from the byte on where the lane's row g of part 0 begins its chunk, `left` bytes.
  MEMBER void fetch(Shared<u8> words, int left, int stage, int t) {
    const int s = first_part(stage);
    const int block_of_chunk = kParts > 2 ? 0 : kParts == 2 ? stage % kChunk : 2 * (stage % kChunk);
    const int block = block_of_chunk * Blocks<FORMAT>::bytes;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = (kDown ? 2 * m + r : m + FRAGMENTS * r) * kGroupBytes;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part[i][m][r] = fetch_fragment<FORMAT>(
              [&](int moving, int fixed) {
                return words.part(block + moving, left - block - moving)
                    .template ld<u16>(row + fixed + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes));
              },
              s, i, t);
      }
  }
};

struct Decoded {   // registers as m16n8k32 takes them
  u32 a[2][FRAGMENTS][4];
  float scale[2][FRAGMENTS][2][kScales];
  float back[2][FRAGMENTS][2];   // -kStartValue times the first scale
  MEMBER void decode(const Raw& raw, int stage, int t, Shared<u32> grid, const Levels& levels) {
    const int s = first_part(stage);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          u32 codes[2];
          decode_fragment<FORMAT>(raw.part[i][m][r], kParts > 1 ? s + i : 0, t, grid, levels, codes, scale[i][m][r]);
          a[i][m][r] = codes[0], a[i][m][2 + r] = codes[1];
          back[i][m][r] = __fmul_rn(-kStartValue, scale[i][m][r][0]);
        }
  }
};

using Sums = float[FRAGMENTS][kTiles][4];

// What a dot that starts at kStart stands for, as a float.
DEVICE float started(i32 dot) { return bits_to_float(static_cast<u32>(dot)); }

struct Operands {   // a stage of kTogether tiles of activations
  u32 b[kTogether][4];     // codes, 16 values a register
  float4 d_x[kTogether];   // of columns 2t and 2t + 1, two blocks each
  // codes, scales: from where the lane reads in tile 0 on.
  MEMBER void load(Shared<u8> codes, Shared<u8> scales, int first) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const int at = 8 * (first + j) * kUnitBytes;
      ldmatrix_x4<false>(b[j], codes, at);
      const float2 even = scales.template ld<float2>(at), odd = scales.template ld<float2>(at + kUnitBytes);
      d_x[j] = float4{even.x, even.y, odd.x, odd.y};
    }
  }
};

// acc += one stage of the tiles first .. first + kTogether - 1: the block of 32 at lower k, then the other.
DEVICE void multiply(Sums& acc, const Decoded& w, const Operands& x, int first) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kScales == 1) {
      u32 part[kTogether][2];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) part[j][0] = x.b[j][2 * i], part[j][1] = x.b[j][2 * i + 1];
      i32 dot[FRAGMENTS][kTogether][4];
      dots_k32_s8(dot, w.a[i], part, kStart);
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float d = e & 1 ? (i ? x.d_x[j].w : x.d_x[j].z) : (i ? x.d_x[j].y : x.d_x[j].x);
            const float v = __fmaf_rn(started(dot[m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);
            acc[m][first + j][e] = __fmaf_rn(d, v, acc[m][first + j][e]);
          }
    } else {
      i32 dot[2][FRAGMENTS][kTogether][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 part[kTogether][1], a[FRAGMENTS][2];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) part[j][0] = x.b[j][2 * i + half];
#pragma unroll
        for (int m = 0; m < FRAGMENTS; ++m) a[m][0] = w.a[i][m][2 * half], a[m][1] = w.a[i][m][2 * half + 1];
        dots_k16_s8(dot[half], a, part, kStart);
      }
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float d = e & 1 ? (i ? x.d_x[j].w : x.d_x[j].z) : (i ? x.d_x[j].y : x.d_x[j].x);
            const float v = __fmaf_rn(started(dot[0][m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);
            const float second = __fsub_rn(started(dot[1][m][j][e]), kStartValue);
            const float both = __fmaf_rn(w.scale[i][m][e >> 1][kScales - 1], second, v);
            acc[m][first + j][e] = __fmaf_rn(d, both, acc[m][first + j][e]);
          }
    }
  }
}
