// What a kernel source may use besides plain C++: integer names, shared arrays, global accesses,
// and warp reductions with a fixed order. Two bodies: this one for CUDA, and
// executors/lanes/runtime/vocabulary.hpp, which executes and checks the same names on a CPU.
#pragma once

#ifdef STRATA_LANES
#include "vocabulary.hpp"
#else

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

#define DEVICE static __device__ __forceinline__
#define MEMBER __device__ __forceinline__   // of a struct

// An array in shared memory. ld<V>(i) reads a V at element i; a V may span several elements.
template <class T>
struct Shared {
  T* p;
  template <class V = T>
  MEMBER V ld(int i) const { return *reinterpret_cast<const V*>(p + i); }
  template <class V = T>
  MEMBER void st(int i, V v) const { *reinterpret_cast<V*>(p + i) = v; }
  MEMBER Shared part(int first, int) const { return {p + first}; }
};

extern __shared__ __align__(128) u8 strata_dynamic_shared[];
template <class T>
DEVICE Shared<T> shared_array(int byte_offset, int) {
  return {reinterpret_cast<T*>(strata_dynamic_shared + byte_offset)};
}

// Global memory. load<V>(p) reads a V at p, which must be aligned to it.
template <class V, class T>
DEVICE V load(const T* p) { return *reinterpret_cast<const V*>(p); }
template <class T>
DEVICE T load(const T* p) { return *p; }
template <class V, class T>
DEVICE void store(T* p, V v) { *reinterpret_cast<V*>(p) = v; }

DEVICE float bits_to_float(u32 b) { return __int_as_float(static_cast<int>(b)); }
DEVICE u32 float_to_bits(float f) { return static_cast<u32>(__float_as_int(f)); }

// acc[j] = fma(x, y[j], acc[j])
template <int N>
DEVICE void multiply_add(float (&acc)[N], float x, const float (&y)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j) acc[j] = __fmaf_rn(x, y[j], acc[j]);
}

// v[j] = v[j] op v[j] of lane ^ offset, for offset = WIDTH/2 .. 1. Every lane of the warp takes part.
template <int WIDTH, int N>
DEVICE void warp_add(float (&v)[N]) {
#pragma unroll
  for (int offset = WIDTH / 2; offset > 0; offset /= 2)
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = __fadd_rn(v[j], __shfl_xor_sync(0xffffffffu, v[j], offset));
}
template <int WIDTH, int N, class T>
DEVICE void warp_max(T (&v)[N]) {
#pragma unroll
  for (int offset = WIDTH / 2; offset > 0; offset /= 2)
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const T other = __shfl_xor_sync(0xffffffffu, v[j], offset);
      v[j] = v[j] > other ? v[j] : other;   // not fmaxf, which leaves the sign of zero open
    }
}

#endif
