// What the checked build knows of every byte of shared memory, and of the buffers of a launch (global_shadow.hpp has
// who touched a byte of them).
//
// Accesses are ordered by barriers, not by the order in which lanes happened to run. So a race is
// found whenever the two accesses occur, whatever the schedule: two threads touch a byte, one of
// them writes, and no __syncthreads (or, inside a warp, __syncwarp) stands between.
#pragma once

#include <cstddef>
#include <vector>

#include "global_shadow.hpp"
#include "machine.hpp"

namespace lanes {

#ifdef STRATA_CHECKED
constexpr bool kChecked = true;
#else
constexpr bool kChecked = false;
#endif

struct ByteState {
  u32 written_serial = 0;   // block that wrote it; anything else: nobody wrote it
  u32 write_epoch = 0, write_sync = 0, read_epoch = 0, read_sync = 0;
  u16 writer = 0, reader = 0;   // thread; or a whole warp, or several warps
  bool in_flight = false;       // a cp.async copy that was not waited for
};

struct Shadow {
  u8* base = nullptr;
  std::size_t size = 0;
  std::vector<ByteState> bytes;

  void prepare(u8* shared, std::size_t shared_bytes) {
    base = shared;
    size = shared_bytes;
    if (kChecked) bytes.resize(shared_bytes);
  }
};

inline bool ordered(const Lane* me, unsigned warp, u32 sync) {
  return warp == me->linear / kWarp && sync != me->warp->sync;
}

// Where the bytes lie in the block's shared memory; outside it is an error.
inline std::size_t shared_offset(const Shadow& shadow, const u8* at, std::size_t n, Where where) {
  const i64 offset = at - shadow.base;
  if (offset < 0 || std::size_t(offset) + n > shadow.size)
    fail(where, "shared memory out of range: bytes %lld..%lld of %zu", offset, offset + i64(n), shadow.size);
  return std::size_t(offset);
}

inline void check_write(const u8* at, std::size_t n, Where where, bool start_of_copy = false) {
  if constexpr (!kChecked) return;
  Lane* me = current;
  Block* block = me->block;
  Shadow* shadow = block->shadow;
  const std::size_t offset = shared_offset(*shadow, at, n, where);
  for (std::size_t i = offset; i < offset + n; ++i) {
    ByteState& b = shadow->bytes[i];
    if (b.in_flight)   // the copy may land before or after
      fail(where, "race: shared byte %zu is written while a cp.async copy of thread %u is in flight", i, b.writer);
    if (b.write_epoch == block->epoch && b.writer != me->linear && !ordered(me, b.writer / kWarp, b.write_sync))
      fail(where, "race: shared byte %zu was written by thread %u with no barrier between", i, b.writer);
    if (b.read_epoch == block->epoch && b.reader != me->linear) {
      const bool many = b.reader == kManyWarps, whole = !many && (b.reader & kWholeWarp);
      const unsigned warp = whole ? b.reader & 0x7fffu : b.reader / kWarp;
      if (many || !ordered(me, warp, b.read_sync)) {
        if (many) fail(where, "race: shared byte %zu was read by several warps with no barrier between", i);
        fail(where, "race: shared byte %zu was read by %s %u with no barrier between", i, whole ? "warp" : "thread",
             whole ? warp : unsigned(b.reader));
      }
    }
    b.writer = u16(me->linear);
    b.write_epoch = block->epoch;
    b.write_sync = me->warp->sync;
    b.in_flight = start_of_copy;
    if (!start_of_copy) b.written_serial = block->serial;
  }
}

inline void check_read(const u8* at, std::size_t n, Where where) {
  if constexpr (!kChecked) return;
  Lane* me = current;
  Block* block = me->block;
  Shadow* shadow = block->shadow;
  const std::size_t offset = shared_offset(*shadow, at, n, where);
  for (std::size_t i = offset; i < offset + n; ++i) {
    ByteState& b = shadow->bytes[i];
    if (b.in_flight) fail(where, "shared byte %zu is read before its cp.async copy was waited for", i);
    if (b.written_serial != block->serial) fail(where, "shared byte %zu is read and nobody wrote it", i);
    if (b.write_epoch == block->epoch && b.writer != me->linear && !ordered(me, b.writer / kWarp, b.write_sync))
      fail(where, "race: shared byte %zu was written by thread %u with no barrier between", i, b.writer);
    const u16 warp = u16(me->linear / kWarp);
    if (b.read_epoch != block->epoch || b.reader == me->linear) {
      b.reader = u16(me->linear);
    } else if (b.reader != kManyWarps) {
      const unsigned before = b.reader & kWholeWarp ? b.reader & 0x7fffu : b.reader / kWarp;
      // Reads of this warp before its last __syncwarp are ordered before whatever it does now.
      if (ordered(me, before, b.read_sync)) b.reader = u16(me->linear);
      else b.reader = before == warp ? u16(kWholeWarp | warp) : kManyWarps;
    }
    b.read_epoch = block->epoch;
    b.read_sync = me->warp->sync;
  }
}

// A copy that has landed: visible to its own thread now, to others after a barrier.
inline void check_landed(const u8* at, std::size_t n) {
  if constexpr (!kChecked) return;
  Lane* me = current;
  Block* block = me->block;
  for (std::size_t i = at - block->shadow->base, end = i + n; i < end; ++i) {
    ByteState& b = block->shadow->bytes[i];
    b.in_flight = false;
    b.written_serial = block->serial;
    b.writer = u16(me->linear);
    b.write_epoch = block->epoch;
    b.write_sync = me->warp->sync;
  }
}

inline u64 distance(const u8* p, const Extent& e) { return p < e.base ? u64(e.base - p) : u64(p - e.base); }

// The buffer that an access of n bytes lies in; outside of all is an error.
inline const Extent& extent_of(const Launch* launch, const u8* p, std::size_t n, bool write, Where where) {
  current->touched = where;
  if (reinterpret_cast<std::uintptr_t>(p) % n) fail(where, "global address not aligned to the %zu bytes of the access", n);
  const Extent* nearest = nullptr;
  for (int i = 0; i < launch->n_extents; ++i) {
    const Extent& e = launch->extents[i];
    if (p >= e.base && p + n <= e.base + e.bytes) {
      if (write && !e.writable) fail(where, "write to the input %s", e.name);
      return e;
    }
    if (!nearest || distance(p, e) < distance(p, *nearest)) nearest = &e;
  }
  if (!nearest) fail(where, "global access, and the launch has no buffers");
  fail(where, "global memory out of range, outside every buffer: bytes %lld..%lld of the nearest, %s, which has %llu", i64(p - nearest->base),
       i64(p - nearest->base) + i64(n), nearest->name, static_cast<unsigned long long>(nearest->bytes));
}

inline void check_global(const void* at, std::size_t n, bool write, Where where) {
  if constexpr (!kChecked) return;
  const Launch* launch = current->block->launch;
  const u8* p = static_cast<const u8*>(at);
  const Extent& extent = extent_of(launch, p, n, write, where);
  if (extent.written) launch->shadow->touch(extent, p, nullptr, n, write ? Touch::write : Touch::read, where);
}

// An atomic operation: others of its kind need no order, plain accesses do.
inline void check_atomic(const void* at, std::size_t n, Where where) {
  if constexpr (!kChecked) return;
  const Launch* launch = current->block->launch;
  const u8* p = static_cast<const u8*>(at);
  const Extent& extent = extent_of(launch, p, n, true, where);
  if (extent.written) launch->shadow->touch(extent, p, nullptr, n, Touch::atomic, where);
}

// Checks a write and makes it.
inline void write_global(void* to, const void* from, std::size_t n, Where where) {
  if constexpr (kChecked) {
    const Launch* launch = current->block->launch;
    const u8* p = static_cast<const u8*>(to);
    const Extent& extent = extent_of(launch, p, n, true, where);
    if (extent.written) return launch->shadow->touch(extent, p, static_cast<const u8*>(from), n, Touch::write, where);
  }
  std::memcpy(to, from, n);
}

}  // namespace lanes
