// Host floating point that gives the bits of the device's.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lanes {

// Round to nearest even, subnormals kept. A library built with -ffast-math and loaded into the same
// process may have left flush-to-zero on, so every worker thread sets this for itself.
inline void plain_arithmetic() {
#if defined(__x86_64__)
  _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(std::uint64_t(0)));
#endif
}

// Truncating arithmetic while in scope; the tensor core cuts towards zero.
struct Truncating {
#if defined(__x86_64__)
  Truncating() { _mm_setcsr(0x7f80); }
  ~Truncating() { _mm_setcsr(0x1f80); }
#elif defined(__aarch64__)
  Truncating() { asm volatile("msr fpcr, %0" ::"r"(std::uint64_t(3) << 22) : "memory"); }
  ~Truncating() { asm volatile("msr fpcr, %0" ::"r"(std::uint64_t(0)) : "memory"); }
#endif
};

template <class To, class From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

constexpr std::uint32_t kCanonicalNaN = 0x7fffffffu;   // what the device writes for a computed NaN
constexpr std::uint16_t kCanonicalHalfNaN = 0x7fffu;

inline float half_to_float(std::uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#else
  const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) {   // NaN becomes quiet, as F16C makes it
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
  }
  // Place exponent and fraction, then multiply by 2^112: exact, subnormals included.
  return bit_cast<float>(bit_cast<std::uint32_t>(bit_cast<float>(magnitude << 13) * 0x1p112f) | sign);
#endif
}

inline std::uint16_t float_to_half(float x) {   // round to nearest even
  if (x != x) return kCanonicalHalfNaN;
#if defined(__F16C__)
  return std::uint16_t(_cvtss_sh(x, 0));
#else
  const std::uint32_t bits = bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);   // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {   // below 2^-14: the sum with 2^(-24+23) rounds at bit 2^-24
    const float sum = bit_cast<float>(magnitude) + 0.5f;
    return std::uint16_t(sign | (bit_cast<std::uint32_t>(sum) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return std::uint16_t(sign | (rounded - 0x38000000u) >> 13);
#endif
}

// Both halves at once.
inline std::uint32_t floats_to_half2(float low, float high) {
#if defined(__F16C__)
  const __m128 both = _mm_unpacklo_ps(_mm_set_ss(low), _mm_set_ss(high));
  if (low == low && high == high) return std::uint32_t(_mm_cvtsi128_si32(_mm_cvtps_ph(both, 0)));
#endif
  return std::uint32_t(float_to_half(low)) | std::uint32_t(float_to_half(high)) << 16;
}

// Rounding the fp32 difference of two halves gives their binary16 difference: 24 bits are 2 x 11 + 2.
inline std::uint32_t half2_difference(std::uint32_t a, std::uint32_t b) {
#if defined(__F16C__)
  const __m128 d = _mm_sub_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(int(a))), _mm_cvtph_ps(_mm_cvtsi32_si128(int(b))));
  if (_mm_movemask_ps(_mm_cmpunord_ps(d, d)) == 0) return std::uint32_t(_mm_cvtsi128_si32(_mm_cvtps_ph(d, 0)));
#endif
  return floats_to_half2(half_to_float(std::uint16_t(a)) - half_to_float(std::uint16_t(b)),
                         half_to_float(std::uint16_t(a >> 16)) - half_to_float(std::uint16_t(b >> 16)));
}

// a b + c per half, rounded once: the product of two halves is exact in fp32, and fp64 holds its sum
// with a third half (22 bits and 11, at most 2^-48 to 2^33 apart: 81 bits would be needed only where
// one side is far below the other's last bit, and there rounding to odd decides as the exact sum does).
inline std::uint16_t half_fused(std::uint16_t a, std::uint16_t b, std::uint16_t c) {
  const double p = double(half_to_float(a)) * half_to_float(b), q = half_to_float(c);
  double s = p + q;
  if (s != s) return kCanonicalHalfNaN;
  const double t = s - p, lost = (p - (s - t)) + (q - t);
  if (lost != 0 && s - s == 0) {   // to odd: the last bit of an inexact sum is one
    std::uint64_t bits = bit_cast<std::uint64_t>(s);
    if (!(bits & 1)) bits += (lost > 0) == (s > 0) ? 1 : std::uint64_t(-1);
    s = bit_cast<double>(bits);
  }
  float f = float(s);
  if (double(f) != s && s - s == 0) {   // and once more, to fp32
    std::uint32_t bits = bit_cast<std::uint32_t>(f);
    if (!(bits & 1)) bits += ((double(f) < s) == (s > 0)) ? 1 : std::uint32_t(-1);
    f = bit_cast<float>(bits);
  }
  return float_to_half(f);
}
inline std::uint32_t half2_fused(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#if defined(__F16C__) && defined(__FMA__)
  const __m128 f = _mm_fmadd_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(int(a))), _mm_cvtph_ps(_mm_cvtsi32_si128(int(b))),
                                _mm_cvtph_ps(_mm_cvtsi32_si128(int(c))));
  const __m128i h = _mm_cvtps_ph(f, 0);
  // An fp32 result that is a half is the half nearest to the exact sum; NaN compares unequal.
  if (_mm_movemask_ps(_mm_cmpneq_ps(_mm_cvtph_ps(h), f)) == 0) return std::uint32_t(_mm_cvtsi128_si32(h));
#endif
  return std::uint32_t(half_fused(std::uint16_t(a), std::uint16_t(b), std::uint16_t(c))) |
         std::uint32_t(half_fused(std::uint16_t(a >> 16), std::uint16_t(b >> 16), std::uint16_t(c >> 16))) << 16;
}

// Byte i of the result is byte (selector >> 4i & 7) of the eight bytes of a and b.
inline std::uint32_t select_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if defined(__SSSE3__)
  const std::uint64_t spread = (selector & 7) | (selector >> 4 & 7) << 8 | (selector >> 8 & 7) << 16 | std::uint64_t(selector >> 12 & 7) << 24;
  const __m128i both = _mm_cvtsi64_si128(static_cast<long long>(std::uint64_t(b) << 32 | a));
  return std::uint32_t(_mm_cvtsi128_si32(_mm_shuffle_epi8(both, _mm_cvtsi64_si128(static_cast<long long>(spread)))));
#else
  const std::uint64_t both = std::uint64_t(b) << 32 | a;
  std::uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= std::uint32_t(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return r;
#endif
}

}  // namespace lanes
