// Dense products of block weights and int8 activations by tensor cores: 128 outputs by up to COLUMNS rows of activations a
// block, 256 values of K a step.
//
// The formulas, and the order of every sum, stand in linear_dp4a.py: the bits are the same. Weights of a tile are decoded
// once, straight from their blocks (include/linear_tile.cuh); a column of the tile is a row of activations, whose units
// are copied in pieces of 16 bytes.
//
// -D: TIER (75 or 80), WEIGHTS (include/linear_formats.cuh), COLUMNS, STAGED (units of a column that are in shared memory
// at once: 1 or 2), SHARED_BYTES, MIN_BLOCKS (for the register budget).

#include "include/group_product.cuh"
#include "include/linear_tile.cuh"
#include "include/linear_units.cuh"

constexpr int kThreads = 256;
constexpr int kScales = Blocks<WEIGHTS>::scales;
constexpr bool kOffset = kHasOffset<WEIGHTS>;
constexpr int kPairs = COLUMNS / 32;   // a warp has 16 of every 32 columns
// A unit in shared memory: scales, codes and, where weights have an offset, sums. Columns read at one offset lie in
// different banks.
constexpr int kColumnCodes = 16, kColumnSums = kColumnCodes + kUnit, kColumn = kOffset ? kColumnSums + 32 : kColumnSums;

static_assert(COLUMNS % 32 == 0 && (STAGED == 1 || STAGED == 2), "whole pieces of a tile");

// Byte offsets of the arrays in shared memory.
struct Layout {
  static constexpr int weights = 0;
  static constexpr int scales = weights + kRows * kWeightRow;
  static constexpr int offsets = scales + kParts * kScales * kScaleRow * 4;
  static constexpr int units = offsets + (kOffset ? kParts * kScaleRow * 4 : 0);
  static constexpr int grid = units + STAGED * COLUMNS * kColumn;
  static constexpr int end = grid + Blocks<WEIGHTS>::grid_words * 4;
};
static_assert(Layout::end == SHARED_BYTES, "linear.py and this file disagree on shared memory");

// One unit of each of the tile's columns; zeros behind the last column, up to 16 of them. from: the unit of column 0, of
// which the next column's is `stride` bytes away.
DEVICE void bring_units(Shared<u8> to, const u8* from, i64 stride, int columns) {
  constexpr int kPieces = kUnitSize / 16;
  const int padded = (columns + 15) / 16 * 16 * kPieces;
  for (int i = static_cast<int>(threadIdx.x); i < padded; i += kThreads) {
    const int column = i / kPieces, piece = i % kPieces;   // scales, sums, codes
    if (!kOffset && piece == 1) continue;
    const int place = column * kColumn + (piece == 0 ? 0 : piece == 1 ? kColumnSums : (piece - 1) * 16);
    const bool valid = column < columns;
    const u8* source = valid ? from + column * stride + piece * 16 : from;
#if TIER >= 80
    cp_async<16>(to, place, source, valid);
#else
    to.st<uint4>(place, valid ? load<uint4>(source) : uint4{0, 0, 0, 0});
#endif
  }
}

// Products of a group of 32: 32 outputs by 8 N columns, whole numbers that start at kRaised.
template <int N>
DEVICE void dots(const u32 (&a)[2][4], const u32 (&b)[N][2], i32 (&d)[kScales][2][N][4]) {
#pragma unroll
  for (int s = 0; s < kScales; ++s)
#pragma unroll
    for (int i = 0; i < 2 * N * 4; ++i) (&d[s][0][0][0])[i] = kRaised;
  if constexpr (kScales == 1) {
    multiply_k32_s8(d[0], a, b);
  } else {
#pragma unroll
    for (int s = 0; s < kScales; ++s) {
      const u32 half_a[2][2] = {{a[0][2 * s], a[0][2 * s + 1]}, {a[1][2 * s], a[1][2 * s + 1]}};
      u32 half_b[N][1];
#pragma unroll
      for (int n = 0; n < N; ++n) half_b[n][0] = b[n][s];
      multiply_k16_s8(d[s], half_a, half_b);
    }
  }
}

// acc += this group of 32: fragments as add_group of include/group_product.cuh has them. offset: of rows as a_scale.
// units, column: where the first of the lane's columns has its unit; inside: the group in it.
DEVICE void add_terms(float (&acc)[2][2][4], const u32 (&a)[2][4], const u32 (&b)[2][2], const float (&a_scale)[kScales][2][2],
                      const float (&offset)[2][2], Shared<u8> units, int column, int inside) {
  constexpr int kTogether = kScales == 1 && !kOffset ? 2 : 1;   // column tiles, for the sake of registers
#pragma unroll
  for (int first = 0; first < 2; first += kTogether) {
    u32 part[kTogether][2];
    float b_scale[kTogether][2], sum[kTogether][2];
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      part[n][0] = b[first + n][0];
      part[n][1] = b[first + n][1];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int at = column + ((first + n) * 8 + c) * kColumn + inside * 4;
        b_scale[n][c] = units.ld<float>(at);
        sum[n][c] = kOffset ? __int2float_rn(units.ld<i32>(at + kColumnSums)) : 0.0f;
      }
    }
    i32 d[kScales][2][kTogether][4];
    dots<kTogether>(a, part, d);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < kTogether; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float v = __fmul_rn(dot_value(d[0][m][n][i]), a_scale[0][m][i >> 1]);
          if constexpr (kScales == 2) v = __fmaf_rn(dot_value(d[kScales - 1][m][n][i]), a_scale[kScales - 1][m][i >> 1], v);
          if constexpr (kOffset) v = __fmaf_rn(-offset[m][i >> 1], sum[n][i & 1], v);
          acc[m][first + n][i] = __fmaf_rn(v, b_scale[n][i & 1], acc[m][first + n][i]);
        }
  }
}

// out[i, r] = row r of the weights times row first + i of the units; arguments as linear_dp4a.cu has them.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    linear(const u8* __restrict__ blocks, const u32* __restrict__ table, const u8* __restrict__ units, float* __restrict__ out,
           i32 outputs, i32 width, i32 row_bytes, i32 rows, i32 first) {
  const Shared<u8> weights = shared_array<u8>(Layout::weights, kRows * kWeightRow);
  const Shared<float> scales = shared_array<float>(Layout::scales, kParts * kScales * kScaleRow);
  const Shared<float> offsets = shared_array<float>(Layout::offsets, kOffset ? kParts * kScaleRow : 0);
  const Shared<u8> activations = shared_array<u8>(Layout::units, STAGED * COLUMNS * kColumn);
  const Shared<u32> grid = shared_array<u32>(Layout::grid, Blocks<WEIGHTS>::grid_words);
  load_grid<WEIGHTS>(table, grid, static_cast<int>(threadIdx.x), kThreads);

  const i64 first_output = static_cast<i64>(blockIdx.x) * kRows, first_row = static_cast<i64>(blockIdx.y) * COLUMNS;
  const int own = outputs - first_output < kRows ? static_cast<int>(outputs - first_output) : kRows;
  const int columns = rows - first_row < COLUMNS ? static_cast<int>(rows - first_row) : COLUMNS;
  const i64 stride = unit_row_bytes(width);
  const u8* matrix = blocks + first_output * row_bytes;
  const u8* from = units + (first + first_row) * stride;

  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int my_rows = (warp & 3) * 32, my_columns = (warp >> 2) * 16;
  const int a_from = (my_rows + (lane & 15)) * kWeightRow + (lane >> 4) * 16;
  const int b_from = (my_columns + (lane & 7) + (lane >> 4) * 8) * kColumn + kColumnCodes + (lane >> 3 & 1) * 16;

  float acc[kPairs][2][2][4];
#pragma unroll
  for (int p = 0; p < kPairs; ++p)
#pragma unroll
    for (int i = 0; i < 16; ++i) (&acc[p][0][0][0])[i] = 0.0f;

  const int groups = width / 32;
  for (int step = 0; step < groups; step += kParts) {
    const int count = groups - step < kParts ? groups - step : kParts;
    for (int begin = 0; begin < count; begin += kUnitGroups * STAGED) {   // as many groups as are in shared memory at once
      __syncthreads();   // what was there has been read
#pragma unroll
      for (int unit = 0; unit < STAGED; ++unit)
        if (begin + kUnitGroups * unit < count)
          bring_units(activations.part(unit * COLUMNS * kColumn, COLUMNS * kColumn),
                      from + static_cast<i64>((step + begin) / kUnitGroups + unit) * kUnitSize, stride, columns);
      if (begin == 0) bring_blocks<WEIGHTS, kThreads>(weights, scales, offsets, grid, matrix, row_bytes, step, count, own);
#if TIER >= 80
      cp_async_commit();
      cp_async_wait<0>();
#endif
      __syncthreads();

      const int end = count - begin < kUnitGroups * STAGED ? count - begin : kUnitGroups * STAGED;
      for (int j = 0; j < end; ++j) {
        const int part = begin + j;
        u32 a[2][4];
        float a_scale[kScales][2][2], offset[2][2];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          ldmatrix_x4<false>(a[m], weights, a_from + m * 16 * kWeightRow + part * 32);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = my_rows + m * 16 + half * 8 + g;
#pragma unroll
            for (int s = 0; s < kScales; ++s) a_scale[s][m][half] = scales.ld((part * kScales + s) * kScaleRow + row);
            offset[m][half] = kOffset ? offsets.ld(part * kScaleRow + row) : 0.0f;
          }
        }
        const int unit = j / kUnitGroups * (COLUMNS * kColumn), inside = j % kUnitGroups;
#pragma unroll
        for (int p = 0; p < kPairs; ++p)
          if (p * 32 + my_columns < columns) {
            u32 r[4];
            ldmatrix_x4<false>(r, activations, unit + p * 32 * kColumn + b_from + inside * 32);
            const u32 b[2][2] = {{r[0], r[1]}, {r[2], r[3]}};
            add_terms(acc[p], a, b, a_scale, offset, activations, unit + (p * 32 + my_columns + 2 * t) * kColumn, inside);
          }
      }
    }
  }

#pragma unroll
  for (int p = 0; p < kPairs; ++p)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = p * 32 + my_columns + n * 8 + 2 * t + c;
        if (column >= columns) continue;
        float* to = out + (first_row + column) * outputs + first_output;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = my_rows + m * 16 + half * 8 + g;
            if (row < own) store(to + row, acc[p][m][n][2 * half + c]);
          }
      }
}
