// exp2 that every GPU and CPU repeats bit for bit.
#pragma once

#include "vocabulary.cuh"

// 2^x by rounding x to the nearest integer n and a polynomial of degree 6 in f = x - n, |f| <= 1/2,
// in fused multiply-adds. x < -126 gives +0, x >= 128 infinity, NaN the canonical NaN. Largest error
// 0.83 ulp; exact at integers, since the constant term is fixed at 1. Coefficients: a Remez fit for
// the relative error, then moved by a few ulp for the error of the evaluation itself.
template <bool MAY_BE_POSITIVE>
DEVICE float exp2_polynomial(float x) {
  const float magic = 12582912.0f;   // 1.5 * 2^23: adding it rounds to an integer
  const float t = __fadd_rn(x, magic);
  const u32 n = float_to_bits(t) - 0x4b400000u;
  const float f = __fsub_rn(x, __fsub_rn(t, magic));
  float r = bits_to_float(0x392385a4u);
  r = __fmaf_rn(r, f, bits_to_float(0x3aafb9bbu));
  r = __fmaf_rn(r, f, bits_to_float(0x3c1d930fu));
  r = __fmaf_rn(r, f, bits_to_float(0x3d635719u));
  r = __fmaf_rn(r, f, bits_to_float(0x3e75fdf4u));
  r = __fmaf_rn(r, f, bits_to_float(0x3f317219u));
  r = __fmaf_rn(r, f, 1.0f);
  r = bits_to_float(float_to_bits(r) + (n << 23));
  r = x < -126.0f ? 0.0f : r;
  if (MAY_BE_POSITIVE) r = x >= 128.0f ? bits_to_float(0x7f800000u) : r;
  return x != x ? bits_to_float(0x7fffffffu) : r;
}

DEVICE float exp2_fma(float x) { return exp2_polynomial<true>(x); }
// The same bits for x <= 0 and NaN, as in a softmax; infinity is not looked for.
DEVICE float exp2_not_positive(float x) { return exp2_polynomial<false>(x); }
