// Activations as int8: 32 neighbouring values share one scale.
//
// With amax the largest magnitude: inverse = 127 / amax, code = rint(v inverse) to nearest even, d = amax / 127, each
// operation rounded to FP32; codes lie within -127..127. A block of zeros has codes 0 and d +0; so has one whose amax
// is so small (below about 2^-121) that 127 / amax is infinite. A block with a NaN or an infinity has codes 0 and
// d = NaN, so that everything computed from it is NaN, and the caller counts it.
#pragma once

#include "quotient.cuh"

constexpr int kActivationBlock = 32;
// A row of activations in memory is units of 64 values: 64 codes, the scales of both blocks, 8 bytes that nobody uses.
constexpr int kUnitValues = 64, kUnitScales = 64, kUnitBytes = 80;
constexpr u32 kInfinityBits = 0x7f800000u, kNotANumber = 0x7fffffffu;

struct ActivationScale {
  float inverse, d;
  bool finite;
};

// The scale of a block from the largest of its values' magnitudes, taken as bits: NaN and infinity are the largest.
DEVICE ActivationScale activation_scale(u32 largest) {
  if (largest >= kInfinityBits) return {0.0f, bits_to_float(kNotANumber), false};
  const float amax = bits_to_float(largest), inverse = __fdiv_rn(127.0f, amax);
  if (float_to_bits(inverse) >= kInfinityBits) return {0.0f, 0.0f, true};   // amax 0 too
  return {inverse, __fdiv_rn(amax, 127.0f), true};
}

// Those of N blocks, asked for cases once.
template <int N>
DEVICE void activation_scales(const u32 (&largest)[N], ActivationScale (&scale)[N]) {
  bool usual = true;
#pragma unroll
  for (int i = 0; i < N; ++i) usual &= usual_operand(bits_to_float(largest[i]));
  if (usual) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float amax = bits_to_float(largest[i]);
      scale[i] = {usual_quotient(127.0f, amax), usual_quotient(amax, 127.0f), true};
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) scale[i] = activation_scale(largest[i]);
  }
}

DEVICE u32 magnitude_bits(float v) { return float_to_bits(v) & 0x7fffffffu; }

DEVICE u32 largest_magnitude(const float4& v) {
  const u32 x = magnitude_bits(v.x), y = magnitude_bits(v.y), z = magnitude_bits(v.z), w = magnitude_bits(v.w);
  const u32 a = x > y ? x : y, b = z > w ? z : w;
  return a > b ? a : b;
}

// One code as a byte. A block that is not finite has inverse 0 and no code.
DEVICE u32 activation_code(float v, const ActivationScale& scale) {
  return scale.inverse == 0.0f ? 0u : static_cast<u32>(__float2int_rn(__fmul_rn(v, scale.inverse))) & 255u;
}

// Codes of four neighbouring values, the first in the low byte.
DEVICE u32 activation_codes(const float4& v, const ActivationScale& scale) {
  return activation_code(v.x, scale) | activation_code(v.y, scale) << 8 | activation_code(v.z, scale) << 16 |
         activation_code(v.w, scale) << 24;
}
