// Conversions and arithmetic on arrays: out[i] = f(in[i], in[n + i], in[2n + i]).
#include "include/exp2.cuh"
#include "include/kv_format.cuh"
#include "include/ptx.cuh"

enum What { kHalfValue, kHalfBits, kHalfPair, kHalfSub, kExp2, kSelect, kFma, kAdd, kMultiply, kDivide, kToInt, kToIntNearest, kFromInt, kSquareRoot, kBitCounts };

DEVICE u32 number(int what, u32 x, u32 y, u32 z) {
  const float a = bits_to_float(x), b = bits_to_float(y), c = bits_to_float(z);
  switch (what) {
    case kHalfValue: return float_to_bits(half_value(static_cast<u16>(x)));
    case kHalfBits: return half_bits(a);
    case kHalfPair: return half_pair(a, b);
    case kHalfSub: return half2_sub(x, y);
    case kExp2: return float_to_bits(exp2_fma(a));
    case kSelect: return byte_select<0x4140>(x, y) ^ byte_select<0x5140>(x, y) << 1 ^ byte_select<0x7362>(x, y) << 2 ^ byte_select<0x0123>(x, y) << 3;
    case kFma: return float_to_bits(__fmaf_rn(a, b, c));
    case kAdd: return float_to_bits(__fadd_rn(a, __fsub_rn(b, c)));
    case kMultiply: return float_to_bits(__fmul_rn(a, b));
    case kDivide: return float_to_bits(__fdiv_rn(a, b));
    case kToInt: return static_cast<u32>(__float2int_rz(a));
    case kToIntNearest: return static_cast<u32>(__float2int_rn(a));
    case kFromInt: return float_to_bits(__int2float_rn(static_cast<int>(x)));
    case kSquareRoot: return float_to_bits(__fsqrt_rn(a));
    default: return static_cast<u32>(__clz(static_cast<int>(x)) | __popc(x) << 8);
  }
}

extern "C" __global__ void numbers(const u32* in, u32* out, i32 n, i32 what) {
  const i64 each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
  for (i64 i = first + threadIdx.x; i < first + each && i < n; i += blockDim.x)
    store(out + i, number(what, load(in + i), load(in + n + i), load(in + 2 * static_cast<i64>(n) + i)));
}
