#pragma once
#include "exp2.cuh"
DEVICE float swiglu(float gate, float up) {
  const float e = exp2_fma(__fmul_rn(gate, bits_to_float(0xbfb8aa3bu)));
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);
}
