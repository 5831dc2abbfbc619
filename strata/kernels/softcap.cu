// Soft capping: cap * tanh(x / cap), element by element.
//
// A thread takes four elements, the last one what is left. The formulas stand in softcap.py. A thread reads what it
// writes itself, and before it writes it: so `out` may be the buffer of x, and neither is __restrict__.
//
// -D: THREADS (of a block).

#include "include/exp2.cuh"

// The sign goes to the cap, so that a NaN is a computed one and has a card's bits.
DEVICE float capped(float x, float cap) {
  const float size = bits_to_float(float_to_bits(__fdiv_rn(x, cap)) & 0x7fffffffu);
  const float t = exp2_fma(__fmul_rn(size, bits_to_float(0xc038aa3bu)));   // -2 log2(e)
  const float tanh = __fdiv_rn(__fsub_rn(1.0f, t), __fadd_rn(1.0f, t));
  return __fmul_rn(bits_to_float(float_to_bits(cap) | (float_to_bits(x) & 0x80000000u)), tanh);
}

extern "C" __global__ void __launch_bounds__(THREADS) softcap(const float* x, float* out, i64 count, float cap) {
  const i64 first = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) * 4;
  if (first + 4 <= count) {
    const float4 v = load<float4>(x + first);
    store<float4>(out + first, float4{capped(v.x, cap), capped(v.y, cap), capped(v.z, cap), capped(v.w, cap)});
  } else {
    for (i64 i = first; i < count; ++i) store(out + i, capped(load(x + i), cap));
  }
}
