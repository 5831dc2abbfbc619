// Rows of FP32 to the units that linear products take (include/linear_units.cuh). A warp makes a unit, a thread four
// values of it.
//
// -D: THREADS (of a block).

#include "include/int8.cuh"
#include "include/linear_units.cuh"

// x: [rows, width], width a multiple of 32. lost: counts groups that hold a value that is not finite.
extern "C" __global__ void __launch_bounds__(THREADS)
    linear_quantise(const float* __restrict__ x, u8* __restrict__ units, i32* __restrict__ lost, i32 rows, i32 width) {
  const i64 of_row = (width + kUnit - 1) / kUnit;
  const i64 unit = static_cast<i64>(blockIdx.x) * (THREADS / 32) + (threadIdx.x >> 5);
  if (unit >= rows * of_row) return;   // a whole warp
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 at = unit % of_row * kUnit + lane * 4;
  const bool here = at < width;
  float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
  if (here) v = load<float4>(x + unit / of_row * width + at);
  u32 largest[1] = {largest_magnitude(v)};
  warp_max<8>(largest);
  const ActivationScale scale = activation_scale(largest[0]);
  const u32 codes = activation_codes(v, scale);
  float sum[1] = {__int2float_rn(dp4a(codes, 0x01010101u, 0))};   // whole numbers below 2^13: exact
  warp_add<8>(sum);
  u8* to = units + unit * kUnitSize;
  store<u32>(to + kUnitCodes + lane * 4, codes);
  if (lane % 8 == 0) {
    store<float>(to + lane / 2, scale.d);
    store<i32>(to + kUnitSums + lane / 2, __float2int_rn(sum[0]));
    if (!scale.finite) atomicAdd(lost, 1);
  }
}
