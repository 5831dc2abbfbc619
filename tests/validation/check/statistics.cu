// Of every row of x: its maximum and the first place of it, its mean, its variance, and the row divided by its root mean
// square: a kernel of tests, one warp a row. fault: 0 for the right kernel, or one of the textbook's that
// statistics.py names.

#include "include/vocabulary.cuh"

extern "C" __global__ void __launch_bounds__(32)
    statistics(const float* __restrict__ x, float* __restrict__ top, i32* __restrict__ at, float* __restrict__ mean,
               float* __restrict__ variance, float* __restrict__ unit, i32 width, i32 fault) {
  const int lane = static_cast<int>(threadIdx.x);
  const i64 row = blockIdx.x, first = row * width;
  const i64 from = fault == 8 ? first & ~1ll : first;  // as if read in pairs
  const int end = fault == 4 && width % 32 == 1 && width > 1 ? width - 1 : width;
  const float count = __int2float_rn(fault == 6 ? (width + 31) / 32 * 32 : width);

  float high[1] = {bits_to_float(fault == 1 || (fault == 2 && lane >= width) ? 0u : 0xff800000u)};
  float sums[2] = {0.0f, 0.0f};
  for (int i = lane; i < end; i += 32) {
    const float v = load(x + from + i);
    high[0] = v > high[0] ? v : high[0];
    sums[0] = __fadd_rn(sums[0], v);
    sums[1] = __fmaf_rn(v, v, sums[1]);
  }
  warp_max<32>(high);
  warp_add<32>(sums);
  const float average = __fdiv_rn(sums[0], count), square = __fdiv_rn(sums[1], count);

  u32 place[1] = {0u};  // of the first: the largest of ~i
  float apart[1] = {0.0f};
  for (int i = lane; i < end; i += 32) {
    const float v = load(x + from + i);
    const u32 here = v == high[0] ? (fault == 5 ? static_cast<u32>(i) : ~static_cast<u32>(i)) : 0u;
    place[0] = here > place[0] ? here : place[0];
    const float difference = __fsub_rn(v, average);
    apart[0] = __fmaf_rn(difference, difference, apart[0]);
  }
  warp_max<32>(place);
  warp_add<32>(apart);

  const float spread = fault == 3 ? __fsub_rn(square, __fmul_rn(average, average)) : __fdiv_rn(apart[0], count);
  const float root = __fsqrt_rn(fault == 7 ? square : __fadd_rn(square, bits_to_float(0x2b800000u)));  // 2^-40
  for (int i = lane; i < width; i += 32) store(unit + first + i, __fdiv_rn(load(x + from + i), root));
  if (lane == 0) {
    store(top + row, high[0]);
    store(at + row, static_cast<i32>(fault == 5 ? place[0] : ~place[0]));
    store(mean + row, average);
    store(variance + row, spread);
  }
}
