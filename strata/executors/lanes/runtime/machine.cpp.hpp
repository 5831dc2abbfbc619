// The part of lanes that is not inline: stacks, the switch, scheduling, faults, the worker threads.
// Included once: by a generated file of its own, which needs to be compiled once for many kernels
// (executors/lanes/machine.py), or by that of the kernel.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "checks.hpp"
#include "floating.hpp"
#include "machine.hpp"
#include "tensorcore.hpp"
#ifdef STRATA_PROGRAM
#include "program.hpp"
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#include <sanitizer/asan_interface.h>
#endif
#endif
#if defined(STRATA_PROGRAM) && !defined(__SANITIZE_ADDRESS__)
#error "this compiler has no address sanitizer; g++ and clang++ have one"
#endif

#if defined(__x86_64__)
// Saves the callee-saved registers of the System V ABI; MXCSR is the same on every stack.
asm(R"(
.text
.globl strata_lanes_switch
strata_lanes_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#elif defined(__aarch64__)
// Saves x19-x30 and d8-d15, the callee-saved registers of AAPCS64.
asm(R"(
.text
.globl strata_lanes_switch
strata_lanes_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#else
#error "lanes: the coroutine switch is written for x86-64 and aarch64"
#endif

namespace lanes {

inline const std::size_t kPage = std::size_t(sysconf(_SC_PAGESIZE));
inline const std::size_t kStack = 128 * 1024;

// How far below the end of its slot a lane's stack begins: by pages of 4 KiB and by cache lines, so that the tops of 256
// stacks do not share one set of the second-level cache.
inline std::size_t below_end(unsigned lane) {
  const std::size_t most = (kSlot - kStack - kPage) / 4096;
  return lane % most * 4096;
}

// The lanes of a worker and their stacks, as `current_lane` expects them.
struct Stacks {
  u8* mapped = nullptr;
  std::size_t bytes = 0;
  Lane* lane = nullptr;
  u8* first = nullptr;   // slot
  unsigned count = 0;
  std::size_t lane_bytes = sizeof(Lane);   // which differs between builds

  explicit Stacks(unsigned lanes) : count(lanes) {
    if (lanes > kMostLanes) throw std::bad_alloc();
    const std::size_t before = (kLaneBytes + kPage - 1) / kPage * kPage, after = lanes * kSlot;
    const std::size_t reserved = before + after + kRegion;
    void* any = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (any == MAP_FAILED) throw std::bad_alloc();
    u8* const start = static_cast<u8*>(any);
    const auto boundary = (reinterpret_cast<std::uintptr_t>(start + before) + kRegion - 1) & ~std::uintptr_t(kRegion - 1);
    first = reinterpret_cast<u8*>(boundary);
    mapped = first - before;
    bytes = before + after;
    if (mapped > start) munmap(start, std::size_t(mapped - start));
    munmap(mapped + bytes, std::size_t(start + reserved - (mapped + bytes)));
    lane = reinterpret_cast<Lane*>(first - kLaneBytes);
    const auto page = reinterpret_cast<std::uintptr_t>(lane) & ~std::uintptr_t(kPage - 1);
    const std::size_t used = reinterpret_cast<std::uintptr_t>(lane + lanes) - page;
    if (mprotect(reinterpret_cast<void*>(page), used, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(first, after, PROT_READ | PROT_WRITE) != 0) {
      munmap(mapped, bytes);
      throw std::bad_alloc();
    }
    for (unsigned i = 0; i < lanes; ++i) {
      new (lane + i) Lane;
      mprotect(first + i * kSlot, std::size_t(lowest(i) - (first + i * kSlot)) / kPage * kPage, PROT_NONE);
    }
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() { munmap(mapped, bytes); }

  u8* top(unsigned i) const { return first + (i + 1) * kSlot - below_end(i); }
  u8* lowest(unsigned i) const { return top(i) - kStack; }

  // Those of an earlier launch of any kernel, or new ones: to map and to protect hundreds of stacks takes longer than many a
  // launch. A block resets all of a lane that a block before it may have left, in whatever launch that was.
  static Stacks* take(Launch* launch, unsigned lanes) {
    for (int i = 0; i < launch->n_spare; ++i) {
      auto* const found = static_cast<Stacks*>(launch->spare[i].exchange(nullptr));
      if (found && found->count == lanes && found->lane_bytes == sizeof(Lane)) return found;
      delete found;
    }
    return new Stacks(lanes);
  }
  // Keeps them for the next launch, unless this one was stopped, or there is no place.
  static void leave(Launch* launch, Stacks* stacks) {
    for (int i = 0; i < launch->n_spare && !launch->stop->load(); ++i) {
      void* empty = nullptr;
      if (launch->spare[i].compare_exchange_strong(empty, stacks)) return;
    }
    delete stacks;
  }
};

inline void leave_block(Block* block) {
  void* unused;
  block->running = nullptr;
  strata_lanes_switch(&unused, block->outside);
  __builtin_unreachable();
}

inline const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Writes the first fault of a launch; later ones are dropped.
inline void record(Lane* me, const char* file, unsigned line, const char* text) {
  Launch* launch = me->block->launch;
  int expected = 0;
  if (launch->faulted->compare_exchange_strong(expected, 1)) {
    const Index b = me->block->id, t = me->thread;
    std::snprintf(launch->message, launch->message_bytes,
                  "%s: block (%u,%u,%u), thread (%u,%u,%u) = warp %u lane %u, %s:%u: %s", launch->entry, b.x, b.y,
                  b.z, t.x, t.y, t.z, me->linear / kWarp, me->id, line ? base_name(file) : launch->entry, line, text);
  }
  launch->stop->store(1);
}
inline void record(Lane* me, Where at, const char* text) { record(me, at.file_name(), unsigned(at.line()), text); }

void fail(Where at, const char* format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  Lane* me = current;
  record(me, at.line() ? at : me->at, text);
  leave_block(me->block);
  std::abort();
}

void fail_there(const char* file, u32 line, const char* text) {
  Lane* me = current;
  record(me, file, line, text);
  leave_block(me->block);
  std::abort();
}

void different_instructions(Lane*, Kind kind, u32 mask, Where at, const Gather& gather) {
  const int other = __builtin_ctz(gather.arrived);
  fail(at, "lanes of one warp at different instructions: this lane is at %s (mask %08x), lane %d waits at %s (mask %08x) of line %u",
       name_of(kind), mask, other, name_of(gather.kind), gather.mask, unsigned(gather.at.line()));
}

// No lane can run: says who waits for whom.
[[noreturn]] inline void deadlock(Lane* me) {
  Block* block = me->block;
  char text[400];
  int n = 0;
  Where at = me->at;   // of a thread that only exited: where the others wait
  for (unsigned w = 0; w < block->warps && n < 300; ++w)
    for (const Gather& gather : block->warp[w].gather)
      if (gather.arrived && n < 300) {
        if (!at.line()) at = gather.at;
        const u32 missing = gather.mask & ~gather.arrived, gone = missing & ~block->warp[w].alive;
        n += std::snprintf(text + n, sizeof text - n, "warp %u waits at %s of line %u for lanes %08x%s; ", w,
                           name_of(gather.kind), unsigned(gather.at.line()), missing, gone ? " (exited)" : "");
      }
  if (block->arrived && n < 300)
    n += std::snprintf(text + n, sizeof text - n, "%u of %u threads wait at __syncthreads of line %u; ", block->arrived,
                       block->alive, unsigned(block->barrier_at.line()));
  fail(at.line() ? at : block->barrier_at, "missing lanes, nothing can go on: %s", text);
}

Lane* runnable_elsewhere(Lane* me) {
  Block* block = me->block;
  for (unsigned i = 1; i <= block->warps; ++i) {
    Warp* warp = &block->warp[(me->linear / kWarp + i) % block->warps];
    if (warp->ready) return &warp->lanes[__builtin_ctz(warp->ready)];
  }
  deadlock(me);
}

inline Lane* random_lane(Warp* warp, u64& random) {
  const u32 ready = warp->ready, turn = next_random(random) & 31;
  const u32 turned = turn ? (ready >> turn) | (ready << (32 - turn)) : ready;
  return &warp->lanes[(__builtin_ctz(turned) + turn) & 31];
}

Lane* permuted_choice(Lane* me) {
  Block* block = me->block;
  const u64 draw = next_random(block->random);
  if (me->warp->ready && (draw & 3)) return random_lane(me->warp, block->random);   // mostly stay in the warp
  for (unsigned i = 0; i < block->warps; ++i) {
    Warp* warp = &block->warp[((draw >> 2) + i) % block->warps];
    if (warp->ready) return random_lane(warp, block->random);
  }
  deadlock(me);
}

void block_barrier(Where at) {
  Lane* me = current;
  Block* block = me->block;
  me->at = at;
  if (me->mma_queued) fail(at, "%d mma instructions were not joined before __syncthreads", me->mma_queued);
  if (block->alive != block->threads)
    fail(at, "__syncthreads after %u threads of the block have exited", block->threads - block->alive);
  if (block->arrived == 0)
    block->barrier_at = at;
  else if (!same_place(block->barrier_at, at))
    fail(at, "divergence at a barrier: this thread is at line %u, others wait at line %u", unsigned(at.line()),
         unsigned(block->barrier_at.line()));
  if (++block->arrived == block->alive) {
    block->arrived = 0;
    if (block->launch->stop->load(std::memory_order_relaxed)) leave_block(block);   // Ctrl-C, or a fault elsewhere
    ++block->epoch;
    for (unsigned w = 0; w < block->warps; ++w) {
      block->warp[w].ready = block->warp[w].alive;
      ++block->warp[w].sync;
    }
    return;
  }
  me->waits = Kind::barrier;
  me->warp->ready &= ~me->bit;
  yield(me);
  me->waits = Kind::none;
}

inline void lane_body() {
  Lane* me = current;
  me->block->launch->call(me->block->launch->args);
  me = current;
  Block* block = me->block;
  if (me->async_count) fail(Where{}, "the thread ends with %d cp.async copies that were not waited for", me->async_count);
  if (me->mma_queued) fail(Where{}, "the thread ends with %d mma instructions that were not joined", me->mma_queued);
  if (block->arrived)
    fail(block->barrier_at, "divergence at a barrier: the thread ends while %u others wait at __syncthreads of this line",
         block->arrived);
  me->done = true;
  me->warp->ready &= ~me->bit;
  me->warp->alive &= ~me->bit;
  if (--block->alive == 0) leave_block(block);
  yield(me);
  __builtin_unreachable();
}

// One worker's block, reused for every block it runs.
struct Worker {
  Block block;
  Stacks* kept;
  Stacks& stacks;
  std::vector<Warp> warp;
  std::vector<MmaEntry> mma;
  u8* shared = nullptr;
  std::size_t shared_mapped = 0;
  Shadow shadow;

  explicit Worker(Launch* launch)
      : kept(Stacks::take(launch, launch->dim.x * launch->dim.y * launch->dim.z)), stacks(*kept) {
    const unsigned threads = stacks.count;
    warp.resize((threads + kWarp - 1) / kWarp);
    mma.resize(warp.size() * kMaxMma);
    // Shared memory ends at an unreadable page, so that running past the end faults in every build.
    const std::size_t pages = (launch->shared_bytes + kPage - 1) / kPage * kPage;
    shared_mapped = pages + 2 * kPage;
    shared = static_cast<u8*>(mmap(nullptr, shared_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED) {
      delete kept;
      throw std::bad_alloc();
    }
    mprotect(shared, kPage, PROT_NONE);
    mprotect(shared + kPage + pages, kPage, PROT_NONE);
    block.shared_bytes = (launch->shared_bytes + 15) / 16 * 16;
    block.shared = shared + kPage + pages - block.shared_bytes;
    block.stacks = stacks.first;
    block.launch = launch;
    block.grid = launch->grid;
    block.dim = launch->dim;
    block.threads = threads;
    block.warps = unsigned(warp.size());
    block.lane = stacks.lane;
    block.warp = warp.data();
    block.rule = launch->rule;
    shadow.prepare(block.shared, block.shared_bytes);
    block.shadow = &shadow;
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    munmap(shared, shared_mapped);
    Stacks::leave(block.launch, kept);
  }

  void run(Index id, u64 seed) {
    Launch* launch = block.launch;
    block.id = id;
    block.alive = block.threads;
    block.arrived = 0;
    block.random = seed;
    ++block.epoch;
    ++block.serial;
    std::memset(block.shared, kSharedPoison, block.shared_bytes);
    for (unsigned w = 0; w < block.warps; ++w) {
      Warp& here = warp[w];
      const unsigned lanes_here = block.threads - w * kWarp < kWarp ? block.threads - w * kWarp : kWarp;
      here.all = here.alive = here.ready = lanes_here == kWarp ? kAllLanes : (1u << lanes_here) - 1;
      here.sync = 0;
      here.lanes = &stacks.lane[w * kWarp];
      here.mma = &mma[w * kMaxMma];
      for (Gather& gather : here.gather) gather.arrived = 0;
    }
    for (unsigned i = 0; i < block.threads; ++i) {
      Lane& l = stacks.lane[i];
#if defined(__SANITIZE_ADDRESS__)
      __asan_unpoison_memory_region(stacks.lowest(i), kStack);
#endif
      l.thread = {i % launch->dim.x, i / launch->dim.x % launch->dim.y, i / launch->dim.x / launch->dim.y};
      l.linear = i;
      l.id = i % kWarp;
      l.bit = 1u << l.id;
      l.warp = &warp[i / kWarp];
      l.block = &block;
      l.at = l.touched = Where{};
      l.waits = Kind::none;
      l.done = false;
      l.mma_queued = l.async_first = l.async_count = 0;
      l.async_group = 0;
      u8* top = stacks.top(i) - kPage / 2 - (i * 37 % 32) * 64;
      void** slot = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t(15));
#if defined(__x86_64__)
      *--slot = nullptr;                                    // the frame's return address: none
      *--slot = reinterpret_cast<void*>(&lane_body);
      for (int r = 0; r < 6; ++r) *--slot = nullptr;
#else
      slot -= 20;
      std::memset(slot, 0, 160);
      slot[11] = reinterpret_cast<void*>(&lane_body);       // x30
#endif
      l.stack = slot;
    }
    block.running = seed ? random_lane(&warp[next_random(block.random) % block.warps], block.random) : stacks.lane;
    strata_lanes_switch(&block.outside, block.running->stack);
    block.running = nullptr;
  }
};

// A fault inside a lane becomes an error of the launch instead of the end of the process.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
constexpr int kFaultKinds = sizeof kFaults / sizeof *kFaults;
inline struct sigaction before_fault[kFaultKinds];
constexpr int kStopping = SIGTRAP;   // besides, what takes a lane out of a loop that never ends
// A worker's stack for signals begins with these, by which its faults are told from those of other threads.
inline const char kOurs = 0;
struct Seat {
  const char* owner = &kOurs;
  const Block* block = nullptr;
};
// The lane that this thread was running when a signal came; null for a thread that runs none.
inline Lane* interrupted_lane() {
  stack_t here{};
  if (sigaltstack(nullptr, &here) != 0 || (here.ss_flags & SS_DISABLE) || here.ss_size < sizeof(Seat)) return nullptr;
  const Seat* seat = static_cast<const Seat*>(here.ss_sp);
  return seat->owner == &kOurs && seat->block ? seat->block->running : nullptr;
}
inline void on_fault(int signal, siginfo_t* info, void* context) {
  Lane* me = interrupted_lane();
  if (signal == kStopping && info->si_code == SI_TKILL && info->si_pid == getpid()) {   // of `hurried`, perhaps too late
    if (me == nullptr || me->block->launch->stop->load() != kTooLong) return;
    record(me, me->at.line() ? me->at : me->touched, "is still running (the line is the last instruction known)");
    me->block->launch->stop->store(kTooLong);
    leave_block(me->block);
  }
  if (me == nullptr) {   // not ours: hand it on
    const struct sigaction& before = before_fault[std::find(kFaults, kFaults + kFaultKinds - 1, signal) - kFaults];
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
    ::signal(signal, before.sa_handler == SIG_IGN ? SIG_DFL : before.sa_handler);
    return;
  }
  char text[200];
  const u8* address = static_cast<const u8*>(info->si_addr);
  const Block* block = me->block;
  const i64 past = address - block->shared, deep = address - block->stacks;
  if (signal == SIGFPE)
    std::snprintf(text, sizeof text, "integer division by zero (the line is the last instruction known)");
  else if (signal == SIGILL || signal == SIGTRAP)
    std::snprintf(text, sizeof text, "a trap or an illegal instruction (the line is the last instruction known)");
  else if (deep >= 0 && deep < i64(block->threads * kSlot))
    std::snprintf(text, sizeof text, "stack overflow: a lane has %zu bytes (the line is the last instruction known)", kStack);
  else if (past >= -i64(kPage) && past < i64(block->shared_bytes + kPage))
    std::snprintf(text, sizeof text, "shared memory out of range: byte %lld of %zu (the line is the last instruction known)",
                  past, block->shared_bytes);
  else
    std::snprintf(text, sizeof text, "memory fault at %p (the line is the last instruction known)", info->si_addr);
  record(me, me->at, text);
  leave_block(me->block);
}

inline void work(Launch* launch, const std::vector<u64>* order) try {
  plain_arithmetic();
#if !defined(__SANITIZE_ADDRESS__)
  std::vector<u8> alternate(64 * 1024);
  stack_t stack{};
  stack.ss_sp = alternate.data();
  stack.ss_size = alternate.size();
  Seat* seat = new (alternate.data()) Seat;
  sigaltstack(&stack, nullptr);
#endif
  {
    Worker worker(launch);
#if !defined(__SANITIZE_ADDRESS__)
    seat->block = &worker.block;
#endif
    const u64 blocks = u64(launch->grid.x) * launch->grid.y * launch->grid.z;
    for (u64 i; !launch->stop->load() && (i = launch->next->fetch_add(1)) < blocks;) {
      const u64 b = order->empty() ? i : (*order)[i];
      const Index id{unsigned(b % launch->grid.x), unsigned(b / launch->grid.x % launch->grid.y),
                     unsigned(b / launch->grid.x / launch->grid.y)};
      worker.run(id, launch->seed ? launch->seed * 0x9e3779b97f4a7c15ull + b + 1 : 0);
      if (!launch->stop->load()) launch->finished->fetch_add(1);
    }
  }
#if !defined(__SANITIZE_ADDRESS__)
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
#endif
} catch (const std::exception& e) {   // no memory for the stacks or for shared memory
  int expected = 0;
  if (launch->faulted->compare_exchange_strong(expected, 1))
    std::snprintf(launch->message, launch->message_bytes, "%s: a worker could not start: %s", launch->entry, e.what());
  launch->stop->store(1);
}

// Memory of a launch begins as zeros: nobody touched a byte. The system gives it by pages, when they are touched.
GlobalShadow::GlobalShadow(const Extent* of, int n) : extents(of), count(n), bytes(new GlobalByte*[std::size_t(n)]()) {
  for (int i = 0; i < n; ++i) {
    if (!of[i].written || !of[i].bytes) continue;
    bytes[i] = static_cast<GlobalByte*>(std::calloc(of[i].bytes, sizeof(GlobalByte)));
    if (!bytes[i]) {
      this->~GlobalShadow();
      throw std::bad_alloc();
    }
  }
}
GlobalShadow::~GlobalShadow() {
  for (int i = 0; i < count; ++i) std::free(bytes[i]);
  delete[] bytes;
}

// The workers of a launch, and how many of them work.
struct Working {
  std::mutex mutex;
  std::condition_variable ended;
  int left = 0;
};

// Waits for the workers. Where the launch takes too long, takes them out of whatever they run: first they have the time
// to come to an end of a block themselves.
inline void hurried(Launch* launch, std::vector<std::thread>& threads, Working& working) {
  std::unique_lock<std::mutex> lock(working.mutex);
  while (!working.ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return working.left == 0; }))
    if (launch->stop->load() == kTooLong)
      for (std::thread& thread : threads) pthread_kill(thread.native_handle(), kStopping);
}

void run(Launch* launch) {
  std::unique_ptr<GlobalShadow> shadow;
  if constexpr (kChecked) {
    const bool watched = std::any_of(launch->extents, launch->extents + launch->n_extents, [](const Extent& e) { return e.written; });
    if (watched) shadow = std::make_unique<GlobalShadow>(launch->extents, launch->n_extents);
    launch->shadow = shadow.get();
  }
  std::vector<u64> order;
  if (launch->seed) {   // blocks in a permuted order too
    order.resize(u64(launch->grid.x) * launch->grid.y * launch->grid.z);
    std::iota(order.begin(), order.end(), u64(0));
    u64 state = launch->seed;
    for (u64 i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(state) % i]);
  }
#if !defined(__SANITIZE_ADDRESS__)
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < kFaultKinds; ++i) {
    struct sigaction before{};
    sigaction(kFaults[i], &action, &before);
    // A process that was forked during a launch begins with our handler, and what was before it is known.
    if (!(before.sa_flags & SA_SIGINFO) || before.sa_sigaction != on_fault) before_fault[i] = before;
  }
#endif
  std::vector<std::thread> threads;
  Working working;
  const auto worker = [&] {
    work(launch, &order);
    const std::lock_guard<std::mutex> lock(working.mutex);
    --working.left;
    working.ended.notify_one();
  };
  try {
    for (int i = 0; i < launch->workers; ++i) {
      {
        const std::lock_guard<std::mutex> lock(working.mutex);
        ++working.left;
      }
      threads.emplace_back(worker);
    }
  } catch (const std::system_error&) {   // fewer threads do the same work
    {
      const std::lock_guard<std::mutex> lock(working.mutex);
      --working.left;
    }
    if (threads.empty()) work(launch, &order);
  }
#if !defined(__SANITIZE_ADDRESS__)
  hurried(launch, threads, working);
#endif
  for (std::thread& thread : threads) thread.join();
#if !defined(__SANITIZE_ADDRESS__)
  for (int i = 0; i < kFaultKinds; ++i) sigaction(kFaults[i], &before_fault[i], nullptr);
#endif
}

}  // namespace lanes
