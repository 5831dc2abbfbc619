// Rotary position embedding: pairs of a head's dims turned by the angles of the row's position.
//
// A thread takes four pairs of one head. It reads both halves of its pairs before it writes either, so `out` may be `x`.
// The formulas stand in rope.py.
//
// -D: THREADS (of a block).

#include "include/vocabulary.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const float* x, const i32* __restrict__ steps, const float* __restrict__ cosines, const float* __restrict__ sines,
         float* out, i32 rows, i32 heads, i32 d) {
  const i64 half = d / 2, fours = half / 4, item = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
  const i64 head = item / fours, pair = item % fours * 4, row = head / heads;
  if (row >= rows) return;
  const i64 angle = load(steps + row * 4) * half + pair, at = head * d + pair;
  const float4 l = load<float4>(x + at), h = load<float4>(x + at + half);
  const float4 c4 = load<float4>(cosines + angle), s4 = load<float4>(sines + angle);
  const float low[4] = {l.x, l.y, l.z, l.w}, high[4] = {h.x, h.y, h.z, h.w};
  const float c[4] = {c4.x, c4.y, c4.z, c4.w}, s[4] = {s4.x, s4.y, s4.z, s4.w};
  float first[4], second[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = __fmaf_rn(low[i], c[i], -__fmul_rn(high[i], s[i]));
    second[i] = __fmaf_rn(high[i], c[i], __fmul_rn(low[i], s[i]));
  }
  store<float4>(out + at, float4{first[0], first[1], first[2], first[3]});
  store<float4>(out + at + half, float4{second[0], second[1], second[2], second[3]});
}
