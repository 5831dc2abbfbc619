// Rows of q and of keys for the products of block_select.cu on tensor cores: hi and lo halves, and a power of two. What
// they are stands in block_select.py.
//
// -D: TIER (75 or 80), DIMS, THREADS.

#include "include/split_row.cuh"

static_assert(DIMS == 4 * 32, "a lane splits four dims");

// rows: float [count, DIMS]; parts: u16 [count, 2, DIMS]; exponents: [count]. A warp takes a row.
extern "C" __global__ void __launch_bounds__(THREADS)
    block_split(const float* __restrict__ rows, u16* __restrict__ parts, i32* __restrict__ exponents, i32 count) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 row = static_cast<i64>(blockIdx.x) * (THREADS / 32) + (threadIdx.x >> 5);
  if (row >= count) return;
  const float4 x = load<float4>(rows + row * DIMS + 4 * lane);
  u32 largest[1] = {larger_finite(0, float_to_bits(x.x))};
  largest[0] = larger_finite(largest[0], float_to_bits(x.y));
  largest[0] = larger_finite(largest[0], float_to_bits(x.z));
  largest[0] = larger_finite(largest[0], float_to_bits(x.w));
  warp_max<32>(largest);
  const int exponent = exponent_of(largest[0]);
  const float up = power_of_two(14 - exponent);
  uint2 hi, lo;
  split_pair(__fmul_rn(x.x, up), __fmul_rn(x.y, up), hi.x, lo.x);
  split_pair(__fmul_rn(x.z, up), __fmul_rn(x.w, up), hi.y, lo.y);
  store<uint2>(parts + row * 2 * DIMS + 4 * lane, hi);
  store<uint2>(parts + (row * 2 + 1) * DIMS + 4 * lane, lo);
  if (lane == 0) store(exponents + row, exponent);
}
