// The router: the RANKS largest logits of every token, and their softmax weights.
//
// A warp takes one token after another; lane l holds experts l, l + 32, l + 64, ... The formulas and the order of
// the sums stand in router.py.
//
// -D: MOST_EXPERTS, WARPS (of a block).

#include "include/exp2.cuh"

constexpr int kEach = MOST_EXPERTS / 32;   // experts of a lane
constexpr u32 kLargest = 0x7f7fffffu;      // bits of the largest finite float

static_assert(MOST_EXPERTS % 32 == 0, "every lane holds as many experts");

// A float as an integer of the same order, never 0: -0 as +0, a NaN as the smallest finite float, infinities as the
// outermost finite ones.
DEVICE u32 key_of(float x, int& nans, int& infinities) {
  u32 bits = float_to_bits(x);
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) bits = 0x80000000u | kLargest, ++nans;
  if (magnitude == 0x7f800000u) bits = (bits & 0x80000000u) | kLargest, ++infinities;
  if (magnitude == 0) bits = 0;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE float value_of(u32 key) { return bits_to_float(key >> 31 ? key & 0x7fffffffu : ~key); }

// e^(x - maximum), x not above it.
DEVICE float share(float x, float maximum) {
  return exp2_not_positive(__fmul_rn(__fsub_rn(x, maximum), bits_to_float(0x3fb8aa3bu)));   // log2(e)
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    router(const float* __restrict__ logits, i32* __restrict__ ids, float* __restrict__ weights,
           i32* __restrict__ counts, i32 tokens, i32 experts, i32 ranks) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 step = static_cast<i64>(gridDim.x) * WARPS;
  for (i64 token = static_cast<i64>(blockIdx.x) * WARPS + (threadIdx.x >> 5); token < tokens; token += step) {
    u32 key[kEach];   // 0: no expert, or one that was taken
    int nans = 0, infinities = 0;
    u32 highest[1] = {0};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int expert = 32 * i + lane;
      key[i] = expert < experts ? key_of(load(logits + token * experts + expert), nans, infinities) : 0;
      highest[0] = key[i] > highest[0] ? key[i] : highest[0];
    }
    if (nans) atomicAdd(counts, nans);
    if (infinities) atomicAdd(counts + 1, infinities);
    warp_max<32>(highest);
    const float maximum = value_of(highest[0]);

    float total[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (key[i]) total[0] = __fadd_rn(total[0], share(value_of(key[i]), maximum));
    warp_add<32>(total);

    float sum = 0.0f, weight = 0.0f;   // of all ranks; of this lane's rank
    i32 chosen = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      u32 best = 0;
      int at = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (key[i] > best) best = key[i], at = i;
      u32 top[1] = {best};
      warp_max<32>(top);
      u32 first[1] = {best == top[0] ? static_cast<u32>(MOST_EXPERTS - (32 * at + lane)) : 0};
      warp_max<32>(first);   // of equal logits the smaller id
      const int expert = MOST_EXPERTS - static_cast<int>(first[0]);
      const float softmax = __fdiv_rn(share(value_of(top[0]), maximum), total[0]);
      sum = __fadd_rn(sum, softmax);
      if (lane == rank) weight = softmax, chosen = expert;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (expert == 32 * i + lane) key[i] = 0;
    }
    if (lane < ranks) {
      const float least = bits_to_float(0x38800000u);   // 2^-14
      store(ids + token * ranks + lane, chosen);
      store(weights + token * ranks + lane, __fdiv_rn(weight, sum > least ? sum : least));
    }
  }
}
