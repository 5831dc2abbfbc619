// The activation between an expert's two products.
#pragma once

#include "exp2.cuh"

constexpr u32 kMinusLog2E = 0xbfb8aa3bu;   // -log2(e) to nearest FP32

// gate / (1 + e^-gate) * up, left to right, each operation rounded; e^-gate = 2^(gate (-log2 e)) by exp2_fma. A gate
// far below zero gives a zero, a NaN or infinity in either operand does not vanish: gate = -infinity gives NaN.
DEVICE float swiglu(float gate, float up) {
  const float e = exp2_fma(__fmul_rn(gate, bits_to_float(kMinusLog2E)));
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);
}
