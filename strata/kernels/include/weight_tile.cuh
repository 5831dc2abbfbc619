// Weights of a tile in shared memory: 128 rows by 256 values of K, decoded from the experts' own bytes. Codes are int8
// [kRows, kWeightRow]; scales are FP32 [kParts * scales of 32 values, kScaleRow], a group's rows side by side.
#pragma once

#include "expert_formats.cuh"

constexpr int kRows = 128, kStep = 256;   // weight rows of a tile, values of K of a step
constexpr int kParts = kStep / 32;        // groups of 32 of a step
constexpr int kWeightRow = kStep + 16;    // bytes: rows read at one offset lie in different banks
constexpr int kScaleRow = kRows + 4;      // floats: so do the groups of one row

// The 128 rows, row_bytes apart, of groups first .. first + count - 1: four groups a thread, kAhead of them read before
// the first is decoded. grid: as load_grid leaves it. All THREADS of the block take part.
template <int TYPE, int THREADS>
DEVICE void bring_weights(Shared<u8> weights, Shared<float> scales, Shared<u32> grid, const u8* rows, int row_bytes, int first,
                          int count) {
  const int part = static_cast<int>(threadIdx.x) % kParts, row = static_cast<int>(threadIdx.x) / kParts;
  if (part >= count) return;
  constexpr int kScales = Blocks<TYPE>::scales;
  constexpr int kTurns = kRows * kParts / THREADS, kAhead = kScales == 1 && Blocks<TYPE>::halves < 10 ? kTurns : 2;
#pragma unroll
  for (int turn = 0; turn < kTurns; turn += kAhead) {
    Fetched<TYPE> fetched[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      fetched[i] = fetch_32<TYPE>(rows + static_cast<i64>(row + (turn + i) * (THREADS / kParts)) * row_bytes, first + part);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int r = row + (turn + i) * (THREADS / kParts);
      u32 codes[8];
      float scale[kScales];
      decode_fetched<TYPE>(fetched[i], first + part, grid, codes, scale);
      // The eight threads of a row write 16 bytes each at a time; the upper four begin with their second half, so
      // that the eight meet different banks.
      const bool upper = part >= kParts / 2;
      const uint4 low = {codes[0], codes[1], codes[2], codes[3]}, high = {codes[4], codes[5], codes[6], codes[7]};
      weights.st<uint4>(r * kWeightRow + part * 32 + (upper ? 16 : 0), upper ? high : low);
      weights.st<uint4>(r * kWeightRow + part * 32 + (upper ? 0 : 16), upper ? low : high);
#pragma unroll
      for (int s = 0; s < kScales; ++s) scales.st((part * kScales + s) * kScaleRow + r, scale[s]);
    }
  }
}
