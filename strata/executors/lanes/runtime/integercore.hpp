// The integer matrix instructions mma.sync .s32.s8.s8.s32 on the registers of 32 lanes.
//
// Products of int8 and sums of 32 bits are exact, so there is no rule to choose and no order to keep.
#pragma once

#include "machine.hpp"

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

namespace lanes {

// What one lane brings to a matrix product: its accumulators and fragments, in its own memory. While the
// lanes wait for each other these do not change.
struct IntegerOperands {
  int* d;
  const u32* a;
  const u32* b;
};

// Eight rows of 16 int8 of A, as the lanes hold them in one register each: row g in lanes 4g .. 4g+3.
struct alignas(64) IntegerRows {
  u32 quad[8][4];
};
// Eight columns of 16 int8 of B, [k / 4][column] so that one step meets all columns, and for each column
// -128 times its sum, which takes the bias of unsigned rows back.
struct alignas(64) IntegerColumns {
  u32 quad[4][8];
  int bias[8];
};

inline void gather(IntegerRows& out, const IntegerOperands* const* all, int reg) {
  for (int lane = 0; lane < kWarp; ++lane) out.quad[lane >> 2][lane & 3] = all[lane]->a[reg];
}

inline void gather(IntegerColumns& out, const IntegerOperands* const* all, int reg) {
  for (int lane = 0; lane < kWarp; ++lane) out.quad[lane & 3][lane >> 2] = all[lane]->b[reg];
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  __m256i bias = _mm256_setzero_si256();
  for (int q = 0; q < 4; ++q)
    bias = _mm256_dpbusd_epi32(bias, _mm256_set1_epi8(char(128)), _mm256_load_si256(reinterpret_cast<const __m256i*>(out.quad[q])));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out.bias), _mm256_sub_epi32(_mm256_setzero_si256(), bias));
#endif
}

// sum[row][column] += a b over 16 k, modulo 2^32.
inline void multiply(int (&sum)[8][8], const IntegerRows& a, const IntegerColumns& b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  __m256i column[4];
  for (int q = 0; q < 4; ++q) column[q] = _mm256_load_si256(reinterpret_cast<const __m256i*>(b.quad[q]));
  const __m256i bias = _mm256_load_si256(reinterpret_cast<const __m256i*>(b.bias));
  for (int row = 0; row < 8; ++row) {
    __m256i s = _mm256_add_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(sum[row])), bias);
    for (int q = 0; q < 4; ++q) s = _mm256_dpbusd_epi32(s, _mm256_set1_epi32(int(a.quad[row][q] ^ 0x80808080u)), column[q]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sum[row]), s);
  }
#else
  typedef int I8 __attribute__((vector_size(32)));
  I8 column[16];
  for (int k = 0; k < 16; ++k)
    for (int c = 0; c < 8; ++c) column[k][c] = static_cast<signed char>(b.quad[k >> 2][c] >> 8 * (k & 3));
  for (int row = 0; row < 8; ++row) {
    I8 s;
    std::memcpy(&s, sum[row], sizeof s);
    for (int k = 0; k < 16; ++k) s += column[k] * static_cast<signed char>(a.quad[row][k >> 2] >> 8 * (k & 3));
    std::memcpy(sum[row], &s, sizeof s);
  }
#endif
}

// The accumulators of one 8x8 product: lane 4g+t holds row g, columns 2t and 2t+1, at `at` of its array.
inline void exchange(int (&sum)[8][8], IntegerOperands* const* all, int at, bool into) {
  for (int lane = 0; lane < kWarp; ++lane) {
    int* here = &sum[lane >> 2][2 * (lane & 3)];
    if (into) std::memcpy(here, all[lane]->d + at, 8);
    else std::memcpy(all[lane]->d + at, here, 8);
  }
}

}  // namespace lanes
