// The product of one group of 32 of K by int8 tensor cores, and how it joins an FP32 sum: expert_mmq.py has the formula.
#pragma once

#include "int8.cuh"

// The integer products start at the bits of 1.5 * 2^23, so that they are floats that large more.
constexpr i32 kRaised = 0x4b400000;
DEVICE float dot_value(i32 raised) { return __fsub_rn(bits_to_float(static_cast<u32>(raised)), 12582912.0f); }

// acc += this group of 32: 32 weight rows by 16 columns. a: fragments of two 16-row tiles, b: of two 8-column tiles;
// a_scale: of rows g and g + 8 of each tile, b_scale: of columns 2t and 2t + 1 of each. Under two scales the column
// tiles go one after the other, for the sake of registers.
template <int SCALES>
DEVICE void add_group(float (&acc)[2][2][4], const u32 (&a)[2][4], const u32 (&b)[2][2], const float (&a_scale)[SCALES][2][2],
                      const float (&b_scale)[2][2]) {
  constexpr int kTogether = SCALES == 1 ? 2 : 1;
#pragma unroll
  for (int first = 0; first < 2; first += kTogether) {
    i32 d[SCALES][2][kTogether][4];
#pragma unroll
    for (int s = 0; s < SCALES; ++s)
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < kTogether; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) d[s][m][n][i] = kRaised;
    if constexpr (SCALES == 1) {
      multiply_k32_s8(d[0], a, b);
    } else {
#pragma unroll
      for (int s = 0; s < SCALES; ++s) {
        const u32 half_a[2][2] = {{a[0][2 * s], a[0][2 * s + 1]}, {a[1][2 * s], a[1][2 * s + 1]}};
        const u32 half_b[1][1] = {{b[first][s]}};
        multiply_k16_s8(d[s], half_a, half_b);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < kTogether; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float v = __fmul_rn(dot_value(d[0][m][n][i]), a_scale[0][m][i >> 1]);
          if constexpr (SCALES == 2) v = __fmaf_rn(dot_value(d[1][m][n][i]), a_scale[1][m][i >> 1], v);
          acc[m][first + n][i] = __fmaf_rn(v, b_scale[first + n][i & 1], acc[m][first + n][i]);
        }
  }
}
