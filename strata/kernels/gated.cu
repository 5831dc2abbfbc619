// Gated activations: an activation of one array times another, element by element.
//
// A thread takes four elements, the last one what is left. The formulas stand in gated.py. A thread reads what it
// writes itself, and before it writes it: so `out` may be either operand's buffer, and none is __restrict__.
//
// -D: THREADS (of a block), SWIGLU (1 for SwiGLU, 0 for GELU by the tanh formula).

#include "include/swiglu.cuh"

// gelu(gate) * up, as gate / (1 + 2^(-2u log2 e)) * up with u = sqrt(2/pi) (gate + 0.044715 gate^3).
DEVICE float geglu(float gate, float up) {
  const float p = __fmaf_rn(__fmul_rn(gate, gate), bits_to_float(0x3d372713u), 1.0f);   // 0.044715
  const float e = exp2_fma(__fmul_rn(__fmul_rn(gate, p), bits_to_float(0xc0135761u)));   // -2 sqrt(2/pi) log2(e)
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);
}

DEVICE float gate_by(float gate, float up) { return SWIGLU ? swiglu(gate, up) : geglu(gate, up); }

extern "C" __global__ void __launch_bounds__(THREADS)
    gated(const float* gate, const float* up, float* out, i64 count) {
  const i64 first = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) * 4;
  if (first + 4 <= count) {
    const float4 g = load<float4>(gate + first), u = load<float4>(up + first);
    store<float4>(out + first, float4{gate_by(g.x, u.x), gate_by(g.y, u.y), gate_by(g.z, u.z), gate_by(g.w, u.w)});
  } else {
    for (i64 i = first; i < count; ++i) store(out + i, gate_by(load(gate + i), load(up + i)));
  }
}
