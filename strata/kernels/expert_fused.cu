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

#include "include/activation.cuh"
#include "include/expert_fragments.cuh"
#include "include/int8.cuh"
#include "include/swiglu.cuh"

constexpr bool kDown = FORMAT == TYPE_IQ4_NL || FORMAT == TYPE_Q2_0;
constexpr int kWarps = WEIGHT_ROWS / (16 * FRAGMENTS), kThreads = 32 * kWarps;
constexpr int kTiles = COLUMNS / 8;            // of 8 columns
constexpr int kTogether = 2;                   // tiles that are skipped or multiplied together
constexpr int kScales = Fragment<FORMAT>::scales;
constexpr int kGrid = Fragment<FORMAT>::grid_words;
// SwiGLU's result on its way to int8: floats of a column, 4 more than a multiple of 32 for the banks.
constexpr int kFeatures = WEIGHT_ROWS / 2, kFeatureRow = kFeatures + 4;
// Dots start at the bits of 1.5 * 2^23: an integer below 2^22 added to them is a float that far from it. So d_w dot is
// fma(that float, d_w, -1.5 * 2^23 d_w), rounded once: d_w has at most 17 significant bits, and three times it 19, so the
// addend is exact. Integers need no conversion. Where d_w is infinite it gives NaN.
constexpr i32 kStart = 0x4b400000;
constexpr float kStartValue = 12582912.0f;

static_assert(COLUMNS % (8 * kTogether) == 0 && COLUMNS <= kThreads, "columns fill groups, and each has a thread");
static_assert(kFeatures % kActivationBlock == 0, "blocks of h lie in one block of threads");

// Weights in shared memory (sm80) come by chunks: four stages, 256 values, of each row in one of two buffers, or two
// stages in one of three where the others would take more than 99 KiB.
constexpr bool kStaged = TIER >= 80;
constexpr int kChunk = FORMAT == TYPE_IQ4_NL && WEIGHT_ROWS == 256 ? 2 : 4, kBuffers = kChunk == 2 ? 3 : 2;
constexpr int kChunkValues = kChunk * kUnitValues;
constexpr int kChunkBytes = kChunkValues / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes;
constexpr int kWords = (kChunkBytes + 5) / 4;         // 4-byte words that it touches, at any even address
constexpr int kRowWords = (kWords + 3) / 8 * 8 + 4;   // for the banks of eight rows
constexpr int kWarpWords = 16 * FRAGMENTS * kRowWords;

// Byte offsets of the arrays in shared memory. h takes the place of the stages once they are used up.
struct Shape {
  static constexpr int codes = 0;
  static constexpr int scales = codes + STAGES * COLUMNS * kUnitValues;
  static constexpr int weights = scales + STAGES * COLUMNS * 8;
  static constexpr int stages = weights + (kStaged ? kBuffers * kWarps * kWarpWords * 4 : 0);
  static constexpr int h = kDown ? 0 : COLUMNS * kFeatureRow * 4;
  static constexpr int pairs = stages > h ? stages : h;
  static constexpr int grid = pairs + COLUMNS * 4;
  static constexpr int end = grid + kGrid * 4;
};
static_assert(Shape::end == SHARED_BYTES, "expert_fused.py and this file disagree on shared memory");

struct Place {   // g and t: row group and column pair in a matrix fragment
  int thread, warp, lane, g, t;
};

// A stage of activations on its way to shared memory, by cp.async, or through registers where it waits until `land`.
// Each thread brings one part of one column; columns past the expert's rows become zeros.
struct Incoming {
  static constexpr int each = COLUMNS * 4 / kThreads > 0 ? COLUMNS * 4 / kThreads : 1;   // 16-byte pieces a thread
  static constexpr int sharers = 4 / each;                                              // threads a column
  const u8* from;
  int column, piece;
  bool mine, valid;
#if TIER < 80
  uint4 held[each];
  uint2 held_scales;
#endif

  // 16-byte pieces change places within pairs of rows, so that eight rows of a piece lie in all banks.
  MEMBER static int place(int column, int piece) { return column * kUnitValues + ((piece ^ (column >> 1 & 3)) * 16); }

  // rows: the first unit of row 0; row_of: the row of each column.
  template <class RowOf>
  MEMBER void begin(const Place& me, const u8* rows, int k, int columns, const RowOf& row_of) {
    column = me.thread / sharers, piece = me.thread % sharers * each;
    valid = column < columns;
    mine = column < COLUMNS;
    from = rows;
    if (valid) from += static_cast<i64>(row_of(column)) * (k / kUnitValues * kUnitBytes);
  }

  MEMBER void start(Shared<u8> codes, Shared<float> scales) {
    if (mine) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
#if TIER >= 80
        cp_async<16>(codes, place(column, piece + i), from + 16 * (piece + i), valid);
#else
        held[i] = valid ? load<uint4>(from + 16 * (piece + i)) : uint4{0, 0, 0, 0};
#endif
      }
      if (piece == 0) {
#if TIER >= 80
        cp_async<8>(scales, column * 2, from + kUnitScales, valid);
#else
        held_scales = valid ? load<uint2>(from + kUnitScales) : uint2{0, 0};
#endif
      }
    }
    from += kUnitBytes;
  }

  MEMBER void land(Shared<u8> codes, Shared<float> scales) {
#if TIER < 80
    if (!mine) return;
#pragma unroll
    for (int i = 0; i < each; ++i) codes.template st<uint4>(place(column, piece + i), held[i]);
    if (piece == 0) scales.template st<uint2>(column * 2, held_scales);
#endif
  }
};

// Blocks of weights hold kParts times 32 values; a stage takes two of those.
constexpr int kParts = Blocks<FORMAT>::values / 32, kStagesOfBlock = kParts / 2 > 0 ? kParts / 2 : 1;
DEVICE int first_part(int stage) { return kParts > 2 ? 2 * (stage % kStagesOfBlock) : 0; }

#if TIER >= 80
// Weights of a warp on their way to shared memory, as they are, in aligned words: rows lie at even addresses, so a word
// at either end may hold two bytes of a neighbour. Only words that reach over the blob's ends are taken by halves. A
// part is 8 FRAGMENTS rows: those of gate and of up, or the lower and the upper rows of down.
struct Weights {
  static constexpr int rows = 8 * FRAGMENTS;
  static constexpr int tail = kWords > 32 ? kWords - 32 : 0, tail_lanes = tail > 4 ? 8 : 4, tail_rows = 32 / tail_lanes;
  static_assert(tail <= 8 && rows % tail_rows == 0, "rows of more than 40 words");
  const u8* from;    // the lane's word of the first row of part 0
  i64 apart;         // bytes from part 0 to part 1
  const u8* edge;    // the blob's first byte for gate and up, its end for down
  int lane, row_bytes;
  int tail_from, tail_to;

  MEMBER void begin(int lane_, const u8* first, i64 apart_, const u8* edge_, int row_bytes_) {
    lane = lane_, row_bytes = row_bytes_, apart = apart_, edge = edge_;
    from = first + 4 * lane;
    const int word = 32 + lane % tail_lanes, row = lane / tail_lanes;
    tail_from = row * row_bytes + 4 * word - 4 * lane;
    tail_to = row * kRowWords + word;
  }
  // EDGE: whether the word may reach over the blob's end.
  template <bool EDGE>
  MEMBER void word(Shared<u8> to, int at, const u8* p) {
    const u8* aligned = reinterpret_cast<const u8*>(reinterpret_cast<u64>(p) & ~static_cast<u64>(3));
    if (EDGE && (kDown ? aligned + 4 > edge : aligned < edge)) {
      if (!kDown) to.st<u16>(4 * at + 2, load<u16>(aligned + 2));
      else if (aligned + 2 <= edge) to.st<u16>(4 * at, load<u16>(aligned));
    } else {
      cp_async<4>(to, 4 * at, aligned, true);
    }
  }
  // left: values from the chunk on. FIRST: whether it is the rows' first.
  template <bool FIRST>
  MEMBER void start(Shared<u8> to, int part, int chunk, int left) {
    const u8* p = from + part * apart + chunk * kChunkBytes;
    const int words = left >= kChunkValues ? kWords : (left / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes + 5) / 4;
    const int at = part * rows * kRowWords;
    if (lane < words) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const int here = at + r * kRowWords + lane;
        if (kDown ? r == rows - 1 : FIRST && r == 0) word<true>(to, here, p + r * row_bytes);
        else word<false>(to, here, p + r * row_bytes);
      }
    }
    if constexpr (tail > 0) {
      if (32 + lane % tail_lanes < words) {
#pragma unroll
        for (int r = 0; r < rows; r += tail_rows) {
          const int here = at + r * kRowWords + tail_to;
          if (kDown && r == rows - tail_rows) word<true>(to, here, p + tail_from + r * row_bytes);
          else word<false>(to, here, p + tail_from + r * row_bytes);
        }
      }
    }
  }
};
#endif

struct Raw {   // a stage of weights as it lies in memory; rows g and g + 8 of each fragment
  Fragment<FORMAT> part[2][FRAGMENTS][2];
  MEMBER void fetch(const u8* const (&row)[FRAGMENTS][2], int stage, int t) {
    const int s = first_part(stage);
    const u32 at = static_cast<u32>(kParts > 1 ? stage / kStagesOfBlock : 2 * stage) * Blocks<FORMAT>::bytes;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u8* block = row[m][r] + at;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part[i][m][r] = fetch_fragment<FORMAT>(
              [&](int byte) { return load<u16>(block + byte + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes)); },
              kParts > 1 ? s + i : 0, t);
      }
  }
  // first: the byte in `words` where the lane's row g of part 0 begins its chunk.
  MEMBER void fetch(Shared<u8> words, int first, int stage, int t) {
    const int s = first_part(stage);
    const int block_of_chunk = kParts > 2 ? 0 : kParts == 2 ? stage % kChunk : 2 * (stage % kChunk);
    const int block = first + block_of_chunk * Blocks<FORMAT>::bytes;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = block + (kDown ? 16 * m + 8 * r : 8 * m + 8 * FRAGMENTS * r) * kRowWords * 4;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part[i][m][r] = fetch_fragment<FORMAT>(
              [&](int byte) { return words.template ld<u16>(row + byte + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes)); },
              kParts > 1 ? s + i : 0, t);
      }
  }
};

struct Decoded {   // registers as m16n8k32 takes them
  u32 a[2][FRAGMENTS][4];
  float scale[2][FRAGMENTS][2][kScales];
  float back[2][FRAGMENTS][2];   // -kStartValue times the first scale
  MEMBER void decode(const Raw& raw, int stage, int t, Shared<u32> grid) {
    const int s = first_part(stage);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          u32 codes[2];
          decode_fragment<FORMAT>(raw.part[i][m][r], kParts > 1 ? s + i : 0, t, grid, codes, scale[i][m][r]);
          a[i][m][r] = codes[0], a[i][m][2 + r] = codes[1];
          back[i][m][r] = __fmul_rn(-kStartValue, scale[i][m][r][0]);
        }
  }
};

using Sums = float[FRAGMENTS][kTiles][4];

// What a dot that starts at kStart stands for, as a float.
DEVICE float started(i32 dot) { return bits_to_float(static_cast<u32>(dot)); }

struct Operands {   // a stage of kTogether tiles of activations
  u32 b[kTogether][4];     // codes, 16 values a register
  float4 d_x[kTogether];   // of columns 2t and 2t + 1, two blocks each
  MEMBER void load(Shared<u8> codes, int code_at, Shared<float> scales, int scale_at, int first) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      ldmatrix_x4<false>(b[j], codes, code_at + 8 * (first + j) * kUnitValues);
      d_x[j] = scales.template ld<float4>(scale_at + 8 * (first + j) * 2);
    }
  }
};

// acc += one stage of the tiles first .. first + kTogether - 1: the block of 32 at lower k, then the other. code_at,
// scale_at: where the lane reads in tile 0.
DEVICE void multiply(Sums& acc, const Decoded& w, const Operands& x, int first) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kScales == 1) {
      u32 part[kTogether][2];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) part[j][0] = x.b[j][2 * i], part[j][1] = x.b[j][2 * i + 1];
      i32 dot[FRAGMENTS][kTogether][4];
      dots_k32_s8(dot, w.a[i], part, kStart);
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float d = e & 1 ? (i ? x.d_x[j].w : x.d_x[j].z) : (i ? x.d_x[j].y : x.d_x[j].x);
            const float v = __fmaf_rn(started(dot[m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);
            acc[m][first + j][e] = __fmaf_rn(d, v, acc[m][first + j][e]);
          }
    } else {
      i32 dot[2][FRAGMENTS][kTogether][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 part[kTogether][1], a[FRAGMENTS][2];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) part[j][0] = x.b[j][2 * i + half];
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
            const float d = e & 1 ? (i ? x.d_x[j].w : x.d_x[j].z) : (i ? x.d_x[j].y : x.d_x[j].x);
            const float v = __fmaf_rn(started(dot[0][m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);
            const float second = __fsub_rn(started(dot[1][m][j][e]), kStartValue);
            const float both = __fmaf_rn(w.scale[i][m][e >> 1][kScales - 1], second, v);
            acc[m][first + j][e] = __fmaf_rn(d, both, acc[m][first + j][e]);
          }
    }
  }
}

// Gate and up sums of a block as they are: [row][gate ff | up ff].
DEVICE void write_trace(const Sums& acc, const Place& me, float* trace, i64 first, int feature, int ff, int columns) {
#pragma unroll
  for (int m = 0; m < FRAGMENTS; ++m) {
    const int at = feature + 8 * (me.warp * FRAGMENTS + m) + me.g;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = 8 * j + 2 * me.t + c;
        if (column >= columns || at >= ff) continue;
        float* here = trace + (first + column) * 2 * ff + at;
        store(here, acc[m][j][c]);
        store(here + ff, acc[m][j][2 + c]);
      }
  }
}

// SwiGLU of a block's gate and up sums, then int8 for 32 features, into rows first .. first + columns - 1 of h. Tiles
// are done whole: what lies past the columns, or past the features, is not read again.
DEVICE void finish_gate_up(const Sums& acc, const Place& me, Shared<float> h, u8* units, i32* status, i64 first,
                           int feature, int ff, int columns) {
  const int local = 8 * me.warp * FRAGMENTS + me.g;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (8 * j >= columns) break;
    float gate[2 * FRAGMENTS], up[2 * FRAGMENTS], made[2 * FRAGMENTS];
#pragma unroll
    for (int i = 0; i < 2 * FRAGMENTS; ++i) gate[i] = acc[i / 2][j][i % 2], up[i] = acc[i / 2][j][2 + i % 2];
    swiglu_all(gate, up, made);
#pragma unroll
    for (int i = 0; i < 2 * FRAGMENTS; ++i) h.st((8 * j + 2 * me.t + i % 2) * kFeatureRow + local + 8 * (i / 2), made[i]);
  }
  __syncthreads();
  // Blocks of 32 features, each by 8 lanes, kAtOnce to a lane at a time.
  constexpr int kBlocks = kFeatures / kActivationBlock, kAtOnce = 4;
  const int count = columns * kBlocks, part = 4 * (me.lane & 7), row_bytes = ff / kUnitValues * kUnitBytes;
  u8* corner = units + first * row_bytes + feature / kUnitValues * kUnitBytes;
#pragma unroll 1
  for (int base = me.warp * 4 * kAtOnce; base < count; base += kWarps * 4 * kAtOnce) {
    float4 v[kAtOnce];
    u32 largest[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int number = base + 4 * i + (me.lane >> 3), column = number / kBlocks, block = number % kBlocks;
      v[i] = number < count ? h.template ld<float4>(column * kFeatureRow + block * kActivationBlock + part)
                            : float4{0.0f, 0.0f, 0.0f, 0.0f};
      largest[i] = largest_magnitude(v[i]);
    }
    warp_max<8>(largest);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int number = base + 4 * i + (me.lane >> 3), column = number / kBlocks, block = number % kBlocks;
      if (number >= count || feature + block * kActivationBlock >= ff) continue;
      const ActivationScale scale = activation_scale(largest[i]);
      u8* unit = corner + column * row_bytes + block / 2 * kUnitBytes;
      store<u32>(unit + block % 2 * kActivationBlock + part, activation_codes(v[i], scale));
      if (part == 0) {
        store<float>(unit + kUnitScales + block % 2 * 4, scale.d);
        if (!scale.finite) atomicAdd(status + 1, 1);
      }
    }
  }
}

// Sums of down as they are, each row to its pair. What is not finite is looked for in all of them at once.
DEVICE void finish_down(const Sums& acc, const Place& me, Shared<i32> pairs, float* out, i32* status, int row, int n, int columns) {
  const int at = row + 16 * me.warp * FRAGMENTS + me.g;
  float probe = 0.0f;   // becomes NaN
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (8 * j >= columns) break;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = 8 * j + 2 * me.t + c;
      if (column >= columns) continue;
      float* here = out + static_cast<i64>(pairs.ld(column)) * n + at;
#pragma unroll
      for (int i = 0; i < 2 * FRAGMENTS; ++i) {
        if (at + 8 * i >= n) continue;
        const float v = acc[i / 2][j][2 * (i % 2) + c];
        store(here + 8 * i, v);
        probe = __fmaf_rn(v, 0.0f, probe);
      }
    }
  }
  if (probe == 0.0f) return;
  int lost = 0;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int i = 0; i < 2 * FRAGMENTS; ++i)
        if (8 * j + 2 * me.t + c < columns && at + 8 * i < n)
          lost += magnitude_bits(acc[i / 2][j][2 * (i % 2) + c]) >= kInfinityBits;
  atomicAdd(status + 2, lost);
}

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
  const Shared<u8> codes = shared_array<u8>(Shape::codes, STAGES * COLUMNS * kUnitValues);
  const Shared<float> scales = shared_array<float>(Shape::scales, STAGES * COLUMNS * 2);
  const Shared<u8> words = shared_array<u8>(Shape::weights, kStaged ? 4 * kBuffers * kWarps * kWarpWords : 0);
  const Shared<float> activated = shared_array<float>(0, Shape::h / 4);
  const Shared<i32> pair_of = shared_array<i32>(Shape::pairs, COLUMNS);
  const Shared<u32> grid = shared_array<u32>(Shape::grid, kGrid);

  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31;
  const Place me{thread, thread >> 5, lane, lane >> 2, lane & 3};
  const int k = kDown ? ff : n, stages = k / kUnitValues;
  const int row_bytes = k / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes;
  const int weight_rows = kDown ? n : 2 * ff, weight_blocks = (weight_rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
  const int code_at = kept(Incoming::place(lane & 7, lane >> 3)), scale_at = kept(4 * me.t);
  load_fragment_grid<FORMAT>(table, grid, thread, kThreads);

  const int first_tile = load(tile_of + begin), items = (load(tile_of + end) - first_tile) * weight_blocks;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int tile = first_tile + item / weight_blocks, block = item % weight_blocks;
    const int expert = load(tiles + 2 * tile), first = load(tiles + 2 * tile + 1);
    const int left = load(offsets + expert + 1) - first, columns = left < COLUMNS ? left : COLUMNS;
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
    const u8* blob = global_bytes(load(blobs + expert));
    const int own = me.warp * 8 * FRAGMENTS;   // features, or half the rows
    const int feature = block * kFeatures + own < ff ? block * kFeatures + own : ff - 8 * FRAGMENTS;
    const int row = kDown ? block * WEIGHT_ROWS + 2 * own : feature;
    const u8* first_row = blob + (kDown ? down_at : 0) + static_cast<i64>(row) * row_bytes;
    const i64 apart = static_cast<i64>(kDown ? 8 * FRAGMENTS : ff) * row_bytes;
#if TIER >= 80
    Weights weights;
    weights.begin(lane, first_row, apart, kDown ? blob + down_at + static_cast<i64>(n) * row_bytes : blob, row_bytes);
    const u32 lowest = static_cast<u32>(reinterpret_cast<u64>(first_row)) + me.g * row_bytes;
    const int words_base = kept(me.g * kRowWords * 4);
    const auto buffer_at = [&](int chunk) { return (chunk % kBuffers * kWarps + me.warp) * kWarpWords * 4; };
    // In the first two stages of a chunk, starts half of it.
    const auto bring = [&](int stage) {
      const int chunk = stage / kChunk, part = stage % kChunk;
      if (part < 2 && chunk * kChunk < stages)
        weights.start<false>(words.part(buffer_at(chunk), kWarpWords * 4), part, chunk, k - kChunkValues * chunk);
    };
#else
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        rows[m][r] = first_row + ((kDown ? 16 * m + 8 * r : 8 * m + r * ff) + me.g) * static_cast<i64>(row_bytes);
#endif

    const auto codes_at = [&](int stage) { return codes.part(stage % STAGES * COLUMNS * kUnitValues, COLUMNS * kUnitValues); };
    const auto scales_at = [&](int stage) { return scales.part(stage % STAGES * COLUMNS * 2, COLUMNS * 2); };
    const auto start = [&](int stage) {
      if (stage < stages) incoming.start(codes_at(stage), scales_at(stage));
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
#pragma unroll
    for (int part = 0; part < 2; ++part) weights.start<true>(words.part(buffer_at(0), kWarpWords * 4), part, 0, k);
    for (int stage = kChunk; stage < STAGES; ++stage) bring(stage);
    for (int stage = 0; stage < STAGES - 1; ++stage) start(stage);
#else
    Raw raw;
    raw.fetch(rows, 0, me.t);
    start(0);
    incoming.land(codes_at(0), scales_at(0));
#endif
    for (int stage = 0; stage < stages; ++stage) {
#if TIER >= 80
      cp_async_wait<STAGES - 2>();
#endif
      __syncthreads();   // this stage has arrived, and everybody is done with the one before
#if TIER >= 80
      bring(stage + STAGES);   // arrives with that stage at the latest
#endif
      start(stage + STAGES - 1);
      const Shared<u8> codes_here = codes_at(stage);
      const Shared<float> scales_here = scales_at(stage);
      Operands x;   // sm80 loads those of the next tiles before it multiplies; sm75 has no registers for that
      if (TIER >= 80) x.load(codes_here, code_at, scales_here, scale_at, 0);
      Decoded w;
#if TIER >= 80
      const int chunk = stage / kChunk;
      Raw raw;
      raw.fetch(words, words_base + buffer_at(chunk) + ((lowest + chunk * kChunkBytes) & 2), stage, me.t);
      w.decode(raw, stage, me.t, grid);
#else
      w.decode(raw, stage, me.t, grid);
      if (stage + 1 < stages) raw.fetch(rows, stage + 1, me.t);
#endif
#pragma unroll
      for (int j = 0; j < kTiles; j += kTogether) {
        if (j > 0 && 8 * j >= columns) break;
        if (TIER < 80) x.load(codes_here, code_at, scales_here, scale_at, j);
        Operands next = x;
        if (TIER >= 80 && j + kTogether < kTiles) next.load(codes_here, code_at, scales_here, scale_at, j + kTogether);
        multiply(acc, w, x, j);
        x = next;
      }
#if TIER < 80
      if (stage + 1 < stages) incoming.land(codes_at(stage + 1), scales_at(stage + 1));
#endif
    }
#if TIER >= 80
    cp_async_wait<0>();
#endif
    if constexpr (kDown) {
      finish_down(acc, me, pair_of, out, status, block * WEIGHT_ROWS, n, columns);
    } else {
      if (trace != nullptr) write_trace(acc, me, trace, first, block * kFeatures, ff, columns);
      __syncthreads();   // SwiGLU's results lie where the stages were
      finish_gate_up(acc, me, activated, h, status, first, block * kFeatures, ff, columns);
    }
  }
}
