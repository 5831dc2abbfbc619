// Decodes rows of a block format, as every kernel that reads experts does it. A thread takes 32 values.
// One kernel serves all formats, so that one build proves them. They stand in include/expert_formats.cuh, and what
// the buffers hold in block_decode.py.

#include "include/expert_formats.cuh"

DEVICE int signed_byte(u32 word, int i) { return static_cast<int>(word << (24 - 8 * i)) >> 24; }

// A NaN of a scale as the arithmetic would give it, whatever the conversion kept of its payload.
DEVICE float plain(float x) { return x == x ? x : bits_to_float(0x7fffffffu); }

struct Out {
  float* values;   // may be null
  u32* codes;      // may be null
  float* scales;
};

template <int TYPE>
DEVICE void decode_all(const u8* rows, const u32* table, Out out, i64 stride, i32 count, i32 parts) {
  const Shared<u32> grid = shared_array<u32>(0, Blocks<TYPE>::grid_words);
  load_grid<TYPE>(table, grid, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  __syncthreads();
  const i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= static_cast<i64>(count) * parts) return;
  const u8* row = rows + index / parts * stride;
  const int b = static_cast<int>(index % parts);

  u32 codes[8];
  float scale[Blocks<TYPE>::scales], offset = 0.0f;
  if constexpr (TYPE == TYPE_Q5_K) decode_q5_k(row, b, codes, scale[0], offset);
  else decode_32<TYPE>(row, b, grid, codes, scale);

#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (out.codes != nullptr) store<u32>(out.codes + index * 8 + i, codes[i]);
    if (out.values == nullptr) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float code = __int2float_rn(signed_byte(codes[i], j));
      const float value = __fmul_rn(scale[i * Blocks<TYPE>::scales / 8], code);
      store<float>(out.values + index * 32 + 4 * i + j, TYPE == TYPE_Q5_K ? __fsub_rn(value, offset) : value);
    }
  }
#pragma unroll
  for (int i = 0; i < Blocks<TYPE>::scales; ++i)
    store<float>(out.scales + index * Blocks<TYPE>::scales + i, plain(scale[i]));
}

// data: from byte `first` on, `count` rows of `parts` times 32 values, `stride` bytes apart, in the format `type`.
extern "C" __global__ void __launch_bounds__(THREADS)
    block_decode(const u8* __restrict__ data, const u32* __restrict__ table, float* __restrict__ values,
                 u32* __restrict__ codes, float* __restrict__ scales, i64 first, i64 stride, i32 count, i32 parts,
                 i32 type) {
  const u8* rows = data + first;
  const Out out = {values, codes, scales};
  switch (type) {
    case TYPE_Q4_0: return decode_all<TYPE_Q4_0>(rows, table, out, stride, count, parts);
    case TYPE_Q8_0: return decode_all<TYPE_Q8_0>(rows, table, out, stride, count, parts);
    case TYPE_Q5_K: return decode_all<TYPE_Q5_K>(rows, table, out, stride, count, parts);
    case TYPE_IQ2_XXS: return decode_all<TYPE_IQ2_XXS>(rows, table, out, stride, count, parts);
    case TYPE_IQ2_XS: return decode_all<TYPE_IQ2_XS>(rows, table, out, stride, count, parts);
    case TYPE_IQ3_XXS: return decode_all<TYPE_IQ3_XXS>(rows, table, out, stride, count, parts);
    case TYPE_IQ4_NL: return decode_all<TYPE_IQ4_NL>(rows, table, out, stride, count, parts);
    case TYPE_IQ3_S: return decode_all<TYPE_IQ3_S>(rows, table, out, stride, count, parts);
    case TYPE_IQ2_S: return decode_all<TYPE_IQ2_S>(rows, table, out, stride, count, parts);
    case TYPE_IQ4_XS: return decode_all<TYPE_IQ4_XS>(rows, table, out, stride, count, parts);
    case TYPE_Q2_0: return decode_all<TYPE_Q2_0>(rows, table, out, stride, count, parts);
    default: return;
  }
}
