// Rows of a matrix of block weights, or of halves, times a factor: the embeddings of tokens.
//
// A thread makes 32 values of one row. The formulas stand in embedding.py.
//
// -D: WEIGHTS (include/linear_formats.cuh, or TYPE_F16), THREADS (of a block).

#include "include/linear_formats.cuh"

#define TYPE_F16 1   // as ggml numbers it

constexpr int kGroup = 32;   // values of a thread

// Values 32 b .. 32 b + 31 of the row at `row`. grid: the codebook, of a format that has one.
DEVICE void values_of(const u8* row, int b, Shared<u32> grid, float (&v)[kGroup]) {
#if WEIGHTS == TYPE_F16
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 eight = load<uint4>(row + static_cast<i64>(b) * kGroup * 2 + i * 16);
    const u32 pair[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) v[8 * i + j] = half_value(static_cast<u16>(pair[j / 2] >> 16 * (j % 2)));
  }
#else
  u32 codes[8];
  float scale[Blocks<WEIGHTS>::scales], offset;
  decode_group<WEIGHTS>(fetch_group<WEIGHTS>(row, b), b, grid, codes, scale, offset);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const i8 code = static_cast<i8>(codes[i / 4] >> 8 * (i % 4) & 255u);
    v[i] = __fmul_rn(scale[i * Blocks<WEIGHTS>::scales / kGroup], __int2float_rn(code));
    if constexpr (kHasOffset<WEIGHTS>) v[i] = __fsub_rn(v[i], offset);
  }
#endif
}

// blocks: [vocab, row_bytes]; table: the words of the codebook, or null; ids: [rows]; out: [rows, width].
extern "C" __global__ void __launch_bounds__(THREADS)
    embedding(const u8* __restrict__ blocks, const u32* __restrict__ table, const i32* __restrict__ ids, float* __restrict__ out,
              i32* __restrict__ lost, i32 rows, i32 width, i32 row_bytes, i32 vocab, float factor) {
#if WEIGHTS == TYPE_F16
  const Shared<u32> grid = shared_array<u32>(0, 0);
#else
  const Shared<u32> grid = shared_array<u32>(0, Blocks<WEIGHTS>::grid_words);
  load_grid<WEIGHTS>(table, grid, static_cast<int>(threadIdx.x), THREADS);
  if constexpr (Blocks<WEIGHTS>::grid_words > 0) __syncthreads();
#endif
  const i32 groups = width / kGroup;
  const i64 item = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x, row = item / groups;
  if (row >= rows) return;
  const int group = static_cast<int>(item % groups);
  const i32 id = load(ids + row);
  const bool known = id >= 0 && id < vocab;
  float v[kGroup];
  if (known) {
    values_of(blocks + static_cast<i64>(id) * row_bytes, group, grid, v);
  } else if (group == 0) {
    atomicAdd(lost, 1);
  }
  float* to = out + row * width + group * kGroup;
#pragma unroll
  for (int i = 0; i < kGroup; i += 4) {
    float4 four = {bits_to_float(0x7fffffffu), bits_to_float(0x7fffffffu), bits_to_float(0x7fffffffu), bits_to_float(0x7fffffffu)};
    if (known) four = {__fmul_rn(v[i], factor), __fmul_rn(v[i + 1], factor), __fmul_rn(v[i + 2], factor), __fmul_rn(v[i + 3], factor)};
    store<float4>(to + i, four);
  }
}
