// A row of numbers as two rows of FP16 and a power of two, for products on tensor cores.
#pragma once

#include "ptx.cuh"

// 2^e, for e of -126 to 127.
DEVICE float power_of_two(int e) { return bits_to_float(static_cast<u32>(127 + e) << 23); }

// e of x = f * 2^e, f in [1/2, 1), from the bits of |x|; 0 for zero. Never below -100, so that every power made from it is
// a normal number.
DEVICE int exponent_of(u32 magnitude) {
  const int e = magnitude == 0 ? 0 : static_cast<int>(magnitude >> 23) - 126;
  return e < -100 ? -100 : e;
}

// The larger of a magnitude and that of x, which does not count when it is an infinity or a NaN.
DEVICE u32 larger_finite(u32 magnitude, u32 x) {
  x &= 0x7fffffffu;
  return x < 0x7f800000u && x > magnitude ? x : magnitude;
}

// Two values as hi + lo halves: lo holds what hi leaves over.
DEVICE void split_pair(float x, float y, u32& hi, u32& lo) {
  hi = half_pair(x, y);
  lo = half_pair(__fsub_rn(x, half_value(static_cast<u16>(hi))), __fsub_rn(y, half_value(static_cast<u16>(hi >> 16))));
}
