// Residual sums: a + b, element by element.
//
// A thread takes four elements, the last one what is left. A thread reads what it writes itself, and before it writes
// it: so `out` may be either operand's buffer, and none is __restrict__.
//
// -D: THREADS (of a block).

#include "include/vocabulary.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    residual(const float* a, const float* b, float* out, i64 count) {
  const i64 first = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) * 4;
  if (first + 4 <= count) {
    const float4 x = load<float4>(a + first), y = load<float4>(b + first);
    store<float4>(out + first, float4{__fadd_rn(x.x, y.x), __fadd_rn(x.y, y.y), __fadd_rn(x.z, y.z), __fadd_rn(x.w, y.w)});
  } else {
    for (i64 i = first; i < count; ++i) store(out + i, __fadd_rn(load(a + i), load(b + i)));
  }
}
