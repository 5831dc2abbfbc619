// Dense products of block weights and int8 activations without tensor cores: for few rows of activations, and for CPUs.
//
// linear_dp4a        up to 32 rows of activations a block
// linear_dp4a_few    up to 4
//
// The formulas, and the order of every sum, stand in linear_dp4a.py. A block makes OUTPUTS outputs of its rows, a chunk of
// K at a time. First a thread takes a group of 32 of one output after another: it decodes the weights once and leaves the
// group's term v of every row in shared memory; the activations' scales d go there too. Then a thread adds the terms of
// one output and four rows, in order.
//
// Blocks are small, of one warp or two, because a thread costs a CPU more than a group does, and a card has room for many
// blocks. Four rows are a quad, 16 bytes of shared memory. The quads of a group are turned by the number of the group, so
// that threads of neighbouring groups meet different banks.
//
// -D: WEIGHTS (include/linear_formats.cuh), OUTPUTS (of a block); of the two entries MANY_THREADS, MANY_ROWS, MANY_GROUPS,
// FEW_THREADS, FEW_ROWS and FEW_GROUPS (threads and rows of a block, groups of a chunk).

#include "include/linear_dots.cuh"
#include "include/linear_formats.cuh"

constexpr int kScales = Blocks<WEIGHTS>::scales, kGridBytes = Blocks<WEIGHTS>::grid_words * 4;

// Groups of few rows whose words a thread reads before it decodes the first: a block of one warp hides no wait otherwise.
constexpr int kFewAhead = Blocks<WEIGHTS>::halves > 12 || WEIGHTS == TYPE_Q5_K ? 2 : 4;

struct Product {
  const u8* blocks;
  const u32* table;
  const u8* units;
  float* out;
  i32 outputs, width, row_bytes, rows, first;
};

// v of one group of 32 for up to four rows, `here` of them: dot products by `by`. row: the first one's units.
DEVICE void terms_of(const Multiplier& by, const float (&scale)[kScales], float offset, const u8* row, i64 stride, int here,
                     int group, float (&v)[4]) {
  i32 dot[kScales][4];
  dots_of_four<kScales>(by, row + codes_place(group), stride, here, dot);
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = __fmul_rn(scale[0], __int2float_rn(dot[0][i]));
  if constexpr (kScales == 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = __fmaf_rn(scale[1], __int2float_rn(dot[kScales - 1][i]), v[i]);
  }
  if constexpr (kHasOffset<WEIGHTS>) {
    i32 sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < here) sum[i] = load<i32>(row + i * stride + scale_place(group) + kUnitSums);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = __fmaf_rn(-offset, __int2float_rn(sum[i]), v[i]);
  }
}

template <int THREADS, int ROWS, int GROUPS, int AHEAD>
DEVICE void product(const Product& p) {
  constexpr int kQuads = ROWS / 4;
  static_assert(OUTPUTS * kQuads <= THREADS, "a thread adds for one output and one quad");
  const Shared<u32> grid = shared_array<u32>(0, Blocks<WEIGHTS>::grid_words);
  const Shared<float> terms = shared_array<float>(kGridBytes, OUTPUTS * GROUPS * ROWS);
  const Shared<float> scales = shared_array<float>(kGridBytes + OUTPUTS * GROUPS * ROWS * 4, GROUPS * ROWS);
  const int thread = static_cast<int>(threadIdx.x);
  load_grid<WEIGHTS>(p.table, grid, thread, THREADS);
  if constexpr (kGridBytes > 0) __syncthreads();

  const i64 first_output = static_cast<i64>(blockIdx.x) * OUTPUTS, first_row = static_cast<i64>(blockIdx.y) * ROWS;
  const int outputs = p.outputs - first_output < OUTPUTS ? static_cast<int>(p.outputs - first_output) : OUTPUTS;
  const int rows = p.rows - first_row < ROWS ? static_cast<int>(p.rows - first_row) : ROWS;
  const int quads = (rows + 3) / 4, groups = p.width / 32;
  const i64 stride = unit_row_bytes(p.width);
  const u8* units = p.units + (p.first + first_row) * stride;
  const u8* weights = p.blocks + first_output * p.row_bytes;

  const int add_output = thread / kQuads, add_quad = thread % kQuads;
  const bool adds = add_output < outputs && add_quad < quads;
  float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int begin = 0; begin < groups; begin += GROUPS) {
    const int count = groups - begin < GROUPS ? groups - begin : GROUPS;
    if (begin > 0) __syncthreads();   // what was there has been read
    const int total = outputs * count;
    for (int task = thread; task < total; task += THREADS * AHEAD) {
      Group<WEIGHTS> fetched[AHEAD];
#pragma unroll
      for (int i = 0; i < AHEAD; ++i) {
        const int mine = task + i * THREADS, output = mine / count;
        if (mine < total)
          fetched[i] = fetch_group<WEIGHTS>(weights + static_cast<i64>(output) * p.row_bytes, begin + mine - output * count);
      }
#pragma unroll
      for (int i = 0; i < AHEAD; ++i) {
        const int mine = task + i * THREADS, output = mine / count, g = mine - output * count, turn = g & (kQuads - 1);
        if (mine >= total) break;
        u32 codes[8];
        float scale[kScales], offset;
        decode_group<WEIGHTS>(fetched[i], begin + g, grid, codes, scale, offset);
        const Multiplier by = multiplier(codes);
        for (int quad = 0; quad < quads; ++quad) {
          float v[4];
          terms_of(by, scale, offset, units + quad * 4 * stride, stride, rows - quad * 4, begin + g, v);
          terms.st<float4>(((output * GROUPS + g) * kQuads + (quad ^ turn)) * 4, float4{v[0], v[1], v[2], v[3]});
        }
      }
    }
    for (int task = thread; task < quads * count; task += THREADS) {
      const int quad = task / count, g = task - quad * count;
      const u8* row = units + quad * 4 * stride + scale_place(begin + g);
      float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (quad * 4 + i < rows) d[i] = load<float>(row + i * stride);
      scales.st<float4>((g * kQuads + (quad ^ g & (kQuads - 1))) * 4, float4{d[0], d[1], d[2], d[3]});
    }
    __syncthreads();
    if (adds)
      for (int g = 0; g < count; ++g) {
        const int quad = add_quad ^ (g & (kQuads - 1));
        const float4 v = terms.ld<float4>(((add_output * GROUPS + g) * kQuads + quad) * 4);
        const float4 d = scales.ld<float4>((g * kQuads + quad) * 4);
        acc[0] = __fmaf_rn(v.x, d.x, acc[0]);
        acc[1] = __fmaf_rn(v.y, d.y, acc[1]);
        acc[2] = __fmaf_rn(v.z, d.z, acc[2]);
        acc[3] = __fmaf_rn(v.w, d.w, acc[3]);
      }
  }
  if (!adds) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const i64 row = first_row + add_quad * 4 + i;
    if (row < p.rows) store<float>(p.out + row * p.outputs + first_output + add_output, acc[i]);
  }
}

// out[i, r] = row r of the weights times row first + i of the units. blocks: [outputs, row_bytes]; table: the words of
// the codebook, or null; units: [first + rows or more, width]; out: [rows, outputs].
extern "C" __global__ void __launch_bounds__(MANY_THREADS)
    linear_dp4a(const u8* __restrict__ blocks, const u32* __restrict__ table, const u8* __restrict__ units, float* __restrict__ out,
                i32 outputs, i32 width, i32 row_bytes, i32 rows, i32 first) {
  product<MANY_THREADS, MANY_ROWS, MANY_GROUPS, 1>({blocks, table, units, out, outputs, width, row_bytes, rows, first});
}

extern "C" __global__ void __launch_bounds__(FEW_THREADS)
    linear_dp4a_few(const u8* __restrict__ blocks, const u32* __restrict__ table, const u8* __restrict__ units, float* __restrict__ out,
                    i32 outputs, i32 width, i32 row_bytes, i32 rows, i32 first) {
  product<FEW_THREADS, FEW_ROWS, FEW_GROUPS, kFewAhead>({blocks, table, units, out, outputs, width, row_bytes, rows, first});
}
