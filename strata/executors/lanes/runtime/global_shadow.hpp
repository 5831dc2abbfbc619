// Who touched a byte of a watched buffer: in the checked build, for launches that ask for it.
//
// Two accesses to a byte by two threads, one of them a write, need an order: a barrier of their block, or of their warp.
// Threads of two blocks have none in a launch. What is asked is whether the order exists, not which access came first, so
// a race is found whatever the schedule. Two cases are no race: atomic operations among each other, and writes that
// leave the byte as it is. A byte that is read must have been written, by a launch or by the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

#include "machine.hpp"

namespace lanes {

// Instead of a thread: a whole warp, or several warps.
constexpr u16 kWholeWarp = 0x8000, kManyWarps = 0xffff;

enum class Touch : u8 { read, write, atomic };

// Who accessed a byte. block: from 1, 0 for nobody; epoch, sync: barriers of the block and of the warp until then.
struct Toucher {
  u32 block, epoch, sync;
  u16 thread;
};
constexpr u32 kManyBlocks = 0xffffffffu;

struct GlobalByte {
  Toucher writer, reader;
  bool atomic;   // the writers used atomic operations
};

struct GlobalShadow {
  const Extent* extents = nullptr;
  int count = 0;
  GlobalByte** bytes = nullptr;   // of every extent; null where it is not watched
  std::atomic_flag locks[256] = {};

  GlobalShadow(const Extent* of, int n);
  GlobalShadow(const GlobalShadow&) = delete;
  GlobalShadow& operator=(const GlobalShadow&) = delete;
  ~GlobalShadow();

  static bool ordered(const Toucher& before, const Toucher& now) {
    if (before.block != now.block) return false;
    if (before.thread == now.thread || before.epoch != now.epoch) return true;
    if (before.thread == kManyWarps) return false;
    const unsigned warp = before.thread & kWholeWarp ? before.thread & 0x7fffu : before.thread / kWarp;
    return warp == now.thread / kWarp && before.sync != now.sync;
  }
  // Both of two touchers that have no order, in one.
  static void join(Toucher& known, const Toucher& now) {
    const unsigned warp = known.thread & kWholeWarp ? known.thread & 0x7fffu : known.thread / kWarp;
    if (known.block != now.block) known.block = kManyBlocks;
    known.thread = known.thread != kManyWarps && warp == now.thread / kWarp ? u16(kWholeWarp | warp) : kManyWarps;
    known.epoch = now.epoch;
    known.sync = now.sync;
  }

  enum class Trouble : u8 { none, unwritten, written, read };

  // One access; `from` are the bytes of a write, which is made here where they are given.
  void touch(const Extent& extent, const u8* p, const u8* from, std::size_t n, Touch how, Where where) {
    Lane* me = current;
    const Block* block = me->block;
    const Toucher now{block->id.x + block->grid.x * (block->id.y + block->grid.y * block->id.z) + 1, block->epoch, me->warp->sync,
                      u16(me->linear)};
    const std::size_t first = std::size_t(p - extent.base);
    GlobalByte* shadow = bytes[&extent - extents] + first;
    std::atomic_flag& lock = locks[(reinterpret_cast<std::uintptr_t>(p) >> 6) % 256];
    Trouble trouble = Trouble::none;
    Toucher other{};
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
    for (std::size_t i = 0; i < n && trouble == Trouble::none; ++i) {
      GlobalByte& b = shadow[i];
      const bool alone = b.writer.block == 0 || ordered(b.writer, now);
      if (how != Touch::write && !extent.written[first + i] && b.writer.block == 0) {
        trouble = Trouble::unwritten;
      } else if (!alone && !(how == Touch::atomic ? b.atomic : how == Touch::write && !b.atomic && from && from[i] == p[i])) {
        trouble = Trouble::written;
        other = b.writer;
      } else if (how == Touch::read) {
        if (b.reader.block == 0 || ordered(b.reader, now)) b.reader = now;
        else join(b.reader, now);
      } else if (b.reader.block != 0 && !ordered(b.reader, now)) {
        trouble = Trouble::read;
        other = b.reader;
      } else {
        if (alone) b.writer = now;
        else join(b.writer, now);
        b.atomic = how == Touch::atomic;
        extent.written[first + i] = 1;
      }
    }
    if (from && trouble == Trouble::none) std::memcpy(const_cast<u8*>(p), from, n);
    lock.clear(std::memory_order_release);
    if (trouble != Trouble::none) tell(extent, first, trouble, other, now, where);
  }

  [[noreturn]] static void tell(const Extent& extent, std::size_t first, Trouble trouble, const Toucher& other, const Toucher& now,
                                Where where) {
    const unsigned long long element = first / extent.item;
    if (trouble == Trouble::unwritten) fail(where, "element %llu of %s is read and nobody wrote it", element, extent.name);
    const char* done = trouble == Trouble::written ? "written" : "read";
    if (other.block == kManyBlocks)
      fail(where, "race: element %llu of %s was %s by other blocks, which have no order in a launch", element, extent.name, done);
    if (other.block != now.block)
      fail(where, "race: element %llu of %s was %s by block %u of the launch, and blocks have no order", element, extent.name, done,
           other.block - 1);
    if (other.thread == kManyWarps || other.thread & kWholeWarp)
      fail(where, "race: element %llu of %s was %s by other threads of the block with no barrier between", element, extent.name, done);
    fail(where, "race: element %llu of %s was %s by thread %u with no barrier between", element, extent.name, done,
         unsigned(other.thread));
  }
};

}  // namespace lanes
