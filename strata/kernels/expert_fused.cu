// One product of an expert layer, grouped by expert: gate and up with SwiGLU and int8 H, or down.
//
// A block takes WEIGHT_ROWS rows of an expert's weights and up to COLUMNS of its routed rows, and walks K in stages of
// 64 values. Each warp owns 16 FRAGMENTS rows, decodes them from the blob straight into the registers of the matrix
// instruction, and multiplies them by all the columns; only activations are shared. What is computed, and in which
// order, stands in expert_fused.py; nothing there depends on the sizes here.
//
// -D: TIER (75 or 80), FORMAT (include/expert_formats.cuh; IQ4_NL and Q2_0 make the down product, others gate and up),
// WEIGHT_ROWS, COLUMNS, FRAGMENTS, STAGES, SHARED_BYTES (what the launch gives, checked below), MIN_BLOCKS.

#include "include/activation.cuh"
#include "include/expert_fragments.cuh"
#include "include/int8.cuh"
#include "include/swiglu.cuh"

constexpr bool kDown = FORMAT == TYPE_IQ4_NL || FORMAT == TYPE_Q2_0;
constexpr int kWarps = WEIGHT_ROWS / (16 * FRAGMENTS), kThreads = 32 * kWarps;
constexpr int kTiles = COLUMNS / 8;            // of 8 columns
constexpr int kTogether = 2;                   // tiles that are skipped or multiplied together
constexpr int kStageValues = 64;               // two blocks of 32: 64 bytes of codes and 2 scales a column
constexpr int kScales = Fragment<FORMAT>::scales;
constexpr int kGrid = Blocks<FORMAT>::grid_words;
// SwiGLU's result on its way to int8: floats of a column, 4 more than a multiple of 32 for the banks.
constexpr int kFeatures = WEIGHT_ROWS / 2, kFeatureRow = kFeatures + 4;
constexpr i32 kStart = 0x4b400000;             // 1.5 * 2^23 as bits: an integer added to it is a float that far from it

static_assert(COLUMNS % (8 * kTogether) == 0 && COLUMNS <= 2 * kThreads, "columns fill groups, and threads copy their scales");
static_assert(kFeatures % kActivationBlock == 0, "blocks of h lie in one block of threads");

// Byte offsets of the arrays in shared memory. h takes the place of the stages once they are used up.
struct Shape {
  static constexpr int codes = 0;
  static constexpr int scales = codes + STAGES * COLUMNS * kStageValues;
  static constexpr int stages = scales + STAGES * COLUMNS * 8;
  static constexpr int h = kDown ? 0 : COLUMNS * kFeatureRow * 4;
  static constexpr int source = stages > h ? stages : h;
  static constexpr int grid = source + COLUMNS * 4;
  static constexpr int end = grid + kGrid * 4;
};
static_assert(Shape::end == SHARED_BYTES, "expert_fused.py and this file disagree on shared memory");

struct Place {   // g and t: row group and column pair in a matrix fragment
  int thread, warp, lane, g, t;
};

// A stage of activations on its way to shared memory, by cp.async, or through registers where it waits until `land`.
// Columns past the expert's rows become zeros as far as a group of tiles reaches.
struct Incoming {
  static constexpr int each = COLUMNS * 4 / kThreads > 0 ? COLUMNS * 4 / kThreads : 1;
  static constexpr int scales_each = COLUMNS / kThreads > 0 ? COLUMNS / kThreads : 1;
#if TIER < 80
  uint4 held[each];
  uint2 held_scales[scales_each];
#endif

  // 16-byte pieces change places within pairs of rows, so that eight rows of a piece lie in all banks.
  MEMBER static int place(int column, int piece) { return column * kStageValues + ((piece ^ (column >> 1 & 3)) * 16); }

  // The row of `from` that a column takes: its token's, or in down the next one.
  MEMBER static i64 row_of(Shared<i32> source, int column) { return kDown ? column : source.ld(column); }

  MEMBER void start(const Place& me, Shared<u8> codes, Shared<float> scales, Shared<i32> source, const u8* from,
                    const float* from_scales, int k, int stage, int columns, int read) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int unit = me.thread + i * kThreads, column = unit >> 2, piece = unit & 3;
      if (column >= read) continue;
      const bool valid = column < columns;
      const u8* here = from + row_of(source, column) * k + stage * kStageValues + piece * 16;
#if TIER >= 80
      cp_async<16>(codes, place(column, piece), here, valid);
#else
      held[i] = valid ? load<uint4>(here) : uint4{0, 0, 0, 0};
#endif
    }
#pragma unroll
    for (int i = 0; i < scales_each; ++i) {
      const int column = me.thread + i * kThreads;
      if (column >= read) continue;
      const bool valid = column < columns;
      const float* here = from_scales + row_of(source, column) * (k / kActivationBlock) + stage * 2;
#if TIER >= 80
      cp_async<8>(scales, column * 2, here, valid);
#else
      held_scales[i] = valid ? load<uint2>(here) : uint2{0, 0};
#endif
    }
  }

  MEMBER void land(const Place& me, Shared<u8> codes, Shared<float> scales, int read) {
#if TIER < 80
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int unit = me.thread + i * kThreads, column = unit >> 2;
      if (column < read) codes.template st<uint4>(place(column, unit & 3), held[i]);
    }
#pragma unroll
    for (int i = 0; i < scales_each; ++i) {
      const int column = me.thread + i * kThreads;
      if (column < read) scales.template st<uint2>(column * 2, held_scales[i]);
    }
#endif
  }
};

// The rows of a warp's fragments, two a lane: rows g and g + 8 of each 16.
struct Rows {
  const u8* row[FRAGMENTS][2];
};

struct Raw {   // a stage of weights as it lies in memory
  Fragment<FORMAT> part[2][FRAGMENTS][2];
  MEMBER void fetch(const Rows& rows, int stage, int t) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) part[i][m][r] = fetch_fragment<FORMAT>(rows.row[m][r], 2 * stage + i, t);
  }
};

struct Decoded {   // registers a[m][2 * half + r], as m16n8k32 takes them
  u32 a[2][FRAGMENTS][4];
  float scale[2][FRAGMENTS][2][kScales];
  MEMBER void decode(const Raw& raw, int stage, int t, Shared<u32> grid) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          u32 codes[2];
          decode_fragment<FORMAT>(raw.part[i][m][r], 2 * stage + i, t, grid, codes, scale[i][m][r]);
          a[i][m][r] = codes[0], a[i][m][2 + r] = codes[1];
        }
  }
};

using Sums = float[FRAGMENTS][kTiles][4];

DEVICE float exact_float(i32 dot) { return __fsub_rn(bits_to_float(static_cast<u32>(dot)), bits_to_float(static_cast<u32>(kStart))); }

// acc += one stage of the tiles first .. first + kTogether - 1: the block of 32 at lower k, then the other.
DEVICE void multiply(Sums& acc, const Decoded& w, const Place& me, Shared<u8> codes, Shared<float> scales, int first) {
  u32 b[kTogether][4];
  float4 d_x[kTogether];   // of columns 2t and 2t + 1, two blocks each
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    ldmatrix_x4<false>(b[j], codes, Incoming::place(8 * (first + j) + (me.lane & 7), me.lane >> 3));
    d_x[j] = scales.template ld<float4>((8 * (first + j) + 2 * me.t) * 2);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kScales == 1) {
      u32 part[kTogether][2];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) part[j][0] = b[j][2 * i], part[j][1] = b[j][2 * i + 1];
      i32 dot[FRAGMENTS][kTogether][4];
      dots_k32_s8(dot, w.a[i], part, kStart);
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float d = e & 1 ? (i ? d_x[j].w : d_x[j].z) : (i ? d_x[j].y : d_x[j].x);
            const float p = __fmul_rn(w.scale[i][m][e >> 1][0], d);
            acc[m][first + j][e] = __fmaf_rn(p, exact_float(dot[m][j][e]), acc[m][first + j][e]);
          }
    } else {
      i32 dot[2][FRAGMENTS][kTogether][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 part[kTogether][1], a[FRAGMENTS][2];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) part[j][0] = b[j][2 * i + half];
#pragma unroll
        for (int m = 0; m < FRAGMENTS; ++m) a[m][0] = w.a[i][m][2 * half], a[m][1] = w.a[i][m][2 * half + 1];
        dots_k16_s8(dot[half], a, part, kStart);
      }
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float d = e & 1 ? (i ? d_x[j].w : d_x[j].z) : (i ? d_x[j].y : d_x[j].x);
            const float v = __fmul_rn(w.scale[i][m][e >> 1][0], exact_float(dot[0][m][j][e]));
            const float both = __fmaf_rn(w.scale[i][m][e >> 1][kScales - 1], exact_float(dot[1][m][j][e]), v);
            acc[m][first + j][e] = __fmaf_rn(d, both, acc[m][first + j][e]);
          }
    }
  }
}

// SwiGLU of a block's gate and up sums, then int8 for 32 features, into rows first .. first + columns - 1 of h.
DEVICE void finish_gate_up(const Sums& acc, const Place& me, Shared<float> h, u8* h_codes, float* h_scales, float* trace,
                           i32* status, i64 first, int feature, int ff, int columns) {
#pragma unroll
  for (int m = 0; m < FRAGMENTS; ++m) {
    const int local = 8 * (me.warp * FRAGMENTS + m) + me.g;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = 8 * j + 2 * me.t + c;
        if (column >= columns || feature + local >= ff) continue;
        const float gate = acc[m][j][c], up = acc[m][j][2 + c];
        h.st(column * kFeatureRow + local, swiglu(gate, up));
        if (trace != nullptr) {
          float* here = trace + (first + column) * 2 * ff + feature + local;
          store(here, gate);
          store(here + ff, up);
        }
      }
  }
  __syncthreads();
  constexpr int kBlocks = kFeatures / kActivationBlock;
  const int units = columns * kBlocks;   // 8 lanes each
  for (int base = me.warp * 4; base < units; base += kWarps * 4) {
    const int unit = base + (me.lane >> 3), column = unit / kBlocks, block = unit % kBlocks, part = 4 * (me.lane & 7);
    const bool here = unit < units && feature + block * kActivationBlock < ff;
    const float4 v = here ? h.template ld<float4>(column * kFeatureRow + block * kActivationBlock + part) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    u32 largest[1] = {largest_magnitude(v)};
    warp_max<8>(largest);
    if (!here) continue;
    const ActivationScale scale = activation_scale(largest[0]);
    const i64 at = (first + column) * ff + feature + block * kActivationBlock;
    store<u32>(h_codes + at + part, activation_codes(v, scale));
    if (part == 0) {
      store(h_scales + at / kActivationBlock, scale.d);
      if (!scale.finite) atomicAdd(status + 1, 1);
    }
  }
}

// Sums of down as they are, each row to its pair.
DEVICE void finish_down(const Sums& acc, const Place& me, Shared<i32> pairs, float* out, i32* status, int row, int n, int columns) {
  int lost = 0;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = 8 * j + 2 * me.t + c;
      if (column >= columns) continue;
      float* here = out + static_cast<i64>(pairs.ld(column)) * n;
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int at = row + 16 * (me.warp * FRAGMENTS + m) + 8 * r + me.g;
          const float v = acc[m][j][2 * r + c];
          if (at < n) {
            store(here + at, v);
            lost += magnitude_bits(v) >= kInfinityBits;
          }
        }
    }
  if (lost > 0) atomicAdd(status + 2, lost);
}

// blobs: address of each expert. tiles: {expert, first row} of every COLUMNS rows, in order of experts; tile_of and
// offsets [experts + 1]: the first tile and the first row of an expert. pairs: the pair of each row. codes, scales:
// int8 [rows, k], [rows, k / 32]: tokens for gate and up, rows for down. n, ff: sizes of an expert; down_at: bytes
// before its down rows. begin, end: the experts of this launch.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
#if FORMAT == TYPE_IQ4_NL || FORMAT == TYPE_Q2_0
    expert_down(
#else
    expert_gate_up(
#endif
        const u64* __restrict__ blobs, const i32* __restrict__ tiles, const i32* __restrict__ tile_of,
        const i32* __restrict__ offsets, const i32* __restrict__ pairs, const u8* __restrict__ codes_in,
        const float* __restrict__ scales_in, const u32* __restrict__ table, u8* __restrict__ h_codes,
        float* __restrict__ out, float* __restrict__ trace, i32* __restrict__ status, i64 down_at, i32 n, i32 ff, i32 top,
        i32 begin, i32 end) {
  const Shared<u8> codes = shared_array<u8>(Shape::codes, STAGES * COLUMNS * kStageValues);
  const Shared<float> scales = shared_array<float>(Shape::scales, STAGES * COLUMNS * 2);
  const Shared<float> h = shared_array<float>(0, Shape::h / 4);
  const Shared<i32> source = shared_array<i32>(Shape::source, COLUMNS);
  const Shared<u32> grid = shared_array<u32>(Shape::grid, kGrid);

  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31;
  const Place me{thread, thread >> 5, lane, lane >> 2, lane & 3};
  const int k = kDown ? ff : n, stages = k / kStageValues;
  const int row_bytes = k / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes;
  const int weight_rows = kDown ? n : 2 * ff, weight_blocks = (weight_rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
  load_grid<FORMAT>(table, grid, thread, kThreads);

  const int first_tile = load(tile_of + begin), items = (load(tile_of + end) - first_tile) * weight_blocks;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int tile = first_tile + item / weight_blocks, block = item % weight_blocks;
    const int expert = load(tiles + 2 * tile), first = load(tiles + 2 * tile + 1);
    const int left = load(offsets + expert + 1) - first, columns = left < COLUMNS ? left : COLUMNS;
    const int read = (columns + 8 * kTogether - 1) & -(8 * kTogether);
    __syncthreads();   // the last item is done with shared memory
    for (int i = thread; i < columns; i += kThreads) {
      const int pair = load(pairs + first + i);
      source.st(i, kDown ? pair : pair / top);
    }
    for (int i = columns + thread; i < read; i += kThreads) source.st(i, 0);
    __syncthreads();

    Rows rows;
    const u8* blob = reinterpret_cast<const u8*>(load(blobs + expert));
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m) {
      // A warp past the last row takes the last ones again, and stores nothing.
      if (kDown) {
        int row = block * WEIGHT_ROWS + 16 * (me.warp * FRAGMENTS + m);
        row = (row < n - 16 ? row : n - 16) + me.g;
        rows.row[m][0] = blob + down_at + static_cast<i64>(row) * row_bytes;
        rows.row[m][1] = rows.row[m][0] + 8 * row_bytes;
      } else {
        int row = block * kFeatures + 8 * (me.warp * FRAGMENTS + m);
        row = (row < ff - 8 ? row : ff - 8) + me.g;
        rows.row[m][0] = blob + static_cast<i64>(row) * row_bytes;
        rows.row[m][1] = rows.row[m][0] + static_cast<i64>(ff) * row_bytes;
      }
    }

    Incoming incoming;
    const u8* from = kDown ? codes_in + static_cast<i64>(first) * k : codes_in;
    const float* from_scales = kDown ? scales_in + static_cast<i64>(first) * (k / kActivationBlock) : scales_in;
    const auto codes_at = [&](int stage) { return codes.part(stage % STAGES * COLUMNS * kStageValues, COLUMNS * kStageValues); };
    const auto scales_at = [&](int stage) { return scales.part(stage % STAGES * COLUMNS * 2, COLUMNS * 2); };
    const auto start = [&](int stage) {
      if (stage < stages) incoming.start(me, codes_at(stage), scales_at(stage), source, from, from_scales, k, stage, columns, read);
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
    Raw raw;
    raw.fetch(rows, 0, me.t);
#if TIER >= 80
    for (int stage = 0; stage < STAGES - 1; ++stage) start(stage);
#else
    start(0);
    incoming.land(me, codes_at(0), scales_at(0), read);
#endif
    for (int stage = 0; stage < stages; ++stage) {
#if TIER >= 80
      cp_async_wait<STAGES - 2>();
      __syncthreads();   // this stage has arrived, and everybody is done with the one before
      start(stage + STAGES - 1);
#else
      __syncthreads();
      start(stage + 1);
#endif
      Decoded w;
      w.decode(raw, stage, me.t, grid);
      if (stage + 1 < stages) raw.fetch(rows, stage + 1, me.t);
      const Shared<u8> codes_here = codes_at(stage);
      const Shared<float> scales_here = scales_at(stage);
#pragma unroll
      for (int j = 0; j < kTiles; j += kTogether)
        if (8 * j < columns) multiply(acc, w, me, codes_here, scales_here, j);
#if TIER < 80
      if (stage + 1 < stages) incoming.land(me, codes_at(stage + 1), scales_at(stage + 1), read);
#endif
    }
#if TIER >= 80
    cp_async_wait<0>();
#endif
    if constexpr (kDown) {
      finish_down(acc, me, source, out, status, block * WEIGHT_ROWS, n, columns);
    } else {
      __syncthreads();   // h lies where the stages were
      finish_gate_up(acc, me, h, h_codes, out, trace, status, first, block * kFeatures, ff, columns);
    }
  }
}
