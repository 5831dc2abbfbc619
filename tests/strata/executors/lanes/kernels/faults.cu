// Kernels that break one rule each; `what` says which, 0 breaks none. Only block (1,0,0) does it.
// `fixed` puts the missing barrier back. The comment `at:` marks the line that a message must name.
#include "include/ptx.cuh"

enum What {
  kNothing,
  kLaneExits, kLaneSkips, kDifferent, kTwoOfOneLine, kTwoMasks, kNotInMask, kReadsOutsideMask, kOddWidth,
  kTwoBarriers, kNeverArrives, kExitsWhileWaiting, kBarrierAfterExit,
  kSharedIndex, kSharedNegative, kSharedPastEnd, kSharedTooBig, kUnwritten, kMisalignedShared,
  kWriteWrite, kWriteRead, kReadWrite, kWarpWriteWrite, kWarpWriteRead, kWarpReadWrite,
  kReadByMany, kReadByWarp, kReadByThread, kReadByNeighbour, kWarpUpdate,
  kGlobalPastEnd, kGlobalBefore, kGlobalMisaligned, kNull,
  kAsyncNotWaited, kAsyncReadEarly, kAsyncOverwritten, kAsyncTooMany,
  kMmaNotJoined, kMmaNotJoinedAtBarrier, kMmaUnequal,
  kDivide, kTrap, kStackOverflow, kEndless, kBusy,
  kStackArray, kHeap, kShift
};

__attribute__((noinline)) static int deep(int n) {
  volatile int here[1024];
  here[n & 1023] = n;
  return n < 0 ? 0 : deep(n + 1) + here[n & 1023];
}

// Out of line, where the compiler does not know the size of the array.
__attribute__((noinline)) static void poke(volatile u32* p, int i, u32 v) {
  p[i] = v;   // at: stack array
}

struct alignas(8) Pair { u32 x, y; };

// in: 256 words; out [blocks][64]; nothing: a null pointer. 64 threads, 1024 bytes of shared memory.
extern "C" __global__ void faults(const u32* in, u32* out, u32* nothing, i32 what, i32 fixed) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const Shared<u32> all = shared_array<u32>(0, 256);
  const Shared<u32> first = all.part(0, 64);
  u32 r = load(in + thread);
  if (blockIdx.x != 1 || what == kNothing) {
    all.st(thread, r);
    __syncthreads();
    store(out + blockIdx.x * 64 + thread, all.ld(thread ^ 33));
    return;
  }
  switch (what) {
    case kLaneExits:
      if (thread == 37) return;
      r = __shfl_xor_sync(0xffffffffu, r, 1);   // at: exits
      break;
    case kLaneSkips:
      if (thread != 39)
        r = __shfl_xor_sync(0xffffffffu, r, 1);   // at: skipped
      __syncwarp();                               // at: skipper
      break;
    case kDifferent:
      if (lane < 16) r = __ballot_sync(0xffffffffu, 1);   // at: ballot
      else r = __shfl_sync(0xffffffffu, r, 0);            // at: shuffle
      break;
    case kTwoOfOneLine:
      if (lane < 16) r = __shfl_sync(0xffffffffu, r, 0); else r = __shfl_sync(0xffffffffu, r, 1);   // at: one line
      break;
    case kTwoMasks:
      r = __ballot_sync(lane < 16 ? 0x1ffffu : 0xffff0001u, 1);   // at: two masks
      break;
    case kNotInMask:
      r = __ballot_sync(0xfffffffeu, 1);   // at: not in mask
      break;
    case kReadsOutsideMask:
      if (lane < 8) r = __shfl_sync(0xffu, r, 9);   // at: outside mask
      break;
    case kOddWidth:
      r = __shfl_sync(0xffffffffu, r, 0, 12);   // at: odd width
      break;
    case kTwoBarriers:
      if (warp == 0) __syncthreads();   // at: barrier 1
      else __syncthreads();             // at: barrier 2
      break;
    case kNeverArrives:
      if (thread == 35) __syncwarp(0x18u);   // at: waits for lane 4
      __syncthreads();                       // at: arrived
      break;
    case kExitsWhileWaiting:
      if (thread == 63) return;
      __syncthreads();   // at: waiting
      break;
    case kBarrierAfterExit:
      if (thread == 0) return;
      __syncthreads();   // at: after exit
      break;
    case kSharedIndex:
      first.st(thread == 50 ? 64 : thread, r);   // at: index
      break;
    case kSharedNegative:
      first.st(thread - 51, r);   // at: negative
      break;
    case kSharedPastEnd:
      __syncthreads();                            // at: last known
      all.st(thread == 41 ? 256 : thread, r);
      break;
    case kSharedTooBig:
      shared_array<u32>(16, 253).st(thread, r);   // at: too big
      break;
    case kUnwritten:
      if (thread < 40) first.st(thread, r);
      __syncthreads();
      r = first.ld(thread);   // at: unwritten
      break;
    case kMisalignedShared:
      first.st(thread, r);
      __syncwarp();
      if (thread == 33) r = first.ld<Pair>(thread).x;   // at: misaligned
      break;
    case kWriteWrite:
      if (warp == 1) first.st(lane, r);   // at: write 1
      if (fixed) __syncthreads();
      if (warp == 0) first.st(lane, r);   // at: write 0
      break;
    case kWriteRead:
      first.st(thread, 0);
      __syncthreads();
      first.st(thread, r);   // at: block write
      if (fixed) __syncthreads();
      r = first.ld(thread ^ 32);   // at: block read
      break;
    case kReadWrite:
      first.st(thread, r);
      __syncthreads();
      r = first.ld(thread ^ 32);   // at: read
      if (fixed) __syncthreads();
      first.st(thread, r + 1);     // at: write
      break;
    case kWarpWriteWrite:
      first.st(thread, r);   // at: own
      if (fixed) __syncwarp();
      first.st(thread ^ 1, r);   // at: neighbour's
      break;
    case kWarpWriteRead:
      first.st(thread, 0);
      __syncwarp();
      first.st(thread, r);   // at: warp write
      if (fixed) __syncwarp();
      r = first.ld(thread ^ 1);   // at: warp read
      break;
    case kWarpReadWrite:
      first.st(thread, r);
      __syncwarp();
      r = first.ld(thread ^ 1);   // at: before
      if (fixed) __syncwarp();
      first.st(thread, r);   // at: over
      break;
    case kReadByMany:
      if (thread == 0) first.st(0, r);
      __syncthreads();
      if (thread != 31) r = first.ld(0);   // at: by many
      if (fixed) __syncthreads();
      if (thread == 31) first.st(0, r);   // at: over many
      break;
    case kReadByWarp:
      if (thread == 0) first.st(0, r);
      __syncthreads();
      if (warp == 1) r = first.ld(0);   // at: by warp
      if (fixed) __syncthreads();
      if (thread == 0) first.st(0, r);   // at: over warp
      break;
    case kReadByThread:
      first.st(thread, r);
      __syncthreads();
      if (warp == 1) r = first.ld(thread);   // at: by thread
      if (fixed) __syncthreads();
      if (warp == 0) first.st(thread + 32, r);   // at: over thread
      break;
    case kReadByNeighbour:
      first.st(thread, r);
      __syncwarp();
      if (lane >= 16) r = first.ld(thread);   // at: by neighbour
      if (fixed) __syncwarp();
      if (lane < 16) first.st(thread + 16, r);   // at: over neighbour
      break;
    case kWarpUpdate:   // read by all, then read and written by one: in order thanks to __syncwarp
      if (lane == 0) first.st(warp, r);
      __syncwarp();
      r = first.ld(warp);   // at: by all
      if (fixed) __syncwarp();
      if (lane == 3) first.st(warp, first.ld(warp) + r);   // at: update
      __syncwarp();
      r += first.ld(warp);
      break;
    case kGlobalPastEnd:
      r = load(in + (thread == 44 ? 256 : thread));   // at: past end
      break;
    case kGlobalBefore:
      store(out - (thread == 34), r);   // at: before out
      break;
    case kGlobalMisaligned:
      store<Pair>(out + 2 * thread + (thread == 45), Pair{r, r});   // at: store misaligned
      break;
    case kNull:
      __syncwarp();                        // at: known before null
      if (thread == 46) store(nothing, r);   // at: null
      break;
    case kAsyncNotWaited:
      cp_async<4>(first, thread, in + thread, true);   // at: started
      cp_async_commit();
      if (fixed) cp_async_wait<0>();
      break;
    case kAsyncReadEarly:
      cp_async<4>(first, thread, in + thread, true);
      cp_async_commit();
      if (fixed) cp_async_wait<0>();
      r = first.ld(thread);   // at: early
      cp_async_wait<0>();
      break;
    case kAsyncOverwritten:
      cp_async<4>(first, thread, in + thread, true);
      cp_async_commit();
      if (fixed) cp_async_wait<0>();
      first.st(thread, r);   // at: overwritten
      cp_async_wait<0>();
      break;
    case kAsyncTooMany:
      for (int i = 0; thread == 40 && i < 200; ++i) cp_async<4>(all, i, in + i, true);   // at: too many
      break;
    case kMmaNotJoined: {
      float d[4] = {};
      const u32 a[2] = {r, r};
      mma_m16n8k8(d, a, a);   // at: unjoined
      if (fixed) mma_join();
      break;
    }
    case kMmaNotJoinedAtBarrier: {
      float d[4] = {};
      const u32 a[2] = {r, r};
      mma_m16n8k8(d, a, a);
      if (fixed) mma_join();
      __syncthreads();   // at: barrier before join
      break;
    }
    case kMmaUnequal: {
      float d[4] = {};
      const u32 a[2] = {r, r};
      if (thread != 38) mma_m16n8k8(d, a, a);
      mma_join();   // at: unequal
      break;
    }
    case kDivide:
      __syncthreads();   // at: before division
      r = static_cast<u32>(7 / (static_cast<i32>(load(in + 255)) - thread));   // in[255] is 47
      break;
    case kTrap:
      __syncthreads();   // at: before trap
      if (thread == 48) __builtin_trap();
      break;
    case kStackOverflow:
      __syncthreads();   // at: before overflow
      if (thread == 49) r = static_cast<u32>(deep(1));
      break;
    case kEndless:   // only Ctrl-C ends it
      for (;;) __syncthreads();
    case kBusy:   // for long, without a barrier
      for (volatile u32 i = 0; i < 20000000; ++i) {
      }
      break;
    case kStackArray: {
      volatile u32 local[8] = {};
      poke(local, thread == 52 ? 8 + static_cast<int>(r & 1) : 0, r);
      r = local[1];
      break;
    }
    case kHeap:
      r = load(in + (thread == 53 ? 256 + static_cast<int>(r & 1) : 0));   // at: heap
      break;
    default:
      r = static_cast<u32>(1 << (thread == 54 ? 32 + static_cast<int>(r & 1) : 1));   // at: shift
  }
  store(out + 64 + thread, r);
}
