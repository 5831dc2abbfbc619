// Exact products of one group of 32 weights and the codes of four rows of activations.
#pragma once

#include "int8.cuh"
#include "linear_units.cuh"

// The codes of a group, in the form in which they are multiplied.
struct Multiplier {
#if defined(STRATA_LANES) && defined(__AVX2__)
  __m256i low, high;   // 16 of them each, as 16-bit integers
#else
  u32 codes[8];
#endif
};

DEVICE Multiplier multiplier(const u32 (&codes)[8]) {
  Multiplier m;
#if defined(STRATA_LANES) && defined(__AVX2__)
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  m.low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(all));
  m.high = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(all, 1));
#else
#pragma unroll
  for (int i = 0; i < 8; ++i) m.codes[i] = codes[i];
#endif
  return m;
}

// dot[s][i]: of SCALES parts of the group, the sum of products with the codes at row + i * stride, 16-byte aligned, for
// i < rows; 0 for the others, whose codes are not read.
template <int SCALES>
DEVICE void dots_of_four(const Multiplier& m, const u8* row, i64 stride, int rows, i32 (&dot)[SCALES][4]) {
#if defined(STRATA_LANES) && defined(__AVX2__)
  __m256i low[4], high[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    low[i] = high[i] = _mm256_setzero_si256();
    if (i >= rows) continue;
    const uint4 first = load<uint4>(row + i * stride), second = load<uint4>(row + i * stride + 16);
    low[i] = _mm256_madd_epi16(m.low, _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&first))));
    high[i] = _mm256_madd_epi16(m.high, _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&second))));
  }
  const auto sums = [](const __m256i (&v)[4], i32 (&to)[4]) {
    const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
  };
  if constexpr (SCALES == 2) {
    sums(low, dot[0]);
    sums(high, dot[1]);
  } else {
    for (int i = 0; i < 4; ++i) low[i] = _mm256_add_epi32(low[i], high[i]);
    sums(low, dot[0]);
  }
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int s = 0; s < SCALES; ++s) dot[s][i] = 0;
    if (i >= rows) continue;
    const uint4 first = load<uint4>(row + i * stride), second = load<uint4>(row + i * stride + 16);
    const u32 codes[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) dot[j * SCALES / 8][i] = dp4a(m.codes[j], codes[j], dot[j * SCALES / 8][i]);
  }
#endif
}
