// What goes before the products of an expert layer: tokens to int8, once each, and pairs grouped by expert.
//
// Block 0 groups; the others quantise, a thread for four values. The order of rows inside an expert is that of the
// atomic tickets, which is open; a row's values do not depend on it.
//
// -D: TIER, EXPERTS (the most there may be, and threads of a block).

#include "include/activation.cuh"
#include "include/expert_fragments.cuh"

constexpr int kThreads = EXPERTS, kWarps = kThreads / 32;
constexpr int kScans = 3;   // rows, tiles of 64 rows, tiles of 128

// Adds to an integer in shared memory; the old value.
DEVICE i32 shared_add(Shared<i32> array, int i, i32 v) {
#ifdef STRATA_LANES
  array.range<i32>(i, lanes::Where::current());
  const i32 old = array.p[i];   // lanes of a block take turns
  array.p[i] = old + v;
  return old;
#else
  return atomicAdd(array.p + i, v);
#endif
}

// v[i] becomes the sum of v[i] over the threads before this one; totals[i] of all. parts: kScans * kWarps.
DEVICE void exclusive_sums(i32 (&v)[kScans], i32 (&totals)[kScans], Shared<i32> parts, int thread) {
  const int lane = thread & 31, warp = thread >> 5;
  i32 through[kScans];
#pragma unroll
  for (int i = 0; i < kScans; ++i) {
    through[i] = v[i];
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const i32 other = __shfl_up_sync(0xffffffffu, through[i], by);
      through[i] += lane >= by ? other : 0;
    }
    if (lane == 31) parts.st(i * kWarps + warp, through[i]);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kScans; ++i) {
    i32 before = 0, all = 0;
    for (int w = 0; w < kWarps; ++w) {
      const i32 part = parts.ld(i * kWarps + w);
      before += w < warp ? part : 0;
      all += part;
    }
    v[i] = before + through[i] - v[i];
    totals[i] = all;
  }
}

// use(i, id of pair i) for the thread's pairs, of which several are under way at a time.
template <class Use>
DEVICE void each_pair(const i32* ids, int total, int thread, const Use& use) {
  constexpr int kAtOnce = 8;
  for (int base = thread; base < total; base += kAtOnce * kThreads) {
    u32 id[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (base + j * kThreads < total) id[j] = static_cast<u32>(load(ids + base + j * kThreads));
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (base + j * kThreads < total) use(base + j * kThreads, id[j]);
  }
}

// Tiles of ROWS rows of an expert: {expert, first row} each.
template <int ROWS>
DEVICE void list_tiles(i32* tiles, int at, int expert, int first, int count) {
  for (int row = 0; row < count; row += ROWS, ++at) {
    store(tiles + 2 * at, expert);
    store(tiles + 2 * at + 1, first + row);
  }
}

// x: float [tokens, n]; ids: [tokens, top]. units: int8 [tokens, n / 64 units], see activation.cuh; paired:
// the order of the codes, see expert_fragments.cuh. rows: [tokens * top, n], of which those of nobody become zeros. offsets, tile_of_64,
// tile_of_128: [experts + 1]; tiles_64, tiles_128: pairs of integers; slot, pairs: [tokens * top]; status: counts of
// values that are not finite; ignored: pairs of nobody.
extern "C" __global__ void __launch_bounds__(kThreads)
    expert_prepare(const float* __restrict__ x, const i32* __restrict__ ids, u8* __restrict__ units,
                   float* __restrict__ rows, i32* __restrict__ offsets, i32* __restrict__ tile_of_64, i32* __restrict__ tiles_64, i32* __restrict__ tile_of_128,
                   i32* __restrict__ tiles_128, i32* __restrict__ slot, i32* __restrict__ pairs, i32* __restrict__ status,
                   i32* __restrict__ ignored, i32 tokens, i32 n, i32 top, i32 experts, i32 paired) {
  const int thread = static_cast<int>(threadIdx.x), total = tokens * top;
  if (blockIdx.x > 0) {
    const i64 unit = static_cast<i64>(blockIdx.x - 1) * kThreads + thread, at = unit * 4;
    const bool here = at < static_cast<i64>(tokens) * n;
    const float4 v = here ? load<float4>(x + at) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    u32 largest[1] = {largest_magnitude(v)};
    warp_max<8>(largest);
    if (!here) return;
    const ActivationScale scale = activation_scale(largest[0]);
    const int word = thread & 7, half = thread >> 3 & 1;
    u8* target = units + at / kUnitValues * kUnitBytes;
    const int place = paired ? word_place<true>(word) : word_place<false>(word);
    store<u32>(target + half * kActivationBlock + 4 * place, activation_codes(v, scale));
    if (word == 0) {
      store<float>(target + kUnitScales + 4 * half, scale.d);
      if (!scale.finite) atomicAdd(status, 1);
    }
    const int token = static_cast<int>(at / n), column = static_cast<int>(at - static_cast<i64>(token) * n);
    for (int rank = 0; rank < top; ++rank)
      if (static_cast<u32>(load(ids + token * top + rank)) >= static_cast<u32>(experts))
        store(rows + (static_cast<i64>(token) * top + rank) * n + column, float4{0.0f, 0.0f, 0.0f, 0.0f});
    return;
  }

  const Shared<i32> cursor = shared_array<i32>(0, EXPERTS);
  const Shared<i32> parts = shared_array<i32>(EXPERTS * 4, kScans * kWarps);
  const Shared<i32> nobody = shared_array<i32>(EXPERTS * 4 + kScans * kWarps * 4, 1);
  cursor.st(thread, 0);
  if (thread == 0) nobody.st(0, 0);
  __syncthreads();
  each_pair(ids, total, thread, [&](int, u32 id) {
    if (id < static_cast<u32>(experts)) shared_add(cursor, static_cast<int>(id), 1);
    else shared_add(nobody, 0, 1);
  });
  __syncthreads();
  const int count = thread < experts ? cursor.ld(thread) : 0;
  i32 before[kScans] = {count, (count + 63) / 64, (count + 127) / 128}, totals[kScans];
  exclusive_sums(before, totals, parts, thread);
  if (thread < experts) {
    store(offsets + thread, before[0]);
    store(tile_of_64 + thread, before[1]);
    store(tile_of_128 + thread, before[2]);
    list_tiles<64>(tiles_64, before[1], thread, before[0], count);
    list_tiles<128>(tiles_128, before[2], thread, before[0], count);
    cursor.st(thread, before[0]);
  }
  if (thread == 0) {
    store(offsets + experts, totals[0]);
    store(tile_of_64 + experts, totals[1]);
    store(tile_of_128 + experts, totals[2]);
    store(ignored, nobody.ld(0));
  }
  __syncthreads();
  each_pair(ids, total, thread, [&](int i, u32 id) {
    const bool valid = id < static_cast<u32>(experts);
    const int place = valid ? shared_add(cursor, static_cast<int>(id), 1) : -1;
    store(slot + i, place);
    if (valid) store(pairs + place, i);
  });
}
