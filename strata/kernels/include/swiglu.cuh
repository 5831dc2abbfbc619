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

// 2^x for x of -126 to 127, the bits of exp2_fma without its cases.
DEVICE float exp2_inside(float x) {
#ifndef STRATA_LANES
  __builtin_assume(!(x < -126.0f));
  __builtin_assume(!(x >= 128.0f));
  __builtin_assume(!(x != x));
#endif
  return exp2_fma(x);
}

// Whether swiglu of a gate has none of the cases: 1 + e^-gate is then below 2^116 and the quotient above 2^-110.
DEVICE bool usual_gate(float gate) {
  return (gate >= -80.0f) & (gate <= 80.0f) & (usual_operand(gate) | (float_to_bits(gate) == 0));   // no jumps
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
