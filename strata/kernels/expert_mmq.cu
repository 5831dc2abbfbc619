// Experts the older way: quantised rows for every pair, a grouped product of blocks, and two passes between products.
//
// expert_mmq_quantise   FP32 rows to codes, one row a (token, rank) pair
// expert_mmq            the product: 128 weight rows by up to COLUMNS pairs of one expert, 256 values of K a step
// swiglu_rows           gate and up to h (include/older_experts.cuh)
//
// The formulas, and the order of every sum, stand in expert_mmq.py; this file says where the data lies. Codes of 128
// values are one block of 144 bytes: four FP32 scales, then 128 int8. Blocks of the same 128 values of K of all rows
// follow one another, so the blocks that a tile needs are one piece of memory. Weights of a tile come from
// include/weight_tile.cuh, the arithmetic of a group of 32 from include/group_product.cuh.
//
// -D: TIER (75 or 80); of the product: WEIGHTS (include/expert_formats.cuh), COLUMNS, STAGED (blocks of K whose codes
// are in shared memory at once: 1 or 2), SHARED_BYTES, MIN_BLOCKS (for the register budget).

#include "include/group_product.cuh"
#include "include/older_experts.cuh"
#include "include/weight_tile.cuh"

constexpr int kThreads = 256;
constexpr int kBlock = 128, kBlockBytes = 144;   // values and bytes of a block of codes

// One warp quantises 128 values of one row. Row r of the result is row source[r] / divisor of x (source null: row r).
// lost: counts groups of 32 that hold a value that is not finite, of rows that are the first with their source.
extern "C" __global__ void __launch_bounds__(kThreads)
    expert_mmq_quantise(const float* __restrict__ x, const i32* __restrict__ source, u8* __restrict__ out,
                        i32* __restrict__ lost, i32 rows, i32 width, i32 divisor) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 blocks = (width + kBlock - 1) / kBlock;
  const i64 item = static_cast<i64>(blockIdx.x) * (kThreads / 32) + (threadIdx.x >> 5);
  if (item >= rows * blocks) return;
  const i64 row = item / blocks, block = item % blocks;
  const i32 pair = source == nullptr ? static_cast<i32>(row) : load(source + row);
  const i64 at = block * kBlock + lane * 4;
  float4 v = {0.0f, 0.0f, 0.0f, 0.0f};   // past the end of the row
  if (at < width) v = load<float4>(x + static_cast<i64>(pair / divisor) * width + at);
  const float value[4] = {v.x, v.y, v.z, v.w};
  const u32 largest = largest_of_32(value);
  const bool bad = largest >= 0x7f800000u;
  const float inverse = __fdiv_rn(127.0f, bits_to_float(largest));
  const bool empty = bad || !finite(inverse);   // 127 / amax is infinite: the group counts as zeros
  u32 packed = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const i32 code = empty ? 0 : round_away(__fmul_rn(value[i], inverse));
    packed |= static_cast<u32>(code & 255) << 8 * i;
  }
  u8* to = out + (block * rows + row) * kBlockBytes;
  store<u32>(to + 16 + lane * 4, packed);
  if (lane % 8 == 0) {
    store<float>(to + lane / 2, bad ? bits_to_float(0x7fffffffu) : empty ? 0.0f : __fdiv_rn(1.0f, inverse));
    if (bad && pair % divisor == 0) atomicAdd(lost, 1);
  }
}

#ifdef WEIGHTS

constexpr int kScales = Blocks<WEIGHTS>::scales;
constexpr int kPairs = COLUMNS / 32;   // a warp has 16 of every 32 columns

static_assert(COLUMNS % 32 == 0 && (STAGED == 1 || STAGED == 2), "whole pieces of a tile");

// Byte offsets of the arrays in shared memory.
struct Layout {
  static constexpr int weights = 0;
  static constexpr int scales = weights + kRows * kWeightRow;
  static constexpr int codes = scales + kParts * kScales * kScaleRow * 4;
  static constexpr int grid = codes + STAGED * COLUMNS * kBlockBytes;
  static constexpr int end = grid + Blocks<WEIGHTS>::grid_words * 4;
};
static_assert(Layout::end == SHARED_BYTES, "expert_mmq.py and this file disagree on shared memory");

// Codes of one 128-block of the tile's columns; zeros behind the last column, up to 16 of them.
DEVICE void bring_codes(Shared<u8> to, const u8* from, int columns) {
  const int pieces = columns * (kBlockBytes / 16), padded = (columns + 15) / 16 * 16 * (kBlockBytes / 16);
  for (int i = static_cast<int>(threadIdx.x); i < padded; i += kThreads) {
#if TIER >= 80
    cp_async<16>(to, i * 16, i < pieces ? from + i * 16 : from, i < pieces);
#else
    to.st<uint4>(i * 16, i < pieces ? load<uint4>(from + i * 16) : uint4{0, 0, 0, 0});
#endif
  }
}

// out[r, i] = row i of the expert's matrix times row r of the codes. A block makes 128 weight rows of one tile;
// tiles: expert, first row and number of rows, of each. blobs: address of each expert's bytes; offset: of the matrix
// in them. target: where row r of the result goes, null for r. lost: counts results that are not finite, or null.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    expert_mmq(const u64* __restrict__ blobs, const u32* __restrict__ table, const u8* __restrict__ codes,
               const i32* __restrict__ tiles, const i32* __restrict__ target, float* __restrict__ out,
               i32* __restrict__ lost, i64 offset, i32 weight_rows, i32 width, i32 row_bytes, i32 rows) {
  const Shared<u8> weights = shared_array<u8>(Layout::weights, kRows * kWeightRow);
  const Shared<float> scales = shared_array<float>(Layout::scales, kParts * kScales * kScaleRow);
  const Shared<u8> activations = shared_array<u8>(Layout::codes, STAGED * COLUMNS * kBlockBytes);
  const Shared<u32> grid = shared_array<u32>(Layout::grid, Blocks<WEIGHTS>::grid_words);
  load_grid<WEIGHTS>(table, grid, static_cast<int>(threadIdx.x), kThreads);

  const int row_tiles = weight_rows / kRows;
  const i32* tile = tiles + static_cast<i64>(blockIdx.x / row_tiles) * 3;
  const int first_weight = static_cast<int>(blockIdx.x % row_tiles) * kRows;
  const i32 expert = load(tile), first_row = load(tile + 1), columns = load(tile + 2);
  const u8* matrix = reinterpret_cast<const u8*>(load(blobs + expert)) + offset + static_cast<i64>(first_weight) * row_bytes;

  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int my_rows = (warp & 3) * 32, my_columns = (warp >> 2) * 16;
  const int a_from = (my_rows + (lane & 15)) * kWeightRow + (lane >> 4) * 16;
  const int b_from = (my_columns + (lane & 7) + (lane >> 4) * 8) * kBlockBytes + 16 + (lane >> 3 & 1) * 16;

  float acc[kPairs][2][2][4];
#pragma unroll
  for (int p = 0; p < kPairs; ++p)
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[p][m][n][i] = 0.0f;

  const int groups = width / 32;
  for (int first = 0; first < groups; first += kParts) {
    const int count = groups - first < kParts ? groups - first : kParts;
    for (int piece = 0; piece < 2 / STAGED; ++piece) {   // as many groups as are in shared memory at once
      const int begin = piece * 4;
      if (begin >= count) break;
      __syncthreads();   // what was there has been read
#pragma unroll
      for (int block = 0; block < STAGED; ++block)
        if (begin + 4 * block < count)
          bring_codes(activations.part(block * COLUMNS * kBlockBytes, COLUMNS * kBlockBytes),
                      codes + (static_cast<i64>((first + begin) / 4 + block) * rows + first_row) * kBlockBytes, columns);
      if (begin == 0) bring_weights<WEIGHTS, kThreads>(weights, scales, grid, matrix, row_bytes, first, count);
#if TIER >= 80
      cp_async_commit();
      cp_async_wait<0>();
#endif
      __syncthreads();

      const int end = count - begin < 4 * STAGED ? count - begin : 4 * STAGED;
      for (int j = 0; j < end; ++j) {
        const int part = begin + j;
        u32 a[2][4];
        float a_scale[kScales][2][2];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          ldmatrix_x4<false>(a[m], weights, a_from + m * 16 * kWeightRow + part * 32);
#pragma unroll
          for (int s = 0; s < kScales; ++s)
#pragma unroll
            for (int half = 0; half < 2; ++half)
              a_scale[s][m][half] = scales.ld((part * kScales + s) * kScaleRow + my_rows + m * 16 + half * 8 + g);
        }
        const int block = j / 4 * (COLUMNS * kBlockBytes), inside = j % 4;
#pragma unroll
        for (int p = 0; p < kPairs; ++p)
          if (p * 32 + my_columns < columns) {
            u32 r[4];
            ldmatrix_x4<false>(r, activations, block + p * 32 * kBlockBytes + b_from + inside * 32);
            const u32 b[2][2] = {{r[0], r[1]}, {r[2], r[3]}};
            float b_scale[2][2];
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
              for (int c = 0; c < 2; ++c)
                b_scale[n][c] = activations.ld<float>(block + (p * 32 + my_columns + n * 8 + 2 * t + c) * kBlockBytes + inside * 4);
            add_group<kScales>(acc[p], a, b, a_scale, b_scale);
          }
      }
    }
  }

  int bad = 0;
#pragma unroll
  for (int p = 0; p < kPairs; ++p)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = p * 32 + my_columns + n * 8 + 2 * t + c;
        if (column >= columns) continue;
        const i64 row = target == nullptr ? first_row + column : load(target + first_row + column);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float v = acc[p][m][n][2 * half + c];
            bad += !finite(v);
            store(out + row * weight_rows + first_weight + my_rows + m * 16 + half * 8 + g, v);
          }
      }
  if (lost != nullptr && bad) atomicAdd(lost, bad);
}

#endif
