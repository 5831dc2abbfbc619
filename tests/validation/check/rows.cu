// y[r, i] = x[r, i] * weight[i], the sum of every row of y, and how many of its elements are above zero: a kernel of
// tests, one block a row.
//
// -D: THREADS (of a block, a multiple of 32).

#include "include/vocabulary.cuh"
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rows(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, float* __restrict__ total,
         i32* __restrict__ positive, i32 width) {
  const Shared<float> parts = shared_array<float>(0, THREADS / 32);
  const int thread = static_cast<int>(threadIdx.x);
  const i64 first = static_cast<i64>(blockIdx.x) * width;
  float sum[1] = {0.0f};
  int count = 0;
  for (int i = thread; i < width; i += THREADS) {
    const float value = product(load(x + first + i), load(weight + i));
    store(y + first + i, value);
    sum[0] = __fadd_rn(sum[0], value);
    if (value > 0.0f) ++count;
  }
  if (count) atomicAdd(positive + blockIdx.x, count);
  warp_add<32>(sum);
  if ((thread & 31) == 0) parts.st(thread >> 5, sum[0]);
  __syncthreads();
  if (thread == 0) {
    float all = 0.0f;
    for (int w = 0; w < THREADS / 32; ++w) all = __fadd_rn(all, parts.ld(w));
    store(total + blockIdx.x, all);
  }
}
