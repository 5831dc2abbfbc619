// Division that needs no case for the ends of the range.
#pragma once

#include "vocabulary.cuh"

// Whether v may be an operand of `usual_quotient`.
constexpr u32 kUsualLow = 0x0d800000u, kUsualHigh = 0x71800000u;   // 2^-100, 2^100
DEVICE bool usual_operand(float v) { return (float_to_bits(v) & 0x7fffffffu) - kUsualLow <= kUsualHigh - kUsualLow; }

// a / b to nearest even, the bits of __fdiv_rn, for magnitudes of 2^-100 to 2^100 of a and 1 to 2^116, or the former, of
// b, and a quotient above 2^-115; a = +0 gives +0. An approximate reciprocal y (1 ulp) takes one step of Newton and is
// then within half an ulp and 2^-46 of itself; the quotient's remainder is exact, and adding it times y rounds once
// (Markstein). __fdiv_rn does the same and asks for the ends of the range at every single one.
DEVICE float usual_quotient(float a, float b) {
#ifdef STRATA_LANES
  return a / b;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b));
  y = __fmaf_rn(__fmaf_rn(-b, y, 1.0f), y, y);
  const float q = __fmul_rn(a, y);
  return __fmaf_rn(__fmaf_rn(-b, q, a), y, q);
#endif
}
