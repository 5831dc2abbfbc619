// Packing K and V rows into a paged pool, and the rotation that Q4_0 rows go through first.
//
// A warp takes one row: one cell of one KV head, 256 FP32 values. Rows on pages that are not resident
// are left out. The formulas stand in kv_pack.py.

#include "include/kv_format.cuh"

constexpr int kDim = 256, kWarps = 4;

// Pool row that this warp fills, or -1. cell i of the batch is `first_cell + i`, or entry 0 of step i.
DEVICE i64 target_row(const i32* steps, const i32* table, i64 i, int kv_heads, int kv_head, int first_cell, int page_size) {
  const u32 cell = static_cast<u32>(steps == nullptr ? first_cell + static_cast<i32>(i) : load(steps + i * 4));
  const u32 page = cell / static_cast<u32>(page_size);
  const i32 physical = load(table + page);
  if (physical < 0) return -1;
  return (static_cast<i64>(physical) * kv_heads + kv_head) * page_size + (cell - page * page_size);
}

DEVICE bool finite(float x) { return (float_to_bits(x) & 0x7fffffffu) < 0x7f800000u; }

struct Row {   // the row this warp works on
  i64 index, target;
  int lane;
};
DEVICE bool find(Row& r, const i32* steps, const i32* table, i32 rows, i32 kv_heads, i32 first_cell, i32 page_size) {
  r.lane = static_cast<int>(threadIdx.x) & 31;
  r.index = static_cast<i64>(blockIdx.x) * kWarps + (threadIdx.x >> 5);
  if (r.index >= rows) return false;
  r.target = target_row(steps, table, r.index / kv_heads, kv_heads, static_cast<int>(r.index % kv_heads), first_cell, page_size);
  return r.target >= 0;
}

// `lost` counts values that a format cannot hold: not finite, or too large for a binary16 scale. The first
// are packed as +0 (FP16: stored as they are), so that they change no other value.
extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kv_pack_fp16(const float* __restrict__ x, const i32* __restrict__ steps, const i32* __restrict__ table,
                 u16* __restrict__ pool, i32* __restrict__ lost, i32 rows, i32 kv_heads, i32 first_cell, i32 page_size) {
  Row r;
  if (!find(r, steps, table, rows, kv_heads, first_cell, page_size)) return;
  int bad = 0;
#pragma unroll
  for (int i = 0; i < kDim / 64; ++i) {
    const float2 v = load<float2>(x + r.index * kDim + i * 64 + r.lane * 2);
    const u32 pair = half_pair(v.x, v.y);
    bad += ((pair & 0x7fffu) >= 0x7c00u) + ((pair >> 16 & 0x7fffu) >= 0x7c00u);
    store<u32>(pool + r.target * kDim + i * 64 + r.lane * 2, pair);
  }
  if (bad) atomicAdd(lost, bad);
}

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kv_pack_int8(const float* __restrict__ x, const i32* __restrict__ steps, const i32* __restrict__ table,
                 u8* __restrict__ pool, u16* __restrict__ scales, i32* __restrict__ lost, i32 rows, i32 kv_heads,
                 i32 first_cell, i32 page_size) {
  Row r;
  if (!find(r, steps, table, rows, kv_heads, first_cell, page_size)) return;
  float v[8];   // dims 8 lane .. 8 lane + 7; 8 lanes share a scale
  u32 largest[1] = {0};
  int bad = 0;
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 four = load<float4>(x + r.index * kDim + r.lane * 8 + i);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (!finite(v[i])) v[i] = 0.0f, ++bad;
    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);
  const u16 bits = half_bits(__fdiv_rn(bits_to_float(largest[0]), 127.0f));
  const float scale = half_value(bits);
  if (bits >= 0x7c00u) bad = 8;
  u32 packed[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int code = scale == 0.0f ? 0 : __float2int_rn(__fdiv_rn(v[i], scale));
    code = code > 127 ? 127 : code < -127 ? -127 : code;
    packed[i / 4] |= static_cast<u32>(code & 255) << 8 * (i % 4);
  }
  store<uint2>(pool + r.target * kDim + r.lane * 8, uint2{packed[0], packed[1]});
  if (r.lane % 8 == 0) store<u16>(scales + r.target * 4 + r.lane / 8, bits);
  if (bad) atomicAdd(lost, bad);
}

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kv_pack_q4_0(const float* __restrict__ x, const i32* __restrict__ steps, const i32* __restrict__ table,
                 u8* __restrict__ pool, i32* __restrict__ lost, i32 rows, i32 kv_heads, i32 first_cell, i32 page_size) {
  Row r;
  if (!find(r, steps, table, rows, kv_heads, first_cell, page_size)) return;
  // Four lanes share a block of 32; lane part p holds elements 4p..4p+3 and 16+4p..16+4p+3, which are
  // the low and high nibbles of bytes 4p..4p+3.
  const int block = r.lane / 4, p = r.lane % 4;
  float v[8];
  int bad = 0;
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 four = load<float4>(x + r.index * kDim + block * 32 + i * 4 + p * 4);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
  u32 largest[1] = {0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (!finite(v[i])) v[i] = 0.0f, ++bad;
    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<4>(largest);
  // The first element of that magnitude lends its sign: its index is kept as 32 - index, above the sign.
  u32 first[1] = {0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const u32 b = float_to_bits(v[i]), index = static_cast<u32>(i < 4 ? p * 4 + i : 16 + p * 4 + i - 4);
    const u32 key = (32 - index) << 1 | b >> 31;
    if ((b & 0x7fffffffu) == largest[0] && key > first[0]) first[0] = key;
  }
  warp_max<4>(first);
  const float extreme = bits_to_float(largest[0] | (first[0] & 1u) << 31);
  const float d = __fdiv_rn(extreme, -8.0f), inverse = d == 0.0f ? 0.0f : __fdiv_rn(1.0f, d);
  const u16 bits = half_bits(d);
  if ((bits & 0x7fffu) >= 0x7c00u) bad = 8;
  u32 bytes[4];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int code = __float2int_rz(__fadd_rn(__fmul_rn(v[i], inverse), 8.5f));   // 0 for the NaN of 0 times infinity
    code = code > 15 ? 15 : code < 0 ? 0 : code;
    bytes[i % 4] = i < 4 ? static_cast<u32>(code) : bytes[i % 4] | static_cast<u32>(code) << 4;
  }
  u8* to = pool + r.target * Format<FORMAT_Q4_0>::row_bytes + block * Format<FORMAT_Q4_0>::block_bytes;
  if (p == 0) store<u16>(to, bits);
  store<u16>(to + 2 + 4 * p, static_cast<u16>(bytes[0] | bytes[1] << 8));
  store<u16>(to + 4 + 4 * p, static_cast<u16>(bytes[2] | bytes[3] << 8));
  if (bad) atomicAdd(lost, bad);
}

// out = H x / 16 for rows of 256, H the Sylvester Hadamard matrix; in place is allowed.
extern "C" __global__ void __launch_bounds__(kWarps * 32)
    hadamard_256(const float* x, float* out, i32 rows) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + (threadIdx.x >> 5);
  if (row >= rows) return;
  float v[8];   // element i * 32 + lane
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = __fmul_rn(load(x + row * kDim + i * 32 + lane), 0.0625f);
#pragma unroll
  for (int h = 1; h < 32; h *= 2)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float other = __shfl_xor_sync(0xffffffffu, v[i], h);
      v[i] = lane & h ? __fsub_rn(other, v[i]) : __fadd_rn(v[i], other);
    }
#pragma unroll
  for (int h = 1; h < 8; h *= 2)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!(i & h)) {
        const float a = v[i], b = v[i + h];
        v[i] = __fadd_rn(a, b);
        v[i + h] = __fsub_rn(a, b);
      }
#pragma unroll
  for (int i = 0; i < 8; ++i) store(out + row * kDim + i * 32 + lane, v[i]);
}
