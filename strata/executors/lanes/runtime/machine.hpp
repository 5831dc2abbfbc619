// Lanes: a CUDA block as coroutines on one operating-system thread.
//
// Every CUDA thread is a lane with a stack of its own. A lane runs until it reaches a warp-level
// instruction or a block barrier; there it waits for the lanes that the instruction names, and
// another lane runs. The last lane to arrive does the work for all of them. A switch saves six
// registers, so a rendezvous of 32 lanes costs some 150 ns.
//
// What a machine would leave undefined is an error here: lanes at different instructions, lanes
// that never come, a barrier some threads do not reach, an access outside its array.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <source_location>

namespace lanes {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = long long;
using Where = std::source_location;

constexpr int kWarp = 32;
constexpr u32 kAllLanes = 0xffffffffu;
constexpr int kMaxAsync = 96;        // cp.async copies one lane may have in flight
constexpr int kMaxMma = 32;          // matrix instructions queued before a join
constexpr u8 kSharedPoison = 0xff;   // a NaN as fp16, fp32 and fp64, -1 as an integer

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// A warp-level instruction, for messages and to tell instructions apart.
enum class Kind : u8 { none, shuffle, vote, syncwarp, ldmatrix, mma, reduce, barrier };

inline const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::none: return "nothing";
    case Kind::shuffle: return "a shuffle";
    case Kind::vote: return "a vote";
    case Kind::syncwarp: return "__syncwarp";
    case Kind::ldmatrix: return "ldmatrix";
    case Kind::mma: return "mma";
    case Kind::reduce: return "a warp reduction";
    case Kind::barrier: return "__syncthreads";
  }
  return "?";
}

struct Warp;
struct Block;

// A copy to shared memory that has been started and not waited for.
struct AsyncCopy {
  u8* to;
  const u8* from;   // null: the destination is filled with zeros
  unsigned bytes;
  unsigned group;   // commit group, counted from the start of the kernel
};

struct Lane {
  void* stack = nullptr;
  Warp* warp = nullptr;
  Block* block = nullptr;
  Index thread;
  unsigned linear = 0;   // index of the thread in its block
  u32 id = 0;            // index in its warp
  u32 bit = 0;           // 1 << id
  Where at;
  Where touched;         // its last access to a buffer, in the checked build
  Kind waits = Kind::none;
  bool done = false;
  int mma_queued = 0;
  int async_first = 0, async_count = 0;
  unsigned async_group = 0;
  AsyncCopy async[kMaxAsync];
};

// Lanes gathering at one warp-level instruction; keyed by the lowest lane of its mask.
struct Gather {
  u32 mask = 0, arrived = 0;
  Kind kind = Kind::none;
  Where at;
};

// One queued matrix instruction of a warp, operands laid out as the model reads them.
struct alignas(64) MmaEntry {
  u32 a[4][kWarp];  // the lanes' registers as they are: a[i] is 8 rows of 8 halves
  u16 b[8][16];     // [column][k], binary16 bits
  float* d[kWarp];  // each lane's four accumulators
  int k;            // 8 or 16
  u32 batch = 0;    // which join it belongs to; the first lane of a batch sets k and place
  Where at;
};

struct Warp {
  u32 ready = 0, alive = 0;
  u32 all = 0;      // lanes the warp starts with: fewer than 32 in the last warp of an odd block
  u32 sync = 0;     // counts completed __syncwarp of all lanes, for the race check
  Lane* lanes = nullptr;
  void* payload[kWarp];
  Gather gather[kWarp];
  MmaEntry* mma = nullptr;
  u32 mma_batch = 1;
};

// The arithmetic of a matrix instruction: products per step and fraction bits kept.
// block 0 means exact: the real sum, rounded once to nearest even.
struct Rule {
  int block = 0, frac = 0;
};

struct Shadow;
struct GlobalShadow;

struct Block {
  Index id, grid, dim;
  unsigned threads = 0, warps = 0, alive = 0, arrived = 0;
  Where barrier_at;
  Lane* lane = nullptr;
  Warp* warp = nullptr;
  u8* shared = nullptr;
  std::size_t shared_bytes = 0;   // what the launch asked for, rounded up to 16
  const u8* stacks = nullptr;     // of all lanes, kSlot bytes each
  Lane* running = nullptr;        // null: the worker itself
  void* outside = nullptr;   // the worker's own stack
  u64 random = 0;            // 0: lanes in order
  u32 epoch = 0, serial = 0; // barrier intervals and blocks, counted over the worker's life
  Rule rule;
  Shadow* shadow = nullptr;
  struct Launch* launch = nullptr;
};

// A buffer the kernel may touch. written: for every byte whether somebody wrote it, over all launches of the buffer; null
// where nobody watches that. item: bytes of an element, for messages.
struct Extent {
  const u8* base;
  u64 bytes;
  int writable;
  const char* name;
  u8* written;
  u64 item;
};

// What stops a launch that takes too long, wherever its lanes are: library.py sets it. 1 waits for barriers and for the
// ends of blocks.
constexpr int kTooLong = 2;

struct Launch {
  const char* entry;
  void (*call)(void**);
  void** args;
  Index grid, dim;
  u64 shared_bytes;
  Rule rule;
  u64 seed;
  int workers;
  const Extent* extents;
  int n_extents;
  std::atomic<u64>* next;       // blocks taken
  std::atomic<u64>* finished;   // blocks finished, for progress
  std::atomic<int>* stop;       // set from outside, or by a fault
  std::atomic<int>* faulted;
  char* message;
  std::size_t message_bytes;
  std::atomic<void*>* spare;    // places for stacks that the next launch may use, empty ones null
  int n_spare;
  GlobalShadow* shadow = nullptr;   // null: no buffer is watched
};

// A lane is found by its stack pointer, so that a built kernel has no thread-local variable: the loader's room for fast
// ones is small, and each library would take of it for good. A worker's lanes lie just before an address that is a
// multiple of kRegion, their stacks from it on, one in each kSlot bytes.
constexpr unsigned kMostLanes = 1024;   // threads of a block
constexpr std::size_t kSlot = 256 * 1024, kRegion = kMostLanes * kSlot;
constexpr std::size_t kLaneBytes = kMostLanes * sizeof(Lane);

// The lane that runs here; only code on a lane's stack may ask. The stack pointer is read by an `asm` that is not
// volatile: it may be read once for a whole function, because a function of a lane stays on the lane's stack.
inline __attribute__((always_inline)) Lane* current_lane() {
  std::uintptr_t at;
#if defined(__x86_64__)
  asm("movq %%rsp, %0" : "=r"(at));
#else
  asm("mov %0, sp" : "=r"(at));
#endif
  const std::uintptr_t first = (at & ~std::uintptr_t(kRegion - 1)) - kLaneBytes;
  return reinterpret_cast<Lane*>(first) + (at / kSlot) % kMostLanes;
}
// What sources and the runtime call it by.
struct Current {
  __attribute__((always_inline)) operator Lane*() const { return current_lane(); }
  __attribute__((always_inline)) Lane* operator->() const { return current_lane(); }
};
inline constexpr Current current{};

extern "C" void strata_lanes_switch(void** save, void* to) asm("strata_lanes_switch");

// Ends the launch with a message that names kernel, block, thread and line.
[[noreturn]] void fail(Where at, const char* format, ...) __attribute__((format(printf, 2, 3)));
// The same for a place that a compiler tells.
[[noreturn]] void fail_there(const char* file, u32 line, const char* text);
// Finds a lane of another warp that can run; a deadlock is an error.
Lane* runnable_elsewhere(Lane* me);

inline u64 next_random(u64& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}

// Under a schedule seed: a random lane of a random warp.
Lane* permuted_choice(Lane* me);

// Lets another lane run until this one is ready again.
inline void yield(Lane* me) {
  Warp* warp = me->warp;
  Lane* next = me->block->random ? permuted_choice(me)
               : warp->ready     ? &warp->lanes[__builtin_ctz(warp->ready)]
                                 : runnable_elsewhere(me);
  me->block->running = next;
  strata_lanes_switch(&me->stack, next->stack);
}

// Two calls of one line are two instructions.
inline bool same_place(const Where& a, const Where& b) { return a.line() == b.line() && a.column() == b.column(); }

[[noreturn]] void different_instructions(Lane* me, Kind kind, u32 mask, Where at, const Gather& gather);

// Meets the lanes of `mask` at one warp-level instruction. `work(payloads)` runs once, on the last
// lane to arrive, with every named lane's payload at its index.
template <class Payload, class Work>
inline void rendezvous(Kind kind, u32 mask, Payload* payload, Where at, Work&& work) {
  Lane* me = current;
  Warp* warp = me->warp;
  me->at = at;
  if (!(mask & me->bit)) fail(at, "the mask %08x of %s does not name the calling lane", mask, name_of(kind));
  Gather& gather = warp->gather[__builtin_ctz(mask)];
  if (gather.arrived == 0) {
    gather.mask = mask;
    gather.kind = kind;
    gather.at = at;
  } else if (gather.mask != mask || gather.kind != kind || !same_place(gather.at, at)) {
    different_instructions(me, kind, mask, at, gather);
  }
  warp->payload[me->id] = payload;
  gather.arrived |= me->bit;
  if (gather.arrived == mask) {
    gather.arrived = 0;
    work(reinterpret_cast<Payload**>(warp->payload));
    warp->ready |= mask;
    return;
  }
  me->waits = kind;
  warp->ready &= ~me->bit;
  yield(me);
  me->waits = Kind::none;
}

void block_barrier(Where at);
// Runs the matrix instructions that a warp has queued.
void run_queue(MmaEntry* entry, int count, Rule rule);
// Runs a whole launch.
void run(Launch* launch);
void async_land(Lane* me, unsigned through_group);

}  // namespace lanes
