// RMSNorm of rows, with or without a residual added behind it.
//
// A warp takes a row; lane l holds columns 128 j + 4 l to + 3. The formulas and the order of the sum stand in rms_norm.py.
// A lane reads of x and of the residual what it writes itself, and before it writes it: so `out` may be either's
// buffer, and none of the three is __restrict__.
//
// -D: WARPS (of a block).

#include "include/vocabulary.cuh"

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    rms_norm(const float* x, const float* __restrict__ weight, const float* residual, float* out,
             i32* __restrict__ lost, i32 rows, i32 n, float eps) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 row = static_cast<i64>(blockIdx.x) * WARPS + (threadIdx.x >> 5), start = row * n;
  if (row >= rows) return;

  float sum[1] = {0.0f};
  for (i64 i = 4 * lane; i < n; i += 128) {
    const float4 v = load<float4>(x + start + i);
    sum[0] = __fmaf_rn(v.x, v.x, sum[0]);
    sum[0] = __fmaf_rn(v.y, v.y, sum[0]);
    sum[0] = __fmaf_rn(v.z, v.z, sum[0]);
    sum[0] = __fmaf_rn(v.w, v.w, sum[0]);
  }
  warp_add<32>(sum);

  const bool finite = (float_to_bits(sum[0]) & 0x7fffffffu) < 0x7f800000u;
  if (!finite && lane == 0) atomicAdd(lost, 1);
  const float mean = __fdiv_rn(sum[0], __int2float_rn(n));
  const float scale = finite ? __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps))) : bits_to_float(0x7fffffffu);

  for (i64 i = 4 * lane; i < n; i += 128) {
    const float4 v = load<float4>(x + start + i), w = load<float4>(weight + i);
    float4 y = {__fmul_rn(__fmul_rn(v.x, scale), w.x), __fmul_rn(__fmul_rn(v.y, scale), w.y),
                __fmul_rn(__fmul_rn(v.z, scale), w.z), __fmul_rn(__fmul_rn(v.w, scale), w.w)};
    if (residual != nullptr) {
      const float4 a = load<float4>(residual + start + i);
      y = {__fadd_rn(a.x, y.x), __fadd_rn(a.y, y.y), __fadd_rn(a.z, y.z), __fadd_rn(a.w, y.w)};
    }
    store<float4>(out + start + i, y);
  }
}
