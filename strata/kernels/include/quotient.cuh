// Division that needs no case for the ends of the range.
#pragma once

#include "vocabulary.cuh"

// Whether v may be an operand of `usual_quotient`.
constexpr u32 kUsualLow = 0x0d800000u, kUsualHigh = 0x71800000u;   // 2^-100, 2^100
DEVICE bool usual_operand(float v) { return (float_to_bits(v) & 0x7fffffffu) - kUsualLow <= kUsualHigh - kUsualLow; }

// a / b to nearest even, the bits of __fdiv_rn, for magnitudes of 2^-100 to 2^100 of a and 2^-100 to 2^116 of b, and a
// quotient from 2^-115 to 2^115; a = +0 gives +0. An approximate reciprocal y (1 ulp) takes one step of Newton and is then the
// nearest float, or next to it where b is the float below a power of two; the quotient's remainder is exact, and adding
// it times y rounds once (Markstein). So it is wrong at most where b is that float and a a power of two, which no caller
// asks. __fdiv_rn does the same and asks for the ends of the range at every single one. On lanes what may not be asked
// gives NaN.
DEVICE float usual_quotient(float a, float b) {
#ifdef STRATA_LANES
  const u32 size = float_to_bits(b) & 0x7fffffffu;
  const float q = a / b, quotient = q < 0 ? -q : q;
  const bool inside = usual_operand(a) && size >= kUsualLow && size <= 0x79800000u && quotient >= 0x1p-115f && quotient <= 0x1p115f;
  const bool off = (float_to_bits(b) & 0x7fffffu) == 0x7fffffu && (float_to_bits(a) & 0x7fffffu) == 0;
  return (inside && !off) || (float_to_bits(a) == 0 && size >= kUsualLow && size <= 0x79800000u) ? q : bits_to_float(0x7fffffffu);
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b));
  y = __fmaf_rn(__fmaf_rn(-b, y, 1.0f), y, y);
  const float q = __fmul_rn(a, y);
  return __fmaf_rn(__fmaf_rn(-b, q, a), y, q);
#endif
}
