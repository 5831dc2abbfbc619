// The KV cell formats: sizes of a row (one cell of one KV head, 256 dims) and exact conversions.
// K_FORMAT and V_FORMAT are one of these numbers (strata/kernels/formats.py).
#pragma once

#include "ptx.cuh"

#define FORMAT_FP16 0
#define FORMAT_INT8 1
#define FORMAT_Q4_0 2

template <int FORMAT>
struct Format;

// 256 binary16 values, no scale.
template <>
struct Format<FORMAT_FP16> {
  static constexpr int row_bytes = 512;
  static constexpr int group = 0;          // dims that share a scale; 0: no scale
};
// 256 signed bytes; one binary16 scale per 64 dims, in an array of its own.
template <>
struct Format<FORMAT_INT8> {
  static constexpr int row_bytes = 256;
  static constexpr int group = 64;
};
// 8 blocks of 18 bytes: a binary16 scale, then 16 bytes; byte j holds element j in its low and
// element j + 16 in its high nibble; value = (nibble - 8) * scale.
template <>
struct Format<FORMAT_Q4_0> {
  static constexpr int row_bytes = 144;
  static constexpr int group = 32;
  static constexpr int block_bytes = 18;
};

// Bytes a row takes in shared memory: 16 more when the row is a multiple of 128, so that eight rows
// read at the same offset lie in different banks. 144 already is 4 words off a multiple of 32.
template <int FORMAT>
struct SharedRow {
  static constexpr int bytes = Format<FORMAT>::row_bytes + (FORMAT == FORMAT_Q4_0 ? 0 : 16);
};

// Signed bytes 0 and 1 (HIGH: 2 and 3) of w, each plus 128, as exact halves: 1024 + (c + 128) is
// built from its bits, then 1152 is taken off. `biased` is w ^ 0x80808080.
template <bool HIGH>
DEVICE u32 int8_halves(u32 biased) {
  const u32 raised = byte_select<HIGH ? 0x4342 : 0x4140>(biased, 0x64646464u);
  return half2_sub(raised, 0x64806480u);
}

// Two nibbles of w less 8, as exact halves: those at bits 0..3 and 16..19, or (HIGH) 4..7 and 20..23.
// 1024 + n is built from its bits and 1032 taken off; 1024 + 16 n is 16 (64 + n).
template <bool HIGH>
DEVICE u32 nibble_halves(u32 w) {
  if (HIGH) return half2_fma(bits_and_or<0x00f000f0u>(w, 0x64006400u), 0x2c002c00u, 0xd480d480u);   // / 16 - 72
  return half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64086408u);
}
