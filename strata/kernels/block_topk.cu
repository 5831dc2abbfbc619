// The cells that a query attends to: those of the blocks of the highest scores, in ascending order.
//
// One thread block serves one query. The definition, and why the counts are of blocks, stand in topk_kernels.py; this file says
// where the data lies. A warp has blocks side by side, `turns` times 32 of them, so what it chooses is one run of the
// output, and where the run begins follows from the counts of the warps before it.
//
// -D: THREADS, EACH (scores that a thread holds in registers; 0: none, they are read again in every pass), MIN_BLOCKS (for
// the register budget), SHARED_BYTES (what the launch gives, checked below).

#include "include/block_score.cuh"
#include "include/shared_count.cuh"

constexpr int kWarps = THREADS / 32;
constexpr int kBlock = 4;   // cells of a block
constexpr int kAhead = 8;   // scores that are on their way at a time where none are held
// The radix select takes 11 bits of a key, 11 and 10, from the top.
constexpr int kPasses = 3, kDigit = 11, kLastDigit = 10, kBins = 1 << kDigit;
constexpr int kBinsEach = kBins / THREADS;   // that a thread looks through

// Byte offsets of the arrays in shared memory.
struct Layout {
  static constexpr int histogram = 0;
  static constexpr int chosen = histogram + kBins * 4;   // the bin, and blocks still to find in it
  static constexpr int parts = chosen + 2 * 4;           // of each warp: two counts
  static constexpr int end = parts + kWarps * 2 * 4;
};
static_assert(Layout::end == SHARED_BYTES, "topk_kernels.py and this file disagree on shared memory");
static_assert(kWarps <= 32, "a lane adds the counts of one warp");
static_assert(kBinsEach * THREADS == kBins, "every thread looks through as many bins");
static_assert(kDigit * (kPasses - 1) + kLastDigit == 32, "the passes take a whole key");

// The bits of a score as an integer of the same order: -0 as +0, and a NaN as 1, below every number. 0 is no block: as
// there are enough blocks, it is never chosen, and nothing asks for it.
constexpr u32 kNoBlock = 0, kNaN = 1;
DEVICE u32 key_of(u32 bits) {
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return kNaN;
  if (magnitude == 0) bits = 0;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The keys of a thread: of every 32nd block of a warp's share from the thread's first on.
struct Keys {
  const float* row;   // from the thread's first block
  i32 first, left;    // the thread's first block, and how many blocks of the warp's share lie from it on
  int turns;          // the same for all threads
#if EACH > 0
  u32 held[EACH];
#endif

  MEMBER bool has(int turn) const { return 32 * turn < left; }
  MEMBER u32 bits(int turn) const { return has(turn) ? float_to_bits(load(row + 32 * turn)) : 0; }
  MEMBER u32 key(int turn, u32 its_bits) const { return has(turn) ? key_of(its_bits) : kNoBlock; }

  MEMBER void bring() {
#if EACH > 0
#pragma unroll
    for (int turn = 0; turn < EACH; ++turn) held[turn] = bits(turn);   // all are on their way before one is used
#pragma unroll
    for (int turn = 0; turn < EACH; ++turn) held[turn] = key(turn, held[turn]);
#endif
  }

  // use(key, index of the block), turn by turn: all lanes of a warp together.
  template <class Use>
  MEMBER void each(const Use& use) const {
#if EACH > 0
#pragma unroll
    for (int turn = 0; turn < EACH; ++turn)
      if (turn < turns) use(held[turn], first + 32 * turn);
#else
    for (int begin = 0; begin < turns; begin += kAhead) {
      u32 ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) ahead[i] = bits(begin + i);
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (begin + i < turns) use(key(begin + i, ahead[i]), first + 32 * (begin + i));
    }
#endif
  }
};

// The sum of v over the lanes of a warp.
DEVICE u32 lanes_sum(u32 v) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
  return v;
}

// The highest bin with which the blocks counted from the top are `need` or more, and how many of that bin are needed; the
// histogram is then zeros. All threads of the block, between barriers; the last one is the caller's.
DEVICE void find_bin(Shared<u32> histogram, Shared<u32> chosen, Shared<u32> parts, u32 need, int thread) {
  const int lane = thread & 31, warp = thread >> 5, highest = kBins - 1 - kBinsEach * thread;   // of the thread's bins
  u32 count[kBinsEach], through = 0;
#pragma unroll
  for (int i = 0; i < kBinsEach; ++i) {
    through += count[i] = histogram.ld(highest - i);
    histogram.st(highest - i, 0);
  }
  u32 before = -through;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const u32 other = __shfl_up_sync(0xffffffffu, through, by);
    through += lane >= by ? other : 0;
  }
  if (lane == 31) parts.st(2 * warp, through);
  __syncthreads();
  through += lanes_sum(lane < warp ? parts.ld(2 * lane) : 0);
  before += through;
  if (before >= need || through < need) return;
#pragma unroll
  for (int i = 0; i < kBinsEach; ++i) {
    if (before < need && before + count[i] >= need) {
      chosen.st(0, static_cast<u32>(highest - i));
      chosen.st(1, need - before);
    }
    before += count[i];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    block_topk(const float* __restrict__ scores, const i32* __restrict__ steps, i32* __restrict__ all_ids, i32 capacity,
               i32 cap) {
  const Shared<u32> histogram = shared_array<u32>(Layout::histogram, kBins);
  const Shared<u32> chosen = shared_array<u32>(Layout::chosen, 2);
  const Shared<u32> parts = shared_array<u32>(Layout::parts, kWarps * 2);

  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const i64 query = blockIdx.x;
  i32* ids = all_ids + query * cap;
  const i32 cells = load(steps + query * Step::words + Step::cells), blocks = load(steps + query * Step::words + Step::blocks);
  const i32 width = load(steps + query * Step::words + Step::width);
  if (cells <= width) {
    for (i32 i = thread; i < cells; i += THREADS) store(ids + i, i);
    return;
  }

  // The incomplete block comes first, and has the last place because its cells have the highest indices.
  const i32 tail = cells - blocks * kBlock, of_tail = tail < width ? tail : width, rest = width - of_tail;
  if (thread < of_tail) store(ids + rest + thread, blocks * kBlock + thread);
  if (rest == 0) return;

  Keys keys;
  keys.turns = (blocks + THREADS - 1) / THREADS;
  const i32 from = warp * 32 * keys.turns, to = from + 32 * keys.turns;   // the warp's share
  keys.first = from + lane;
  keys.left = (to < blocks ? to : blocks) - keys.first;
  keys.row = scores + query * capacity + keys.first;
  keys.bring();
  for (int i = thread; i < kBins; i += THREADS) histogram.st(i, 0);
  __syncthreads();

  u32 need = static_cast<u32>(rest + kBlock - 1) / kBlock;   // blocks at the threshold, of those that reach it
  u32 threshold = 0;                                         // its bits that are known
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    const int digit = pass + 1 < kPasses ? kDigit : kLastDigit, shift = pass + 1 < kPasses ? 32 - kDigit * (pass + 1) : 0;
    const u32 mask = (1u << digit) - 1;
    keys.each([&](u32 key, i32) {
      if (key >> shift >> digit == threshold) count_one(histogram, static_cast<int>(key >> shift & mask));
    });
    __syncthreads();
    find_bin(histogram, chosen, parts, need, thread);
    __syncthreads();
    threshold = threshold << digit | chosen.ld(0);
    need = chosen.ld(1);
  }

  // Of the blocks at the threshold the first `need` are chosen, and the last of these may be cut.
  const i32 cut_away = (kBlock - rest % kBlock) % kBlock;
  u32 above = 0, equal = 0;
  keys.each([&](u32 key, i32) {
    above += key > threshold;
    equal += key == threshold;
  });
  above = lanes_sum(above);
  equal = lanes_sum(equal);
  if (lane == 0) {
    parts.st(2 * warp, above);
    parts.st(2 * warp + 1, equal);
  }
  __syncthreads();
  above = lanes_sum(lane < warp ? parts.ld(2 * lane) : 0);   // of the warps before
  equal = lanes_sum(lane < warp ? parts.ld(2 * lane + 1) : 0);

  const u32 lower_lanes = (1u << lane) - 1;
  keys.each([&](u32 key, i32 block) {
    const u32 are_above = __ballot_sync(0xffffffffu, key > threshold);
    const u32 are_equal = __ballot_sync(0xffffffffu, key == threshold);
    if ((are_above | are_equal) == 0) return;
    const u32 above_before = above + static_cast<u32>(__popc(are_above & lower_lanes));
    const u32 equal_before = equal + static_cast<u32>(__popc(are_equal & lower_lanes));
    const bool behind = equal_before >= need;   // every chosen block at the threshold lies before this one
    if (key > threshold || (key == threshold && !behind)) {
      const i32 at = kBlock * static_cast<i32>(above_before + (behind ? need : equal_before)) - (behind ? cut_away : 0);
      const i32 count = key == threshold && equal_before + 1 == need ? kBlock - cut_away : kBlock;
#pragma unroll
      for (i32 i = 0; i < kBlock; ++i)
        if (i < count) store(ids + at + i, block * kBlock + i);
    }
    above += static_cast<u32>(__popc(are_above));
    equal += static_cast<u32>(__popc(are_equal));
  });
}
