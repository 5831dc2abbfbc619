// Every PTX instruction of the engine, each behind a named device function with two bodies: inline
// assembly, and the same effect on lanes.
#pragma once

#include "vocabulary.cuh"

// ---- conversions ---------------------------------------------------------------------------------

// cvt.rn.f16.f32: binary16 bits of x, nearest even; NaN gives 7fff.
DEVICE u16 half_bits(float x) {
#ifdef STRATA_LANES
  return lanes::float_to_half(x);
#else
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#endif
}

// cvt.f32.f16: exact.
DEVICE float half_value(u16 h) {
#ifdef STRATA_LANES
  return lanes::half_to_float(h);
#else
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
#endif
}

// cvt.rn.f16x2.f32 (sm_80): two halves in one register, the first in the low bits.
DEVICE u32 half_pair(float low, float high) {
#if defined(STRATA_LANES)
  return lanes::floats_to_half2(low, high);
#elif TIER < 80
  return static_cast<u32>(half_bits(low)) | static_cast<u32>(half_bits(high)) << 16;
#else
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#endif
}

// sub.rn.f16x2, per half.
DEVICE u32 half2_sub(u32 a, u32 b) {
#ifdef STRATA_LANES
  return lanes::half2_difference(a, b);
#else
  u32 r;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#endif
}

// fma.rn.f16x2, per half: a b + c with one rounding.
DEVICE u32 half2_fma(u32 a, u32 b, u32 c) {
#ifdef STRATA_LANES
  return lanes::half2_fused(a, b, c);
#else
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#endif
}

// lop3.b32: (a & MASK) | b in one instruction. An instruction holds one constant, so b is kept in a register.
template <u32 MASK>
DEVICE u32 bits_and_or(u32 a, u32 b) {
#ifdef STRATA_LANES
  return (a & MASK) | b;
#else
  u32 r;
  asm("{ .reg .b32 kept; mov.b32 kept, %2; lop3.b32 %0, %1, %3, kept, 0xEA; }" : "=r"(r) : "r"(a), "r"(b), "n"(MASK));
  return r;
#endif
}

// prmt.b32: result byte i is byte (selector >> 4i & 7) of the eight bytes a (0..3) and b (4..7).
template <u32 SELECTOR>
DEVICE u32 byte_select(u32 a, u32 b) {
  static_assert((SELECTOR & ~0x7777u) == 0, "bit 3 of a selector spreads a sign, which no kernel needs");
#ifdef STRATA_LANES
  return lanes::select_bytes(a, b, SELECTOR);
#else
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "n"(SELECTOR));
  return r;
#endif
}

// ---- matrices ------------------------------------------------------------------------------------

// ldmatrix.x4.b16: four 8x8 matrices of 16-bit elements. Lane l gives the byte offset of row l%8 of
// matrix l/8 (16 bytes, 16-byte aligned); r[i] holds row lane/4, elements 2(lane%4) and +1 of matrix
// i, or with TRANSPOSED rows 2(lane%4) and +1 of column lane/4.
template <bool TRANSPOSED>
#ifdef STRATA_LANES
inline void ldmatrix_x4(u32 (&r)[4], Shared<u8> from, int offset, lanes::Where at = lanes::Where::current()) {
  from.template range<uint4>(offset, at);
  lanes::check_read(from.p + offset, 16, at);
  struct Rows {
    const u8* row;
    u32* r;
  } mine{from.p + offset, r};
  lanes::rendezvous(lanes::Kind::ldmatrix, lanes::kAllLanes, &mine, at, [](Rows** all) {
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        if constexpr (TRANSPOSED) {
          u16 low, high;
          std::memcpy(&low, all[8 * i + 2 * (lane & 3)]->row + 2 * (lane >> 2), 2);
          std::memcpy(&high, all[8 * i + 2 * (lane & 3) + 1]->row + 2 * (lane >> 2), 2);
          all[lane]->r[i] = low | u32(high) << 16;
        } else {
          std::memcpy(&all[lane]->r[i], all[8 * i + (lane >> 2)]->row + 4 * (lane & 3), 4);
        }
      }
  });
}
#else
DEVICE void ldmatrix_x4(u32 (&r)[4], Shared<u8> from, int offset) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(from.p + offset));
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
#endif

#ifdef STRATA_LANES
namespace lanes {
// Queues one instruction. Its accumulators change at the join: a kernel that reads them before it
// computes with old values, and one that ends before it is an error.
inline void queue_mma(float (&d)[4], const u32* a, const u32* b, int k, Where at) {
  Lane* me = current;
  me->at = at;
  MmaEntry& e = me->warp->mma[me->mma_queued];
  const int g = int(me->id >> 2), t = int(me->id & 3);
  for (int half = 0; half < k / 8; ++half) {
    e.a[2 * half][me->id] = a[2 * half];
    e.a[2 * half + 1][me->id] = a[2 * half + 1];
    std::memcpy(&e.b[g][8 * half + 2 * t], &b[half], 4);
  }
  if (k == 8) std::memset(&e.b[g][8 + 2 * t], 0, 4);
  e.d[me->id] = d;
  if (e.batch != me->warp->mma_batch) {
    e.batch = me->warp->mma_batch;
    e.k = k;
    e.at = at;
  } else if (e.k != k || !same_place(e.at, at)) {
    fail(at, "lanes of one warp at different instructions: this lane is at mma m16n8k%d, another at m16n8k%d of line %u", k,
         e.k, unsigned(e.at.line()));
  }
  ++me->mma_queued;
}
}  // namespace lanes

// Waits for every queued mma of the warp. On CUDA the instruction itself does that.
inline void mma_join(lanes::Where at = lanes::Where::current()) {
  lanes::Lane* me = lanes::current;
  lanes::rendezvous(lanes::Kind::mma, lanes::kAllLanes, me, at, [&](lanes::Lane** all) {
    for (int i = 1; i < lanes::kWarp; ++i)
      if (all[i]->mma_queued != all[0]->mma_queued)
        lanes::fail(at, "lanes 0 and %d have queued different numbers of mma instructions: %d and %d", i,
                    all[0]->mma_queued, all[i]->mma_queued);
    lanes::run_queue(me->warp->mma, me->mma_queued, me->block->rule);
    ++me->warp->mma_batch;
    for (int i = 0; i < lanes::kWarp; ++i) all[i]->mma_queued = 0;
  });
}

// mma.sync m16n8k8 f32.f16.f16.f32: d += a b. The lane of group g = lane/4, t = lane%4 holds rows g
// (a[0], d[0], d[1]) and g+8 (a[1], d[2], d[3]), k and columns 2t, 2t+1, and column g of b.
inline void mma_m16n8k8(float (&d)[4], const u32* a, const u32* b, lanes::Where at = lanes::Where::current()) {
  if (lanes::current->mma_queued == lanes::kMaxMma) mma_join(at);
  lanes::queue_mma(d, a, b, 8, at);
}
// mma.sync m16n8k16: a[2], a[3], b[1] hold k + 8.
inline void mma_m16n8k16(float (&d)[4], const u32* a, const u32* b, lanes::Where at = lanes::Where::current()) {
  if (lanes::current->mma_queued == lanes::kMaxMma) mma_join(at);
  lanes::queue_mma(d, a, b, 16, at);
}
#else
DEVICE void mma_join() {}
DEVICE void mma_m16n8k8(float (&d)[4], const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
#if TIER >= 80
DEVICE void mma_m16n8k16(float (&d)[4], const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
#endif

// ---- asynchronous copies (sm_80) -------------------------------------------------------------------

#if TIER >= 80
// cp.async: BYTES (4, 8 or 16) from global to shared memory, or zeros when not valid. The bytes
// arrive at the wait of their group, not before: lanes perform the copy there.
template <int BYTES, class T>
#ifdef STRATA_LANES
inline void cp_async(Shared<T> to, int i, const void* from, bool valid, lanes::Where at = lanes::Where::current()) {
  struct alignas(BYTES) Piece {
    u8 bytes[BYTES];
  };
  lanes::Lane* me = lanes::current;
  me->at = at;
  to.template range<Piece>(i, at);
  u8* target = reinterpret_cast<u8*>(to.p + i);
  lanes::check_write(target, BYTES, at, true);
  if (valid) lanes::check_global(from, BYTES, false, at);
  if (me->async_count == lanes::kMaxAsync) lanes::fail(at, "more than %d cp.async copies in flight in one thread", lanes::kMaxAsync);
  me->async[(me->async_first + me->async_count++) % lanes::kMaxAsync] = {
      target, valid ? static_cast<const u8*>(from) : nullptr, BYTES, me->async_group};
}
#else
DEVICE void cp_async(Shared<T> to, int i, const void* from, bool valid) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(to.p + i));
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(BYTES), "r"(valid ? BYTES : 0) : "memory");
}
#endif

// cp.async.commit_group: closes the group of copies started since the last one.
DEVICE void cp_async_commit() {
#ifdef STRATA_LANES
  ++lanes::current->async_group;
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// cp.async.wait_group: returns when at most PENDING of this thread's groups have not arrived.
template <int PENDING>
DEVICE void cp_async_wait() {
#ifdef STRATA_LANES
  lanes::Lane* me = lanes::current;
  while (me->async_count && me->async_group - me->async[me->async_first].group > unsigned(PENDING)) {
    const lanes::AsyncCopy copy = me->async[me->async_first];
    me->async_first = (me->async_first + 1) % lanes::kMaxAsync;
    --me->async_count;
    if (copy.from) std::memcpy(copy.to, copy.from, copy.bytes);
    else std::memset(copy.to, 0, copy.bytes);
    lanes::check_landed(copy.to, copy.bytes);
  }
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
#endif
