// What the two older expert kernels share: rounding away from zero, and the pass from gate and up to h.
#pragma once

#include "swiglu.cuh"

constexpr int kPassThreads = 256;   // of a block that goes over values

DEVICE bool finite(float x) { return (float_to_bits(x) & 0x7fffffffu) < 0x7f800000u; }

// To the nearest integer, ties away from zero; |x| below 2^31.
DEVICE i32 round_away(float x) {
  const i32 whole = __float2int_rz(x);
  const float rest = __fsub_rn(x, __int2float_rn(whole));   // exact
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

// The largest magnitude of 32 values, four in each of eight lanes, as bits: at least 7f800000 when one is not finite.
DEVICE u32 largest_of_32(const float (&value)[4]) {
  u32 largest[1] = {0};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 magnitude = float_to_bits(value[i]) & 0x7fffffffu;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);
  return largest[0];
}

// h of every row: gate is the first half of a row of `product`, up the second.
extern "C" __global__ void __launch_bounds__(kPassThreads)
    swiglu_rows(const float* __restrict__ product, float* __restrict__ h, i32 rows, i32 features) {
  const i64 fours = features / 4, item = static_cast<i64>(blockIdx.x) * kPassThreads + threadIdx.x;
  const i64 row = item / fours, feature = item % fours * 4;
  if (row >= rows) return;
  const float4 g = load<float4>(product + row * 2 * features + feature);
  const float4 u = load<float4>(product + row * 2 * features + features + feature);
  const float gate[4] = {g.x, g.y, g.z, g.w}, up[4] = {u.x, u.y, u.z, u.w};
  float made[4];
  swiglu_all(gate, up, made);
  store<float4>(h + row * features + feature, float4{made[0], made[1], made[2], made[3]});
}
