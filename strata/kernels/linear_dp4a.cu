// Dense products of block weights and int8 activations without tensor cores: for few rows of activations, and for CPUs.
//
// linear_dp4a        up to 32 rows of activations a block
// linear_dp4a_few    up to 4
//
// The formulas, and the order of every sum, stand in linear_dp4a.py. A block makes 8 outputs of its rows, a chunk of K at
// a time. First a thread takes a group of 32 of one output: it decodes the weights once and leaves the group's term v of
// every row in shared memory, and warps take turns at leaving the activations' scales d there. Then a thread adds the
// terms of one output and four rows, in order.
//
// Four rows are a quad, 16 bytes of shared memory. The quads of a group are turned by the number of the group, so that
// threads of neighbouring groups meet different banks.
//
// -D: WEIGHTS (include/linear_formats.cuh), THREADS, OUTPUTS (of a block); of the two entries MANY_ROWS, MANY_GROUPS, FEW_ROWS and FEW_GROUPS (
// rows of a block, groups of a chunk).

#include "include/linear_dots.cuh"
#include "include/linear_formats.cuh"

constexpr int kScales = Blocks<WEIGHTS>::scales, kGridBytes = Blocks<WEIGHTS>::grid_words * 4;
static_assert(THREADS == OUTPUTS * 32, "a warp an output");

struct Product {
  const u8* blocks;
  const u32* table;
  const u8* units;
  float* out;
  i32 outputs, width, row_bytes, rows, first;
};

template <int ROWS, int GROUPS>
DEVICE void product(const Product& p) {
  constexpr int kQuads = ROWS / 4;
  const Shared<u32> grid = shared_array<u32>(0, Blocks<WEIGHTS>::grid_words);
  const Shared<float> terms = shared_array<float>(kGridBytes, OUTPUTS * GROUPS * ROWS);
  const Shared<float> scales = shared_array<float>(kGridBytes + OUTPUTS * GROUPS * ROWS * 4, GROUPS * ROWS);
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, own = thread >> 5;
  load_grid<WEIGHTS>(p.table, grid, thread, THREADS);
  if constexpr (kGridBytes > 0) __syncthreads();

  const i64 first_output = static_cast<i64>(blockIdx.x) * OUTPUTS, first_row = static_cast<i64>(blockIdx.y) * ROWS;
  const int outputs = p.outputs - first_output < OUTPUTS ? static_cast<int>(p.outputs - first_output) : OUTPUTS;
  const int rows = p.rows - first_row < ROWS ? static_cast<int>(p.rows - first_row) : ROWS;
  const int quads = (rows + 3) / 4, groups = p.width / 32;
  const i64 stride = unit_row_bytes(p.width);
  const u8* units = p.units + (p.first + first_row) * stride;
  const u8* weights = p.blocks + (first_output + own) * p.row_bytes;

  const int add_output = thread / kQuads, add_quad = thread % kQuads;
  const bool adds = add_output < outputs && add_quad < quads;
  float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int begin = 0; begin < groups; begin += GROUPS) {
    const int count = groups - begin < GROUPS ? groups - begin : GROUPS;
    if (begin > 0) __syncthreads();   // what was there has been read
    for (int g = lane; g < count; g += 32) {
      const int turn = g & (kQuads - 1);
      if (own < outputs) {
        u32 codes[8];
        float scale[kScales], offset;
        decode_group<WEIGHTS>(fetch_group<WEIGHTS>(weights, begin + g), begin + g, grid, codes, scale, offset);
        const Multiplier by = multiplier(codes);
        for (int quad = 0; quad < quads; ++quad) {
          const u8* row = units + quad * 4 * stride;
          const int here = rows - quad * 4;
          i32 dot[kScales][4];
          dots_of_four<kScales>(by, row + codes_place(begin + g), stride, here, dot);
          float v[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) v[i] = __fmul_rn(scale[0], __int2float_rn(dot[0][i]));
          if constexpr (kScales == 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = __fmaf_rn(scale[1], __int2float_rn(dot[kScales - 1][i]), v[i]);
          }
          if constexpr (kHasOffset<WEIGHTS>) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              if (i < here)
                v[i] = __fmaf_rn(-offset, __int2float_rn(load<i32>(row + i * stride + scale_place(begin + g) + kUnitSums)), v[i]);
          }
          terms.st<float4>(((own * GROUPS + g) * kQuads + (quad ^ turn)) * 4, float4{v[0], v[1], v[2], v[3]});
        }
      }
      for (int quad = own; quad < quads; quad += OUTPUTS) {
        const u8* row = units + quad * 4 * stride + scale_place(begin + g);
        const int here = rows - quad * 4;
        float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (i < here) d[i] = load<float>(row + i * stride);
        scales.st<float4>((g * kQuads + (quad ^ turn)) * 4, float4{d[0], d[1], d[2], d[3]});
      }
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
extern "C" __global__ void __launch_bounds__(THREADS)
    linear_dp4a(const u8* __restrict__ blocks, const u32* __restrict__ table, const u8* __restrict__ units, float* __restrict__ out,
                i32 outputs, i32 width, i32 row_bytes, i32 rows, i32 first) {
  product<MANY_ROWS, MANY_GROUPS>({blocks, table, units, out, outputs, width, row_bytes, rows, first});
}

extern "C" __global__ void __launch_bounds__(THREADS)
    linear_dp4a_few(const u8* __restrict__ blocks, const u32* __restrict__ table, const u8* __restrict__ units, float* __restrict__ out,
                    i32 outputs, i32 width, i32 row_bytes, i32 rows, i32 first) {
  product<FEW_ROWS, FEW_GROUPS>({blocks, table, units, out, outputs, width, row_bytes, rows, first});
}
