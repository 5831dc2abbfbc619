// Scores of blocks, a warp for a query and a block: the baseline. The order of the sums stands in block_select_warp.py.
//
// -D: WARPS (of a thread block, which has as many blocks side by side), HEADS, DIMS.

#include "include/block_score.cuh"

static_assert(DIMS == 4 * 32, "a lane holds four dims");

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    block_scores_warp(const float* __restrict__ q, const float* __restrict__ keys, const i32* __restrict__ steps,
                      float* __restrict__ scores, i32 capacity) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 query = blockIdx.y, block = static_cast<i64>(blockIdx.x) * WARPS + (threadIdx.x >> 5);
  if (block >= load(steps + query * Step::words + Step::blocks)) return;

  const float4 key = load<float4>(keys + block * DIMS + 4 * lane);
  float dot[HEADS];
#pragma unroll
  for (int head = 0; head < HEADS; ++head) {
    const float4 x = load<float4>(q + (query * HEADS + head) * DIMS + 4 * lane);
    dot[head] = __fmaf_rn(x.w, key.w, __fmaf_rn(x.z, key.z, __fmaf_rn(x.y, key.y, __fmul_rn(x.x, key.x))));
  }
  warp_add<32>(dot);
  float score = 0.0f;
#pragma unroll
  for (int head = 0; head < HEADS; ++head) score = add_head(score, dot[head]);
  if (lane == 0) store(scores + query * capacity + block, score);
}
