// The FP32 attention kernel that prompt attention replaces: one query at a time, no tensor cores.
//
// decode_attention_chunk: a block of 8 warps takes 64 selected cells of one query and KV head and
// leaves, for each of its GROUP heads, the unnormalised sum, the maximum and the weight sum.
// decode_attention_merge: puts the chunks of a query together.
//
// -D: K_FORMAT, V_FORMAT (include/kv_format.cuh), GROUP (4, 8, 12).

#include "include/exp2.cuh"
#include "include/kv_format.cuh"

constexpr int kDim = 256, kThreads = 256, kWarps = 8, kChunk = 64;
constexpr int kEach = kDim / 32;   // dims of a lane in a score
constexpr int kAhead = 16;         // cells whose values are fetched before the first is used
constexpr u32 kMinusInfinity = 0xff800000u;
// V scales of a row: none, one for 64 dims, one for 32.
constexpr int kVScales = V_FORMAT == FORMAT_FP16 ? 0 : kDim / (V_FORMAT == FORMAT_INT8 ? 64 : 32);

struct Layout {
  static constexpr int q = 0;
  static constexpr int weight = q + GROUP * kDim * 4;
  static constexpr int row = weight + GROUP * kChunk * 4;
  static constexpr int v_scale = row + kChunk * 8;
  static constexpr int end = v_scale + kChunk * kVScales * 4;
};
static_assert(Layout::end == SHARED_BYTES, "decode_attention.py and this file disagree on shared memory");

// Dims 8 lane .. 8 lane + 7 of a row of K: fetched as bytes, so that the next row can be on its way,
// and turned into FP32 when its turn comes.
struct KeyBytes {
  uint4 bytes;
  u16 scale;

  MEMBER void fetch(const u8* pool, const u16* scales, i64 row, int lane) {
    const u8* at = pool + row * Format<K_FORMAT>::row_bytes;
    if (K_FORMAT == FORMAT_FP16) {
      bytes = load<uint4>(at + lane * 16);
    } else if (K_FORMAT == FORMAT_INT8) {
      const uint2 w = load<uint2>(at + lane * 8);
      bytes.x = w.x, bytes.y = w.y;
      scale = load(scales + row * 4 + lane / 8);
    } else {   // elements 8 (lane % 2) and on, in the low nibbles or, from 16 on, the high ones
      const u8* block = at + lane / 4 * Format<FORMAT_Q4_0>::block_bytes;
      const u8* codes = block + 2 + lane % 2 * 8;
      bytes.x = load<u16>(codes) | static_cast<u32>(load<u16>(codes + 2)) << 16;
      bytes.y = load<u16>(codes + 4) | static_cast<u32>(load<u16>(codes + 6)) << 16;
      scale = load<u16>(block);
    }
  }
  MEMBER void values(float (&x)[kEach], int lane) const {
    if (K_FORMAT == FORMAT_FP16) {
      const u32 each[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
      for (int i = 0; i < kEach; ++i) x[i] = half_value(static_cast<u16>(each[i / 2] >> 16 * (i % 2)));
    } else {
      const float factor = half_value(scale);
      const int shift = lane % 4 / 2 * 4;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const u32 code = (i < 4 ? bytes.x : bytes.y) >> 8 * (i % 4);
        const int value = K_FORMAT == FORMAT_INT8 ? static_cast<i8>(code) : static_cast<int>(code >> shift & 15) - 8;
        x[i] = __fmul_rn(__int2float_rn(value), factor);
      }
    }
  }
};

// Scale number `group` of a row of V.
DEVICE float value_scale(const u8* pool, const u16* scales, i64 row, int group) {
  if (V_FORMAT == FORMAT_INT8) return half_value(load(scales + row * 4 + group));
  return half_value(load<u16>(pool + row * Format<V_FORMAT>::row_bytes + group * Format<FORMAT_Q4_0>::block_bytes));
}

// Dim `dim` of a row of V as it is kept: a value, or a code that its scale multiplies.
DEVICE float value_code(const u8* pool, i64 row, int dim) {
  const u8* at = pool + row * Format<V_FORMAT>::row_bytes;
  if (V_FORMAT == FORMAT_FP16) return half_value(load<u16>(at + dim * 2));
  if (V_FORMAT == FORMAT_INT8) return __int2float_rn(static_cast<i8>(load(at + dim)));
  const u32 two = load(at + dim / 32 * Format<FORMAT_Q4_0>::block_bytes + 2 + dim % 16);
  return __int2float_rn(static_cast<int>(two >> (dim % 32 / 16 * 4) & 15) - 8);
}

// Partial results of `queries` queries: sums [query][kv head][chunk][head][dim], then maxima and
// weight sums [query][kv head][chunk][head].
DEVICE i64 slot_of(i64 query, int kv_heads, int kv_head, int chunks, int chunk) {
  return (query * kv_heads + kv_head) * chunks + chunk;
}

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    decode_attention_chunk(const float* __restrict__ q, const u8* __restrict__ k_pool, const u16* __restrict__ k_scales,
                           const u8* __restrict__ v_pool, const u16* __restrict__ v_scales,
                           const i32* __restrict__ table, const i32* __restrict__ all_ids,
                           const i32* __restrict__ steps, float* __restrict__ sums, float* __restrict__ maxima,
                           float* __restrict__ weights, i32 cap, i32 page_size, i32 first_query) {
  const Shared<float> sq = shared_array<float>(Layout::q, GROUP * kDim);
  const Shared<float> weight = shared_array<float>(Layout::weight, GROUP * kChunk);
  const Shared<i64> row = shared_array<i64>(Layout::row, kChunk);
  const Shared<float> v_scale = shared_array<float>(Layout::v_scale, kChunk * kVScales);
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const int chunk = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int kv_heads = static_cast<int>(gridDim.y), chunks = static_cast<int>(gridDim.x);
  const i64 query = first_query + static_cast<i64>(blockIdx.z), slot = slot_of(blockIdx.z, kv_heads, kv_head, chunks, chunk);
  const int n = load(steps + query * 4 + 3);
  if (chunk * kChunk >= n) {   // the same for the whole block
    if (thread < GROUP) {
      store(maxima + slot * GROUP + thread, bits_to_float(kMinusInfinity));
      store(weights + slot * GROUP + thread, 0.0f);
    }
    return;
  }
  if (thread < kChunk) {
    const int i = chunk * kChunk + thread;
    i64 found = -1;
    if (i < n) {
      const u32 cell = static_cast<u32>(load(all_ids + query * cap + i)), page = cell / static_cast<u32>(page_size);
      const i32 physical = load(table + page);
      if (physical >= 0) found = (static_cast<i64>(physical) * kv_heads + kv_head) * page_size + (cell - page * page_size);
    }
    row.st(thread, found);
  }
  for (int i = thread; i < GROUP * kDim; i += kThreads) sq.st(i, load(q + (query * kv_heads + kv_head) * GROUP * kDim + i));
  __syncthreads();

  for (int i = thread; i < kChunk * kVScales; i += kThreads) {
    const i64 from = row.ld(i / (kVScales + !kVScales));
    v_scale.st(i, from < 0 ? 0.0f : value_scale(v_pool, v_scales, from, i % (kVScales + !kVScales)));
  }
  float mine[kEach][GROUP];   // the lane's dims of every head
#pragma unroll
  for (int h = 0; h < GROUP; ++h)
#pragma unroll
    for (int i = 0; i < kEach; i += 4) {
      const float4 x = sq.ld<float4>(h * kDim + lane * kEach + i);
      mine[i][h] = x.x, mine[i + 1][h] = x.y, mine[i + 2][h] = x.z, mine[i + 3][h] = x.w;
    }
  const float scale = bits_to_float(0x3db8aa3bu);   // log2(e) / sqrt(256)
  KeyBytes next{};
  i64 here = row.ld(warp);
  if (here >= 0) next.fetch(k_pool, k_scales, here, lane);
  for (int cell = warp; cell < kChunk; cell += kWarps) {
    const KeyBytes key = next;
    const i64 now = here;
    here = cell + kWarps < kChunk ? row.ld(cell + kWarps) : -1;
    if (here >= 0) next.fetch(k_pool, k_scales, here, lane);
    if (now < 0) {   // the same for the whole warp
      if (lane < GROUP) weight.st(cell * GROUP + lane, bits_to_float(kMinusInfinity));
      continue;
    }
    float x[kEach], dot[GROUP];
    key.values(x, lane);
#pragma unroll
    for (int h = 0; h < GROUP; ++h) dot[h] = __fmul_rn(x[0], mine[0][h]);
#pragma unroll
    for (int i = 1; i < kEach; ++i) multiply_add(dot, x[i], mine[i]);
    warp_add<32>(dot);
    if (lane == 0)
#pragma unroll
      for (int h = 0; h < GROUP; h += 4)
        weight.st<float4>(cell * GROUP + h, float4{__fmul_rn(dot[h], scale), __fmul_rn(dot[h + 1], scale),
                                                   __fmul_rn(dot[h + 2], scale), __fmul_rn(dot[h + 3], scale)});
  }
  __syncthreads();

  for (int h = warp; h < GROUP; h += kWarps) {
    const float a = weight.ld(lane * GROUP + h), b = weight.ld((lane + 32) * GROUP + h);
    const bool no_a = row.ld(lane) < 0, no_b = row.ld(lane + 32) < 0;
    float high[1] = {a > b ? a : b};
    warp_max<32>(high);
    const float wa = no_a ? 0.0f : exp2_fma(__fsub_rn(a, high[0])), wb = no_b ? 0.0f : exp2_fma(__fsub_rn(b, high[0]));
    weight.st(lane * GROUP + h, wa);
    weight.st((lane + 32) * GROUP + h, wb);
    float all[1] = {__fadd_rn(wa, wb)};
    warp_add<32>(all);
    if (lane == 0) {
      store(maxima + slot * GROUP + h, high[0]);
      store(weights + slot * GROUP + h, all[0]);
    }
  }
  __syncthreads();

  float acc[GROUP];
#pragma unroll
  for (int h = 0; h < GROUP; ++h) acc[h] = 0.0f;
  for (int cell = 0; cell < kChunk; cell += kAhead) {
    float value[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const i64 here = row.ld(cell + i);
      value[i] = here < 0 ? 0.0f : value_code(v_pool, here, thread);
      if (V_FORMAT != FORMAT_FP16) value[i] = __fmul_rn(value[i], v_scale.ld((cell + i) * kVScales + thread * kVScales / kDim));
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      float w[GROUP];
#pragma unroll
      for (int h = 0; h < GROUP; h += 4) {
        const float4 four = weight.ld<float4>((cell + i) * GROUP + h);
        w[h] = four.x, w[h + 1] = four.y, w[h + 2] = four.z, w[h + 3] = four.w;
      }
      multiply_add(acc, value[i], w);
    }
  }
#pragma unroll
  for (int h = 0; h < GROUP; ++h) store(sums + (slot * GROUP + h) * kDim + thread, acc[h]);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention_merge(const float* __restrict__ sums, const float* __restrict__ maxima,
                           const float* __restrict__ weights, float* __restrict__ out, i32 kv_heads, i32 chunks,
                           i32 first_query) {
  const int thread = static_cast<int>(threadIdx.x), head = static_cast<int>(blockIdx.x);
  const i64 slot = slot_of(blockIdx.y, kv_heads, head / GROUP, chunks, 0);
  const int h = head % GROUP;
  float high = bits_to_float(kMinusInfinity);
  for (int c = 0; c < chunks; ++c) {
    const float m = load(maxima + (slot + c) * GROUP + h);
    high = m > high ? m : high;
  }
  float total = 0.0f, acc = 0.0f;
  for (int c = 0; c < chunks; ++c) {
    const float m = load(maxima + (slot + c) * GROUP + h);
    if (m == bits_to_float(kMinusInfinity)) continue;   // nothing was selected here, and sums are unwritten
    const float w = exp2_fma(__fsub_rn(m, high));
    total = __fmaf_rn(load(weights + (slot + c) * GROUP + h), w, total);
    acc = __fmaf_rn(load(sums + ((slot + c) * GROUP + h) * kDim + thread), w, acc);
  }
  store(out + ((first_query + static_cast<i64>(blockIdx.y)) * kv_heads * GROUP + head) * kDim + thread,
        total == 0.0f ? 0.0f : __fdiv_rn(acc, total));
}
