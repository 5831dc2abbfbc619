// Experts at decode width: few tokens, one warp a weight row, integer scales with C's truncating division.
//
// expert_decode_quantise   FP32 rows to codes, with a binary16 scale for 32 values
// expert_decode            the product: a warp makes one weight row times up to PAIRS rows of one expert
// swiglu_rows              gate and up to h (include/older_experts.cuh)
//
// The formulas, and the order of every sum, stand in expert_decode.py.
//
// -D: TIER (60); of the product: WEIGHTS (include/expert_formats.cuh), PAIRS, WARPS (of a block), ROWS (of a warp),
// SHARED_BYTES.

#include "include/expert_formats.cuh"
#include "include/int8.cuh"
#include "include/older_experts.cuh"

// One warp quantises 128 values of one row: codes int8 [rows, width], scales binary16 [rows, width / 32].
// lost: counts groups of 32 that hold a value that is not finite, or whose scale is too large for binary16.
extern "C" __global__ void __launch_bounds__(kPassThreads)
    expert_decode_quantise(const float* __restrict__ x, u8* __restrict__ codes, u16* __restrict__ scales,
                           i32* __restrict__ lost, i32 rows, i32 width) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 pieces = (width + 127) / 128, item = static_cast<i64>(blockIdx.x) * (kPassThreads / 32) + (threadIdx.x >> 5);
  if (item >= rows * pieces) return;
  const i64 row = item / pieces, at = item % pieces * 128 + lane * 4;
  float4 v = {0.0f, 0.0f, 0.0f, 0.0f};   // past the end of the row
  if (at < width) v = load<float4>(x + row * width + at);
  const float value[4] = {v.x, v.y, v.z, v.w};
  const u32 largest = largest_of_32(value);
  const bool bad = largest >= 0x7f800000u;
  const float d = __fdiv_rn(bits_to_float(largest), 127.0f);
  u32 packed = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    i32 code = bad || d == 0.0f ? 0 : round_away(__fdiv_rn(value[i], d));
    code = code > 127 ? 127 : code < -127 ? -127 : code;   // a subnormal d may be too small
    packed |= static_cast<u32>(code & 255) << 8 * i;
  }
  if (at >= width) return;
  store<u32>(codes + row * width + at, packed);
  if (lane % 8 == 0) {
    const u16 bits = bad ? static_cast<u16>(0x7fff) : half_bits(d);
    store<u16>(scales + row * (width / 32) + at / 32, bits);
    if (bits >= 0x7c00u) atomicAdd(lost, 1);
  }
}

#ifdef WEIGHTS

constexpr int kThreads = WARPS * 32;
static_assert(Blocks<WEIGHTS>::grid_words * 4 == SHARED_BYTES, "expert_decode.py and this file disagree on shared memory");

// The dot products of a group of 32 times its scale, the block's own d apart: one for each half under a scale of 16.
template <int TYPE>
DEVICE i32 scaled_dot(const Fetched<TYPE>& f, int b, const i32 (&dot)[2]) {
  const u32 part = static_cast<u32>(b) % 8;
  const i32 whole = dot[0] + dot[1];
  if constexpr (TYPE == TYPE_IQ3_XXS) {
    const i32 level = joined(f.h[5], f.h[6]) >> 28;
    return (level * whole + whole / 2) / 2;
  } else if constexpr (TYPE == TYPE_IQ2_XXS) {
    const i32 level = joined(f.h[3], f.h[4]) >> 28;
    return whole * (2 * level + 1) / 8;
  } else if constexpr (TYPE == TYPE_IQ2_XS || TYPE == TYPE_IQ2_S) {
    const u32 levels = byte_of(f.h[TYPE == TYPE_IQ2_XS ? 5 : 6], part % 2);
    const i32 low = levels & 15u, high = levels >> 4;
    return (dot[0] * low + dot[1] * high + whole / 2) / 4;
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    const i32 level = f.h[8] >> 4 * (part % 4) & 15;
    return whole * (1 + 2 * level);
  } else if constexpr (TYPE == TYPE_IQ4_XS) {
    const i32 low = f.h[10] >> 4 * (part % 4) & 15, high = f.h[9] >> 2 * part & 3;
    return whole * ((low | high << 4) - 32);
  } else {
    static_assert(TYPE == TYPE_IQ4_NL || TYPE == TYPE_Q2_0, "no scale but the block's own");
    return whole;
  }
}

// out[pair, i] = row i of the expert's matrix times row pair / divisor of the codes. tiles: expert, first of `pairs`
// and number of them, of each. blobs: address of each expert's bytes; offset: of the matrix in them.
// lost: counts results that are not finite, or null.
extern "C" __global__ void __launch_bounds__(kThreads)
    expert_decode(const u64* __restrict__ blobs, const u32* __restrict__ table, const u8* __restrict__ codes,
                  const u16* __restrict__ scales, const i32* __restrict__ tiles, const i32* __restrict__ pairs,
                  float* __restrict__ out, i32* __restrict__ lost, i64 offset, i32 weight_rows, i32 width, i32 row_bytes,
                  i32 divisor) {
  const Shared<u32> grid = shared_array<u32>(0, Blocks<WEIGHTS>::grid_words);
  load_grid<WEIGHTS>(table, grid, static_cast<int>(threadIdx.x), kThreads);
  __syncthreads();

  const int row_tiles = weight_rows / (WARPS * ROWS);
  const i32* tile = tiles + static_cast<i64>(blockIdx.x / row_tiles) * 3;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int first_weight = (static_cast<int>(blockIdx.x % row_tiles) * WARPS + (static_cast<int>(threadIdx.x) >> 5)) * ROWS;
  const i32 expert = load(tile), first = load(tile + 1), count = load(tile + 2);
  const u8* matrix = reinterpret_cast<const u8*>(load(blobs + expert)) + offset;
  const int groups = width / 32;

  i64 source[PAIRS];   // rows of the codes
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) source[p] = p < count ? load(pairs + first + p) / divisor : 0;

  for (int r = 0; r < ROWS; ++r) {
    const u8* row = matrix + static_cast<i64>(first_weight + r) * row_bytes;
    float acc[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) acc[p] = 0.0f;
    for (int b = lane; b < groups; b += 32) {
      const Fetched<WEIGHTS> f = fetch_32<WEIGHTS>(row, b);
      u32 q[8];
      float unused[Blocks<WEIGHTS>::scales];
      decode_fetched<WEIGHTS>(f, b, grid, q, unused);
      const float d = half_value(f.h[0]);
#pragma unroll
      for (int p = 0; p < PAIRS; ++p) {
        if (p >= count) break;
        const u8* from = codes + source[p] * width + b * 32;
        const uint4 low = load<uint4>(from), high = load<uint4>(from + 16);
        const u32 x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        i32 dot[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 8; ++i) dot[i / 4] = dp4a(q[i], x[i], dot[i / 4]);
        const float scale = __fmul_rn(d, half_value(load(scales + source[p] * groups + b)));
        acc[p] = __fmaf_rn(scale, __int2float_rn(scaled_dot<WEIGHTS>(f, b, dot)), acc[p]);
      }
    }
    warp_add<32>(acc);
    float mine = 0.0f;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) mine = lane == p ? acc[p] : mine;
    if (lane < count) {
      store(out + static_cast<i64>(load(pairs + first + lane)) * weight_rows + first_weight + r, mine);
      if (lost != nullptr && !finite(mine)) atomicAdd(lost, 1);
    }
  }
}

#endif
