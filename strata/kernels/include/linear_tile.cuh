// Weights of a tile of a dense product in shared memory, as include/weight_tile.cuh lays out those of experts, and their
// offsets: FP32 [kParts, kScaleRow], of formats that have them.
#pragma once

#include "linear_formats.cuh"
#include "weight_tile.cuh"

// The first `own` of 128 rows, row_bytes apart, of groups first .. first + count - 1; rows behind them are the last one
// again. Some groups of a thread are read before the first is decoded. grid: as load_grid leaves it. All THREADS of the
// block take part.
template <int TYPE, int THREADS>
DEVICE void bring_blocks(Shared<u8> weights, Shared<float> scales, Shared<float> offsets, Shared<u32> grid, const u8* rows,
                         int row_bytes, int first, int count, int own) {
  const int part = static_cast<int>(threadIdx.x) % kParts, row = static_cast<int>(threadIdx.x) / kParts;
  if (part >= count) return;
  constexpr int kScales = Blocks<TYPE>::scales;
  constexpr int kTurns = kRows * kParts / THREADS;
  // As many as registers last for.
  constexpr bool kSmall = kScales == 1 && !kHasOffset<TYPE> && Blocks<TYPE>::halves < 10;
  constexpr int kAhead = kSmall ? kTurns : kHasOffset<TYPE> || TYPE == TYPE_Q6_K ? 1 : 2;
#pragma unroll 1   // or all turns' loads would go first, for which registers do not last
  for (int turn = 0; turn < kTurns; turn += kAhead) {
    Group<TYPE> fetched[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int r = row + (turn + i) * (THREADS / kParts);
      fetched[i] = fetch_group<TYPE>(rows + static_cast<i64>(r < own ? r : own - 1) * row_bytes, first + part);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int r = row + (turn + i) * (THREADS / kParts);
      u32 codes[8];
      float scale[kScales], offset;
      decode_group<TYPE>(fetched[i], first + part, grid, codes, scale, offset);
      // The eight threads of a row write 16 bytes each at a time; the upper four begin with their second half, so
      // that the eight meet different banks.
      const bool upper = part >= kParts / 2;
      const uint4 low = {codes[0], codes[1], codes[2], codes[3]}, high = {codes[4], codes[5], codes[6], codes[7]};
      weights.st<uint4>(r * kWeightRow + part * 32 + (upper ? 16 : 0), upper ? high : low);
      weights.st<uint4>(r * kWeightRow + part * 32 + (upper ? 0 : 16), upper ? low : high);
#pragma unroll
      for (int s = 0; s < kScales; ++s) scales.st((part * kScales + s) * kScaleRow + r, scale[s]);
      if constexpr (kHasOffset<TYPE>) offsets.st(part * kScaleRow + r, offset);
    }
  }
}
