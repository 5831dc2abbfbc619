// What `strata doctor` builds, loads and launches. Thread i of the grid stores NUMBER + i and x[0] * x[1] + x[2], whose
// product is rounded before the sum. -D: NUMBER.

#include "include/vocabulary.cuh"

extern "C" __global__ void first_launch(const float* x, u32* out) {
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  store(out + 2 * thread, static_cast<u32>(NUMBER) + thread);
  store(out + 2 * thread + 1, float_to_bits(load(x) * load(x + 1) + load(x + 2)));
}
