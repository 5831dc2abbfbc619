// One product of an expert layer, grouped by expert: gate and up with SwiGLU and int8 H, or down.
//
// A block takes WEIGHT_ROWS rows of an expert's weights and up to COLUMNS of its routed rows, and walks K in stages of
// 64 values, a unit of activations. Each warp owns 16 FRAGMENTS rows, decodes them straight into the registers of the
// matrix instruction, and multiplies them by all the columns; only activations are shared. On sm80 the warp's blocks of
// weights come to shared memory first, as they lie in the blob. What is computed, and in which order, stands in
// expert_fused.py; nothing there depends on the sizes here.
//
// -D: TIER (75 or 80), FORMAT (include/expert_formats.cuh; IQ4_NL and Q2_0 make the down product, others gate and up),
// WEIGHT_ROWS, COLUMNS, FRAGMENTS, STAGES, SHARED_BYTES (what the launch gives, checked below), MIN_BLOCKS.

#include "include/expert_copies.cuh"
#include "include/expert_finish.cuh"

// Whether there are registers for the next item's tile.
constexpr bool kAhead = kDown || (FRAGMENTS == 2 && Fragment<FORMAT>::paired);

// What a block works on: rows of an expert from `first` on. The next item's is read while this one is worked on.
struct Work {
  int expert, first, rows;
  u64 blob;
  MEMBER void find(const i32* tiles, int tile) { expert = load(tiles + 2 * tile), first = load(tiles + 2 * tile + 1); }
  MEMBER void look_up(const i32* offsets, const u64* blobs) {
    rows = load(offsets + expert + 1) - first;
    blob = load(blobs + expert);
  }
};

// blobs: address of each expert. tiles: {expert, first row} of every COLUMNS rows, in order of experts; tile_of and
// offsets [experts + 1]: the first tile and the first row of an expert. pairs: the pair of each row. units: int8, of
// tokens for gate and up, of rows for down, see activation.cuh. h: units of rows, out: rows of pairs; one of them is
// written. n, ff: sizes of an expert; down_at: bytes before its down rows. begin, end: the experts of this launch.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
#if FORMAT == TYPE_IQ4_NL || FORMAT == TYPE_Q2_0
    expert_down(
#else
    expert_gate_up(
#endif
        const u64* __restrict__ blobs, const i32* __restrict__ tiles, const i32* __restrict__ tile_of,
        const i32* __restrict__ offsets, const i32* __restrict__ pairs, const u8* __restrict__ units,
        const u32* __restrict__ table, u8* __restrict__ h, float* __restrict__ out, float* __restrict__ trace,
        i32* __restrict__ status, i64 down_at, i32 n, i32 ff, i32 top, i32 begin, i32 end) {
  const Shared<u8> staged = shared_array<u8>(Shape::x, STAGES * kStage);
  const Shared<u8> words = shared_array<u8>(Shape::weights, kWordsBytes);
  const Shared<float> sums = shared_array<float>(0, Shape::sums / 4);
  const Shared<i32> pair_of = shared_array<i32>(Shape::pairs, kDown ? COLUMNS : 0);
  const Shared<u32> grid = shared_array<u32>(Shape::grid, kGrid);

  const int thread = kept(static_cast<int>(threadIdx.x)), lane = thread & 31;
  const Place me{thread, thread >> 5, lane, lane >> 2, lane & 3};
  const int k = kDown ? ff : n, stages = k / kUnitValues;
  const int row_bytes = k / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes;
  const int weight_rows = kDown ? n : 2 * ff, weight_blocks = (weight_rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
  const int code_at = kept((lane & 7) * kUnitBytes + (lane >> 3) * 16), scale_at = kept(2 * me.t * kUnitBytes + kUnitScales);
  load_fragment_grid<FORMAT>(table, grid, thread, kThreads);
  // Loads run ahead of the tiles that are multiplied, into columns that nobody may have filled.
  if (TIER >= 80)
    for (int i = 16 * thread; i < STAGES * kStage; i += 16 * kThreads) staged.st<uint4>(i, uint4{0, 0, 0, 0});
  Levels levels;
  make_levels<FORMAT>(levels, static_cast<u32>(k) >> 31 & lane);

  const int first_tile = load(tile_of + begin), items = (load(tile_of + end) - first_tile) * weight_blocks;
  int item = static_cast<int>(blockIdx.x);
  Work next;
  if (item < items) next.find(tiles, first_tile + item / weight_blocks), next.look_up(offsets, blobs);
  for (; item < items; item += static_cast<int>(gridDim.x)) {
    const int block = item % weight_blocks, first = next.first, columns = next.rows < COLUMNS ? next.rows : COLUMNS;
    const u8* blob = global_bytes(next.blob);
    const int later = item + static_cast<int>(gridDim.x);
    Incoming incoming;
    if (kDown) {
      incoming.begin(me, units, k, columns, [&](int column) { return first + column; });
    } else {
      incoming.begin(me, units, k, columns, [&](int column) { return load(pairs + first + column) / top; });
    }
    __syncthreads();   // the last item is done with shared memory
    if (kDown)
      for (int i = thread; i < columns; i += kThreads) pair_of.st(i, load(pairs + first + i));

    // Rows of the weights. A warp past the last takes that one again, and stores nothing.
    const u8* rows[FRAGMENTS][2];
    const int own = me.warp * 8 * FRAGMENTS;   // features, or half the rows
    const int feature = block * kFeatures + own < ff ? block * kFeatures + own : ff - 8 * FRAGMENTS;
    const int row = kDown ? block * WEIGHT_ROWS + 2 * own : feature;
    const u8* first_row = blob + (kDown ? down_at : 0) + static_cast<i64>(row) * row_bytes;
    const i64 apart = static_cast<i64>(kDown ? 8 * FRAGMENTS : ff) * row_bytes;
#if TIER >= 80
    Weights weights;
    weights.begin(lane, first_row, apart, kDown ? blob + down_at + static_cast<i64>(n) * row_bytes : blob, row_bytes);
    const int lowest = kept(static_cast<int>(reinterpret_cast<u64>(first_row)) + me.g * row_bytes);
    const int words_base = kept(row_place(me.g));
    const auto buffer_at = [&](int chunk) { return (chunk % kBuffers * kWarps + me.warp) * kWarpBytes; };
    // The first stage of a chunk starts another. The last row of down ends where the blob may: a chunk with fewer bytes
    // behind it than whole pieces reach over its own end, at the lowest address, goes the careful way.
    const auto bring = [&](int stage) {
      const int chunk = stage / kChunk, behind = row_bytes - (chunk + 1) * kChunkBytes;
      if (stage % kChunk != 0 || stage >= stages) return;
      if (kDown && behind < 16 * kPieces - kChunkBytes) weights.start_at_end(words, buffer_at(chunk), chunk);
      else weights.start(words, buffer_at(chunk), chunk);
    };
#else
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        rows[m][r] = first_row + ((kDown ? 16 * m + 8 * r : 8 * m + r * ff) + me.g) * static_cast<i64>(row_bytes);
#endif

    const auto stage_at = [&](int stage) { return staged.part(stage % STAGES * kStage, kStage); };
    const auto start = [&](int stage) {
      if (stage < stages) incoming.start(stage, stage_at(stage));
#if TIER >= 80
      cp_async_commit();
#endif
    };

    Sums acc;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[m][j][e] = 0.0f;
#if TIER >= 80
    weights.start_at_end(words, buffer_at(0), 0);
    for (int stage = kChunk; stage < STAGES; ++stage) bring(stage);
    for (int stage = 0; stage < STAGES - 1; ++stage) start(stage);
#else
    Raw raw;
    raw.fetch(rows, 0, me.t);
    start(0);
    incoming.land(stage_at(0));
#endif
    if (kAhead && later < items) next.find(tiles, first_tile + later / weight_blocks);
    for (int stage = 0; stage < stages; ++stage) {
#if TIER >= 80
      cp_async_wait<STAGES - 2>();
#endif
      __syncthreads();   // this stage has arrived, and everybody is done with the one before
      const Shared<u8> codes_here = rest(staged, STAGES * kStage, stage % STAGES * kStage + code_at);
      const Shared<u8> scales_here = rest(staged, STAGES * kStage, stage % STAGES * kStage + scale_at);
      Operands x;   // sm80 loads those of the next tiles before it multiplies; sm75 has no registers for that
      Decoded w;
#if TIER >= 80
      // Loads first: copies start while they are under way.
      const int chunk = stage / kChunk, buffer = buffer_at(chunk);
      const int raw_at = words_base + buffer + ((lowest + chunk * kChunkBytes) & 14);
      Raw raw;
      raw.fetch(rest(words, kWordsBytes, raw_at), kWordsBytes - raw_at, stage, me.t);
      x.load(codes_here, scales_here, 0);
      bring(stage + STAGES);   // arrives with that stage at the latest
      start(stage + STAGES - 1);
      w.decode(raw, stage, me.t, grid, levels);
#else
      start(stage + STAGES - 1);
      w.decode(raw, stage, me.t, grid, levels);
      if (stage + 1 < stages) raw.fetch(rows, stage + 1, me.t);
#endif
#pragma unroll
      for (int j = 0; j < kTiles; j += kTogether) {
        if (j > 0 && 8 * j >= columns) break;
        if (TIER < 80) x.load(codes_here, scales_here, j);
        Operands next = x;
        if (TIER >= 80 && j + kTogether < kTiles) next.load(codes_here, scales_here, j + kTogether);
        multiply(acc, w, x, j);
        x = next;
      }
#if TIER < 80
      if (stage + 1 < stages) incoming.land(stage_at(stage + 1));
#endif
    }
#if TIER >= 80
    cp_async_wait<0>();
#endif
    if (later < items) {
      if (!kAhead) next.find(tiles, first_tile + later / weight_blocks);
      next.look_up(offsets, blobs);
    }
    if constexpr (kDown) {
      finish_down(acc, me, pair_of, out, status, block * WEIGHT_ROWS, n, columns);
    } else {
      __syncthreads();   // the sums lie where the stages were
      finish_gate_up(acc, me, sums, h, trace, status, first, block * kFeatures, ff, columns);
    }
  }
}
