// The CUDA vocabulary for host C++: what a kernel source may use, executed by lanes.
#pragma once

#include "checks.hpp"
#include "floating.hpp"
#include "integercore.hpp"
#include "machine.hpp"

#define __global__
#define __device__
#define __host__
#define __restrict__ __restrict
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define DEVICE static inline __attribute__((always_inline))
#define MEMBER inline __attribute__((always_inline))

using u8 = lanes::u8;
using u16 = lanes::u16;
using u32 = lanes::u32;
using u64 = lanes::u64;
using i8 = signed char;
using i32 = int;
using i64 = lanes::i64;
using std::size_t;

struct alignas(8) uint2 { u32 x, y; };
struct alignas(16) uint4 { u32 x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

#define threadIdx (lanes::current->thread)
#define blockIdx (lanes::current->block->id)
#define blockDim (lanes::current->block->dim)
#define gridDim (lanes::current->block->grid)

// Standard output belongs to who runs a kernel. Of both, with the library's own, one is the better match or neither is.
int printf(const char*) = delete;
template <class... A>
int printf(const char*, A...) = delete;

// ---- memory ------------------------------------------------------------------------------------

// An array in shared memory. Every access goes through ld and st, which the checked build watches:
// range (of this array, not of the whole block's memory), bytes nobody wrote, races, alignment.
template <class T>
struct Shared {
  T* p;
  int count;

  template <class V>
  void range(int i, lanes::Where at) const {
    if constexpr (lanes::kChecked) {
      if (i < 0 || i64(i) * i64(sizeof(T)) + i64(sizeof(V)) > i64(count) * i64(sizeof(T)))
        lanes::fail(at, "shared memory out of range: element %d of an array of %d", i, count);
      if (reinterpret_cast<std::uintptr_t>(p + i) % alignof(V))
        lanes::fail(at, "shared element %d is not aligned to the %zu bytes of the access", i, alignof(V));
    }
  }
  template <class V = T>
  V ld(int i, lanes::Where at = lanes::Where::current()) const {
    range<V>(i, at);
    lanes::check_read(reinterpret_cast<const u8*>(p + i), sizeof(V), at);
    V v;
    std::memcpy(&v, p + i, sizeof v);
    return v;
  }
  template <class V = T>
  void st(int i, V v, lanes::Where at = lanes::Where::current()) const {
    range<V>(i, at);
    lanes::check_write(reinterpret_cast<const u8*>(p + i), sizeof(V), at);
    std::memcpy(p + i, &v, sizeof v);
  }
  Shared part(int first, int n, lanes::Where at = lanes::Where::current()) const {
    if constexpr (lanes::kChecked)
      if (first < 0 || n < 0 || i64(first) + n > count)
        lanes::fail(at, "shared memory out of range: elements %d..%d of an array of %d", first, first + n, count);
    return {p + first, n};
  }
};

// The block's dynamic shared memory, cut into arrays at byte offsets known at compile time.
template <class T>
inline Shared<T> shared_array(int byte_offset, int count, lanes::Where at = lanes::Where::current()) {
  lanes::Block* block = lanes::current->block;
  const size_t asked = block->launch->shared_bytes;
  if (byte_offset < 0 || count < 0 || size_t(byte_offset) + size_t(count) * sizeof(T) > asked)
    lanes::fail(at, "shared memory out of range: an array of %d elements of %zu bytes at byte %d, and the launch asked for %zu bytes", count,
                sizeof(T), byte_offset, asked);
  return {reinterpret_cast<T*>(block->shared + byte_offset), count};
}

template <class V, class T>
inline V load(const T* p, lanes::Where at = lanes::Where::current()) {
  lanes::check_global(p, sizeof(V), false, at);
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline T load(const T* p, lanes::Where at = lanes::Where::current()) {
  return load<T, T>(p, at);
}
// A stored float is a computed one: its NaN has the device's bits. Bits are moved as integers.
inline float computed(float v) { return v != v ? lanes::bit_cast<float>(lanes::kCanonicalNaN) : v; }
inline float2 computed(float2 v) { return {computed(v.x), computed(v.y)}; }
inline float4 computed(float4 v) { return {computed(v.x), computed(v.y), computed(v.z), computed(v.w)}; }
template <class V>
inline V computed(V v) {
  return v;
}
template <class V, class T>
inline void store(T* p, V v, lanes::Where at = lanes::Where::current()) {
  v = computed(v);
  lanes::write_global(p, &v, sizeof v, at);
}

// ---- arithmetic, rounded as written --------------------------------------------------------------

DEVICE float bits_to_float(u32 b) { return lanes::bit_cast<float>(b); }
DEVICE u32 float_to_bits(float f) { return lanes::bit_cast<u32>(f); }
DEVICE float __fadd_rn(float a, float b) { return a + b; }
DEVICE float __fsub_rn(float a, float b) { return a - b; }
DEVICE float __fmul_rn(float a, float b) { return a * b; }
DEVICE float __fdiv_rn(float a, float b) { return a / b; }
DEVICE float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
DEVICE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// acc[j] = fma(x, y[j], acc[j]), four at a time where the processor can.
template <int N>
inline void multiply_add(float (&acc)[N], float x, const float (&y)[N]) {
  int j = 0;
#if defined(__FMA__)
  for (; j + 4 <= N; j += 4)
    _mm_storeu_ps(acc + j, _mm_fmadd_ps(_mm_set1_ps(x), _mm_loadu_ps(y + j), _mm_loadu_ps(acc + j)));
#endif
  for (; j < N; ++j) acc[j] = __fmaf_rn(x, y[j], acc[j]);
}
DEVICE float __int2float_rn(int i) { return float(i); }
DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(u32(x)); }
DEVICE int __popc(u32 x) { return __builtin_popcount(x); }
DEVICE int __float2int_rz(float x) {   // saturating, NaN gives 0
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 2147483647;
  if (x <= -2147483648.0f) return -2147483647 - 1;
  return int(x);
}
DEVICE int __float2int_rn(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 2147483647;
  if (x <= -2147483648.0f) return -2147483647 - 1;
  return int(__builtin_rintf(x));
}

// ---- barriers, shuffles, votes, atomics ------------------------------------------------------------

inline void __syncthreads(lanes::Where at = lanes::Where::current()) { lanes::block_barrier(at); }

inline void __syncwarp(u32 mask = lanes::kAllLanes, lanes::Where at = lanes::Where::current()) {
  lanes::Warp* warp = lanes::current->warp;
  lanes::rendezvous(lanes::Kind::syncwarp, mask, warp, at, [&](lanes::Warp**) {
    if ((mask & warp->all) == warp->all) ++warp->sync;
  });
}

namespace lanes {
// out of lane i = value of lane `from`, which lane i computed as PTX's shfl.sync does: an operand of
// five bits, segments of `width` lanes, and its own value when the source lies outside.
template <class T>
inline T shuffle(u32 mask, T value, bool inside, int from, Where at) {
  struct Shuffle {
    T value, out;
    int from;
  } mine{value, value, inside ? from : int(current->id)};
  rendezvous(Kind::shuffle, mask, &mine, at, [&](Shuffle** all) {
    for (int i = 0; i < kWarp; ++i) {
      if (!(mask >> i & 1)) continue;
      const int from = all[i]->from;
      if (!(mask >> from & 1)) fail(at, "shuffle: lane %d reads lane %d, which is not in the mask %08x", i, from, mask);
      all[i]->out = all[from]->value;
    }
  });
  return mine.out;
}
// The first and last lane of the caller's segment.
struct Segment {
  int first, last;
};
inline Segment segment(int width, Where at) {
  if (width < 1 || width > kWarp || (width & (width - 1)))
    fail(at, "shuffle: the width is %d, expected a power of two up to 32", width);
  const int first = int(current->id) & -width;
  return {first, first + width - 1};
}
}  // namespace lanes

// Lanes of earlier segments can be read, of later ones not.
template <class T>
inline T __shfl_xor_sync(u32 mask, T v, int lane_mask, int width = 32, lanes::Where at = lanes::Where::current()) {
  const int from = int(lanes::current->id) ^ (lane_mask & 31);
  return lanes::shuffle(mask, v, from <= lanes::segment(width, at).last, from, at);
}
template <class T>
inline T __shfl_sync(u32 mask, T v, int source, int width = 32, lanes::Where at = lanes::Where::current()) {
  return lanes::shuffle(mask, v, true, lanes::segment(width, at).first | (source & (width - 1)), at);
}
template <class T>
inline T __shfl_up_sync(u32 mask, T v, u32 by, int width = 32, lanes::Where at = lanes::Where::current()) {
  const int from = int(lanes::current->id) - int(by & 31);
  return lanes::shuffle(mask, v, from >= lanes::segment(width, at).first, from, at);
}
template <class T>
inline T __shfl_down_sync(u32 mask, T v, u32 by, int width = 32, lanes::Where at = lanes::Where::current()) {
  const int from = int(lanes::current->id) + int(by & 31);
  return lanes::shuffle(mask, v, from <= lanes::segment(width, at).last, from, at);
}

inline u32 __ballot_sync(u32 mask, int predicate, lanes::Where at = lanes::Where::current()) {
  struct Vote {
    bool yes;
    u32 out;
  } mine{predicate != 0, 0};
  lanes::rendezvous(lanes::Kind::vote, mask, &mine, at, [&](Vote** all) {
    u32 yes = 0;
    for (int i = 0; i < lanes::kWarp; ++i)
      if (mask >> i & 1) yes |= u32(all[i]->yes) << i;
    for (int i = 0; i < lanes::kWarp; ++i)
      if (mask >> i & 1) all[i]->out = yes;
  });
  return mine.out;
}
inline int __any_sync(u32 mask, int predicate, lanes::Where at = lanes::Where::current()) {
  return __ballot_sync(mask, predicate, at) != 0;
}
inline int __all_sync(u32 mask, int predicate, lanes::Where at = lanes::Where::current()) {
  return __ballot_sync(mask, predicate, at) == mask;
}

// Integer atomics only: floating ones have no fixed order. Blocks run on several threads.
template <class T>
inline T atomicAdd(T* p, T v, lanes::Where at = lanes::Where::current()) {
  static_assert(std::is_integral_v<T>, "floating atomics have no fixed order");
  lanes::check_atomic(p, sizeof(T), at);
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicMax(T* p, T v, lanes::Where at = lanes::Where::current()) {
  lanes::check_atomic(p, sizeof(T), at);
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// v[j] = v[j] op v[j] of lane ^ offset, for offset = WIDTH/2 .. 1: one rendezvous for the N values.
namespace lanes {
template <int WIDTH, int N, class T, class Op>
inline void butterfly(T (&v)[N], Op op, Where at) {
  rendezvous(Kind::reduce, kAllLanes, &v, at, [&](T(**all)[N]) {
    T held[N][kWarp], next[N][kWarp];
    for (int lane = 0; lane < kWarp; ++lane)
      for (int j = 0; j < N; ++j) held[j][lane] = (*all[lane])[j];
    for (int offset = WIDTH / 2; offset > 0; offset /= 2) {
      for (int j = 0; j < N; ++j)
        for (int lane = 0; lane < kWarp; ++lane) next[j][lane] = op(held[j][lane], held[j][lane ^ offset]);
      std::memcpy(held, next, sizeof held);
    }
    for (int lane = 0; lane < kWarp; ++lane)
      for (int j = 0; j < N; ++j) (*all[lane])[j] = held[j][lane];
  });
}

// The same for an operation that commutes: both partners of a step then hold one value, so each is
// made once, for all N at a time, and handed out at the end. (A NaN is a NaN; which one is decided
// where it is stored.)
template <int WIDTH, int N, class T, class Op>
inline void butterfly_commuting(T (&v)[N], Op op, Where at) {
  rendezvous(Kind::reduce, kAllLanes, &v, at, [&](T(**all)[N]) {
    T held[kWarp][N];
    for (int lane = 0; lane < kWarp; ++lane) std::memcpy(held[lane], *all[lane], sizeof held[lane]);
    for (int first = 0; first < kWarp; first += WIDTH) {
      for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        for (int lane = first; lane < first + offset; ++lane)
          for (int j = 0; j < N; ++j) held[lane][j] = op(held[lane][j], held[lane + offset][j]);
      for (int lane = first; lane < first + WIDTH; ++lane) std::memcpy(*all[lane], held[first], sizeof held[first]);
    }
  });
}
}  // namespace lanes
template <int WIDTH, int N>
inline void warp_add(float (&v)[N], lanes::Where at = lanes::Where::current()) {
  lanes::butterfly_commuting<WIDTH>(v, [](float a, float b) { return a + b; }, at);
}
template <int WIDTH, int N>
inline void warp_max(float (&v)[N], lanes::Where at = lanes::Where::current()) {
  lanes::butterfly<WIDTH>(v, [](float a, float b) { return a > b ? a : b; }, at);
}
template <int WIDTH, int N>
inline void warp_max(u32 (&v)[N], lanes::Where at = lanes::Where::current()) {
  lanes::butterfly_commuting<WIDTH>(v, [](u32 a, u32 b) { return a > b ? a : b; }, at);
}
