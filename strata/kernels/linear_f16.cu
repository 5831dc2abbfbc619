// Dense products of binary16 weights and FP32 activations. A warp makes one output of up to ROWS rows of activations; the
// formulas stand in linear_f16.py.
//
// -D: THREADS and ROWS (of a block, which makes an output a warp).

#include "include/ptx.cuh"

// out[i, r] = row r of the weights times row first + i of x. weights: binary16 bits [outputs, width], width a multiple
// of 4; x: [first + rows or more, width]; out: [rows, outputs].
extern "C" __global__ void __launch_bounds__(THREADS)
    linear_f16(const u16* __restrict__ weights, const float* __restrict__ x, float* __restrict__ out, i32 outputs, i32 width, i32 rows,
               i32 first) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 output = static_cast<i64>(blockIdx.x) * (THREADS / 32) + (threadIdx.x >> 5);
  if (output >= outputs) return;   // a whole warp
  const i64 first_row = static_cast<i64>(blockIdx.y) * ROWS;
  const u16* own = weights + output * width;
  const float* given = x + (first + first_row) * width;
  float sum[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) sum[i] = 0.0f;
  for (i64 k = lane * 4; k < width; k += 128) {
    const uint2 halves = load<uint2>(own + k);
    const float w[4] = {half_value(static_cast<u16>(halves.x)), half_value(static_cast<u16>(halves.x >> 16)),
                        half_value(static_cast<u16>(halves.y)), half_value(static_cast<u16>(halves.y >> 16))};
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (first_row + i < rows) {
        const float4 v = load<float4>(given + static_cast<i64>(i) * width + k);
        sum[i] = __fmaf_rn(v.x, w[0], sum[i]);
        sum[i] = __fmaf_rn(v.y, w[1], sum[i]);
        sum[i] = __fmaf_rn(v.z, w[2], sum[i]);
        sum[i] = __fmaf_rn(v.w, w[3], sum[i]);
      }
  }
  warp_add<32>(sum);
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    if (lane == i % 32 && first_row + i < rows) store<float>(out + (first_row + i) * outputs + output, sum[i]);
}
