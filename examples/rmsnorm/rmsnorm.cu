// Root-mean-square norm of every row: y[r, i] = x[r, i] / rms[r] * weight[i], rms[r] = sqrt(mean of x[r, i]^2 + epsilon).
//
// One block a row. Thread t sums the squares of elements t, t + THREADS, ... in fused multiply-adds; a warp adds its 32
// sums in a butterfly, and every thread adds the sums of the warps in their order: so the bits are the same on every
// machine. rms is stored as well, as a backward pass wants it.
//
// -D: THREADS (of a block, a multiple of 32).

#include "include/vocabulary.cuh"

constexpr int kWarps = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, float* __restrict__ rms,
            i32 width, float epsilon) {
  const Shared<float> parts = shared_array<float>(0, kWarps);
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const i64 row = blockIdx.x;

  float squares[1] = {0.0f};
  for (int i = thread; i < width; i += THREADS) {
    const float v = load(x + row * width + i);
    squares[0] = __fmaf_rn(v, v, squares[0]);
  }
  warp_add<32>(squares);
  if (lane == 0) parts.st(warp, squares[0]);
  __syncthreads();

  float total = 0.0f;
  for (int w = 0; w < kWarps; ++w) total = __fadd_rn(total, parts.ld(w));
  const float mean = __fdiv_rn(total, __int2float_rn(width));
  const float root = __fsqrt_rn(__fadd_rn(mean, epsilon));

  for (int i = thread; i < width; i += THREADS) {
    const float normal = __fdiv_rn(load(x + row * width + i), root);
    store(y + row * width + i, __fmul_rn(normal, load(weight + i)));
  }
  if (thread == 0) store(rms + row, root);
}
