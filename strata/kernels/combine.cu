// Combining: a token's expert rows, weighted and added in rank order, and its shared expert behind a sigmoid.
//
// A thread takes four columns of one token. The formulas stand in combine.py.
//
// -D: THREADS (of a block).

#include "include/exp2.cuh"

DEVICE float sigmoid(float x) {
  return __fdiv_rn(1.0f, __fadd_rn(1.0f, exp2_fma(__fmul_rn(x, bits_to_float(0xbfb8aa3bu)))));   // -log2(e)
}

DEVICE bool finite(float x) { return (float_to_bits(x) & 0x7fffffffu) < 0x7f800000u; }

extern "C" __global__ void __launch_bounds__(THREADS)
    combine(const float* __restrict__ rows, const float* __restrict__ weights, const float* __restrict__ shared,
            const float* __restrict__ shared_gate, float* __restrict__ out, i32* __restrict__ lost, i32 tokens, i32 ranks,
            i32 columns) {
  const i64 fours = columns / 4, item = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
  const i64 token = item / fours, column = item % fours * 4;
  if (token >= tokens) return;
  const float* row = rows + token * ranks * columns + column;
  float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int rank = 0; rank < ranks; ++rank) {
    const float4 r = load<float4>(row + static_cast<i64>(rank) * columns);
    const float of[4] = {r.x, r.y, r.z, r.w};
    multiply_add(s, load(weights + token * ranks + rank), of);
  }
  if (shared != nullptr) {
    const float4 r = load<float4>(shared + token * columns + column);
    const float of[4] = {r.x, r.y, r.z, r.w};
    multiply_add(s, sigmoid(load(shared_gate + token)), of);
  }
  int bad = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bad += !finite(s[i]);
  if (bad) atomicAdd(lost, bad);
  store<float4>(out + token * columns + column, float4{s[0], s[1], s[2], s[3]});
}
