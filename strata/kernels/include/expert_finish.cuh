// What becomes of a block's sums: SwiGLU and int8 h of gate and up, rows of pairs of down.
#pragma once

#include "expert_sums.cuh"
#include "swiglu.cuh"

// SwiGLU of a block's gate and up sums, then int8 for 32 features, into rows first .. first + columns - 1 of h; the sums
// themselves to the trace, [row][gate ff | up ff], unless that is null. They change hands in shared memory, so that eight
// lanes hold a block of 32: little code, which all columns share.
DEVICE void finish_gate_up(const Sums& acc, const Place& me, Shared<float> sums, u8* units, float* trace, i32* status,
                           i64 first, int feature, int ff, int columns) {
  constexpr int kBlocks = kFeatures / kActivationBlock, kAtOnce = 2;   // blocks of a column; of a lane at a time
  const int part = 4 * (me.lane & 7), row_bytes = ff / kUnitValues * kUnitBytes;
  u8* corner = units + first * row_bytes + feature / kUnitValues * kUnitBytes;
  const int mine = 2 * me.t * kSumsRow + 8 * me.warp * FRAGMENTS + me.g;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const int start = pass * kPassColumns, here = columns - start < kPassColumns ? columns - start : kPassColumns;
    if (here <= 0) break;
    if (pass > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < kPassColumns / 8; ++j) {
      if (8 * j >= here) break;
#pragma unroll
      for (int i = 0; i < 4 * FRAGMENTS; ++i)   // fragment, gate or up, column
        sums.st(mine + (8 * j + i % 2) * kSumsRow + i / 4 * 8 + i / 2 % 2 * kFeatures, acc[i / 4][start / 8 + j][i % 4]);
    }
    __syncthreads();
#pragma unroll 1
    for (int base = me.warp * 4 * kAtOnce; base < here * kBlocks; base += kWarps * 4 * kAtOnce) {
      float gate[4 * kAtOnce], up[4 * kAtOnce], h[4 * kAtOnce];
      int column[kAtOnce], block[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int number = base + 4 * i + (me.lane >> 3);
        column[i] = number < here * kBlocks ? number / kBlocks : here - 1, block[i] = number % kBlocks;
        const int at = column[i] * kSumsRow + block[i] * kActivationBlock + part;
        const float4 g = sums.template ld<float4>(at), u = sums.template ld<float4>(at + kFeatures);
        gate[4 * i] = g.x, gate[4 * i + 1] = g.y, gate[4 * i + 2] = g.z, gate[4 * i + 3] = g.w;
        up[4 * i] = u.x, up[4 * i + 1] = u.y, up[4 * i + 2] = u.z, up[4 * i + 3] = u.w;
      }
      swiglu_all(gate, up, h);
      u32 largest[kAtOnce];
      float4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        v[i] = float4{h[4 * i], h[4 * i + 1], h[4 * i + 2], h[4 * i + 3]};
        largest[i] = largest_magnitude(v[i]);
      }
      warp_max<8>(largest);
      ActivationScale scale[kAtOnce];
      activation_scales(largest, scale);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = block[i] * kActivationBlock + part;
        if (base + 4 * i + (me.lane >> 3) >= here * kBlocks || feature + at >= ff) continue;
        u8* unit = corner + (start + column[i]) * row_bytes + block[i] / 2 * kUnitBytes;
        store<u32>(unit + block[i] % 2 * kActivationBlock + part, activation_codes(v[i], scale[i]));
        if (part == 0) {
          store<float>(unit + kUnitScales + block[i] % 2 * 4, scale[i].d);
          if (!scale[i].finite) atomicAdd(status + 1, 1);
        }
        if (trace != nullptr) {
          float* row = trace + (first + start + column[i]) * 2 * ff + feature + at;
          store(reinterpret_cast<float4*>(row), float4{gate[4 * i], gate[4 * i + 1], gate[4 * i + 2], gate[4 * i + 3]});
          store(reinterpret_cast<float4*>(row + ff), float4{up[4 * i], up[4 * i + 1], up[4 * i + 2], up[4 * i + 3]});
        }
      }
    }
  }
}

// Sums of down as they are, each row to its pair; n is a multiple of 256, so of WEIGHT_ROWS. What is not finite is looked
// for in all of them at once.
DEVICE void finish_down(const Sums& acc, const Place& me, Shared<i32> pairs, float* out, i32* status, int row, int n, int columns) {
  float* mine = out + row + 16 * me.warp * FRAGMENTS + me.g;
  float probe = 0.0f;   // becomes NaN
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (8 * j >= columns) break;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = 8 * j + 2 * me.t + c;
      if (column >= columns) continue;
      float* here = mine + static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);
#pragma unroll
      for (int i = 0; i < 2 * FRAGMENTS; ++i) {
        const float v = acc[i / 2][j][2 * (i % 2) + c];
        store(here + 8 * i, v);
        probe = __fmaf_rn(v, 0.0f, probe);
      }
    }
  }
  if (probe == 0.0f) return;
  int lost = 0;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int i = 0; i < 2 * FRAGMENTS; ++i)
        if (8 * j + 2 * me.t + c < columns) lost += magnitude_bits(acc[i / 2][j][2 * (i % 2) + c]) >= kInfinityBits;
  atomicAdd(status + 2, lost);
}
