// The activation between an expert's two products.
#pragma once

#include "exp2.cuh"
#include "quotient.cuh"

constexpr u32 kMinusLog2E = 0xbfb8aa3bu;   // -log2(e) to nearest FP32

// gate / (1 + e^-gate) * up, left to right, each operation rounded; e^-gate = 2^(gate (-log2 e)) by exp2_fma. A gate
// far below zero gives a zero, a NaN or infinity in either operand does not vanish: gate = -infinity gives NaN.
DEVICE float swiglu(float gate, float up) {
  const float e = exp2_fma(__fmul_rn(gate, bits_to_float(kMinusLog2E)));
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);
}

// 2^x for x of -126 to 127, the bits of exp2_fma without its cases. On lanes another x gives NaN.
DEVICE float exp2_inside(float x) {
#ifdef STRATA_LANES
  if (!(x >= -126.0f && x <= 127.0f)) return bits_to_float(0x7fffffffu);
#else
  __builtin_assume(!(x < -126.0f));
  __builtin_assume(!(x >= 128.0f));
  __builtin_assume(!(x != x));
#endif
  return exp2_fma(x);
}

// Whether swiglu of a gate has none of the cases: a magnitude of 2^-20 to 80, or +0. 1 + e^-gate is then below 2^116 and
// the quotient above 2^-110; and where the gate is a power of two it is not the float below one, as it is for 2^-23.
DEVICE bool usual_gate(float gate) {
  const u32 bits = float_to_bits(gate), low = 0x35800000u, high = 0x42a00000u;   // 2^-20, 80
  return ((bits & 0x7fffffffu) - low <= high - low) | (bits == 0);   // no jumps
}

// swiglu of N pairs, the same bits, asked for cases once.
template <int N>
DEVICE void swiglu_all(const float (&gate)[N], const float (&up)[N], float (&h)[N]) {
  bool usual = true;
#pragma unroll
  for (int i = 0; i < N; ++i) usual &= usual_gate(gate[i]);
  if (usual) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float e = exp2_inside(__fmul_rn(gate[i], bits_to_float(kMinusLog2E)));
      h[i] = __fmul_rn(usual_quotient(gate[i], __fadd_rn(1.0f, e)), up[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) h[i] = swiglu(gate[i], up[i]);
  }
}
