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
// Sums of gate and up on their way to SwiGLU: floats of a column, 4 more than a multiple of 32 for the banks. Where a
// block has 64 KiB they go in two passes.
constexpr int kFeatures = WEIGHT_ROWS / 2, kSumsRow = WEIGHT_ROWS + 4;
constexpr int kPasses = TIER >= 80 ? 1 : 2, kPassColumns = COLUMNS / kPasses;
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
constexpr int kStage = COLUMNS * kUnitBytes;   // of activations
constexpr int kChunkValues = kChunk * kUnitValues;
constexpr int kChunkBytes = kChunkValues / Blocks<FORMAT>::values * Blocks<FORMAT>::bytes;
// They come in aligned pieces of 16 bytes, so a row of a chunk begins somewhere in its first piece. Eight rows begin in
// different banks: pieces a row are odd, or twice an odd number and the upper four rows lie one piece further.
constexpr int kPieces = (kChunkBytes + 14 + 15) / 16;   // that a row touches, at any even address
constexpr int kRowBytes = (kPieces % 4 == 0 ? kPieces + 1 : kPieces) * 16;
constexpr int kSkew = kRowBytes / 16 % 2 == 0 ? 16 : 0;
constexpr int kGroupBytes = 8 * kRowBytes + kSkew;      // of eight rows
constexpr int kWarpBytes = 2 * FRAGMENTS * kGroupBytes;
constexpr int kWordsBytes = kStaged ? kBuffers * kWarps * kWarpBytes : 0;
// Scales of a warp's rows in its chunk, where each lane can make those of a row: for each stage and row, the scales of
// both parts and -kStartValue times them.
constexpr bool kPrepared = false;
constexpr int kPreparedScales = kPrepared ? WEIGHT_ROWS * 4 * kChunk : 0;
DEVICE int row_place(int row) { return row / 8 * kGroupBytes + row % 8 * kRowBytes + row % 8 / 4 * kSkew; }

// Byte offsets of the arrays in shared memory. Sums of gate and up take the place of the stages once they are used up.
struct Shape {
  static constexpr int x = 0;
  static constexpr int weights = x + STAGES * kStage;
  static constexpr int prepared = weights + kWordsBytes;
  static constexpr int stages = prepared + 4 * kPreparedScales;
  static constexpr int sums = kDown ? 0 : kPassColumns * kSumsRow * 4;
  static constexpr int pairs = stages > sums ? stages : sums;
  static constexpr int grid = pairs + (kDown ? COLUMNS * 4 : 0);
  static constexpr int end = grid + kGrid * 4;
};
static_assert(Shape::end == SHARED_BYTES, "expert_fused.py and this file disagree on shared memory");

// The rest of an array from element `at` on. Constants added to that are part of a load's or copy's instruction.
template <class T>
DEVICE Shared<T> rest(Shared<T> all, int size, int at) { return all.part(kept(at), size - at); }

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

struct Place {   // g and t: row group and column pair in a matrix fragment
  int thread, warp, lane, g, t;
};

// A stage of activations on its way to shared memory, by cp.async, or through registers where it waits until `land`:
// the units of all columns one after the other, in 16-byte pieces, which neighbouring threads take, so that a warp asks
// for few lines of memory. A unit of 80 bytes leaves eight columns of a piece in all banks. Columns past the expert's
// rows, up to the tiles that are multiplied together, take the last row again.
struct Incoming {
  static constexpr int unit = kUnitBytes / 16, each = (COLUMNS * unit + kThreads - 1) / kThreads;   // pieces
  const u8* units;
  u32 from[each];   // in pieces, enough for 64 GiB
  int thread, count;
#if TIER < 80
  uint4 held[each];
#endif

  // rows: the first unit of row 0; row_of: the row of each column.
  template <class RowOf>
  MEMBER void begin(const Place& me, const u8* rows, int k, int columns, const RowOf& row_of) {
    units = rows, thread = me.thread;
    count = (columns + 8 * kTogether - 1) / (8 * kTogether) * (8 * kTogether) * unit;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int number = thread + i * kThreads, column = number / unit;
      const u32 row = static_cast<u32>(row_of(column < columns ? column : columns - 1));
      from[i] = row * static_cast<u32>(k / kUnitValues * unit) + static_cast<u32>(number % unit);
    }
  }

  // stage: its number; to: its place in shared memory.
  MEMBER void start(int stage, Shared<u8> to) {
    const u8* here = units + static_cast<i64>(stage) * kUnitBytes;
    const Shared<u8> mine = rest(to, kStage, 16 * thread);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (i == each - 1 && thread + i * kThreads >= count) break;   // before that a branch would cost more
      const u8* piece = here + static_cast<u64>(from[i]) * 16;
#if TIER >= 80
      cp_async<16>(mine, 16 * i * kThreads, piece, true);
#else
      held[i] = load<uint4>(piece);
#endif
    }
  }

  MEMBER void land(Shared<u8> stage) {
#if TIER < 80
#pragma unroll
    for (int i = 0; i < each; ++i)
      if (i < each - 1 || thread + i * kThreads < count) stage.template st<uint4>(16 * (thread + i * kThreads), held[i]);
#endif
  }
};

// Blocks of weights hold kParts times 32 values; a stage takes two of those.
constexpr int kParts = Blocks<FORMAT>::values / 32, kStagesOfBlock = kParts / 2 > 0 ? kParts / 2 : 1;
DEVICE int first_part(int stage) { return kParts > 2 ? 2 * (stage % kStagesOfBlock) : 0; }

#if TIER >= 80
// Weights of a warp on their way to shared memory, as they are, in aligned pieces of 16 bytes that may hold bytes of
// neighbours at either end. A part is 8 FRAGMENTS rows: those of gate and of up, or the lower and the upper rows of down.
struct Weights {
  static constexpr int rows = 8 * FRAGMENTS, tail = kPieces - 8;
  static_assert(tail <= 2 && rows <= 16, "two lanes a row take what eight leave");
  const u8* first;    // the first row of part 0
  const u8* edge;     // the blob's first byte for gate and up, its end for down
  i64 apart, eight;   // bytes from part 0 to part 1, and of eight rows: multiples of 16
  int lane, row_bytes;
  int from, to;       // of the lane's first piece, from `first` and in shared memory
  int tail_from, tail_to;

  MEMBER void begin(int lane_, const u8* first_, i64 apart_, const u8* edge_, int row_bytes_) {
    lane = lane_, first = first_, edge = edge_, apart = apart_, row_bytes = row_bytes_, eight = 8 * static_cast<i64>(row_bytes);
    from = lane / 8 * row_bytes + lane % 8 * 16, to = row_place(lane / 8) + lane % 8 * 16;
    tail_from = lane / 2 * row_bytes + (8 + lane % 2) * 16, tail_to = row_place(lane / 2) + (8 + lane % 2) * 16;
  }
  MEMBER static const u8* aligned(const u8* p) {
    return reinterpret_cast<const u8*>(reinterpret_cast<u64>(p) & ~static_cast<u64>(15));
  }
  // A whole chunk, no row of which is at the blob's end, to byte `buffer`. Eight lanes take pieces 0..7 of a row, and
  // then two those after.
  MEMBER void start(Shared<u8> words, int buffer, int chunk) {
    const u8* here = first + chunk * kChunkBytes;
    if (kPieces >= 8 || lane % 8 < kPieces) {
      const u8* p = here + from;
      const u8* bases[2] = {aligned(p), aligned(p + eight / 2)};
      const Shared<u8> at = rest(words, kWordsBytes, to + buffer);
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int r = 0; r < rows; r += 4)
          cp_async<16>(at, row_place(part * rows + r), bases[r / 4 % 2] + r / 8 * eight + part * apart, true);
    }
    if (tail > 0 && lane % 2 < tail && lane / 2 < rows) {
      const u8* p = aligned(here + tail_from);
      const Shared<u8> at = rest(words, kWordsBytes, tail_to + buffer);
#pragma unroll
      for (int part = 0; part < 2; ++part) cp_async<16>(at, row_place(part * rows), p + part * apart, true);
    }
  }
  // The same for a chunk that may be cut short or at the blob's end: pieces that reach over that are taken by halves.
  MEMBER void start_at_end(Shared<u8> words, int buffer, int chunk) {
#pragma unroll 1
    for (int i = lane; i < 2 * rows * kPieces; i += 32) {
      const int row = i / kPieces, piece = i % kPieces * 16, at = buffer + row_place(row) + piece;
      const u8* p = aligned(first + row / rows * apart + row % rows * row_bytes + chunk * kChunkBytes) + piece;
      if (kDown ? p + 16 > edge : p < edge) {
#pragma unroll 1
        for (int byte = 0; byte < 16; byte += 2)
          if (kDown ? p + byte + 2 <= edge : p + byte >= edge) words.st<u16>(at + byte, load<u16>(p + byte));
      } else {
        cp_async<16>(words, at, p, true);
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
              [&](int moving, int fixed) { return load<u16>(block + moving + fixed + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes)); },
              s, i, t);
      }
  }
  // words: from the byte on where the lane's row g of part 0 begins its chunk, `left` bytes.
  MEMBER void fetch(Shared<u8> words, int left, int stage, int t) {
    const int s = first_part(stage);
    const int block_of_chunk = kParts > 2 ? 0 : kParts == 2 ? stage % kChunk : 2 * (stage % kChunk);
    const int block = block_of_chunk * Blocks<FORMAT>::bytes;
#pragma unroll
    for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = (kDown ? 2 * m + r : m + FRAGMENTS * r) * kGroupBytes;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part[i][m][r] = fetch_fragment<FORMAT>(
              [&](int moving, int fixed) {
                return words.part(block + moving, left - block - moving)
                    .template ld<u16>(row + fixed + (kParts > 1 ? 0 : i * Blocks<FORMAT>::bytes));
              },
              s, i, t);
      }
  }
};

struct Decoded {   // registers as m16n8k32 takes them
  u32 a[2][FRAGMENTS][4];
  float scale[2][FRAGMENTS][2][kScales];
  float back[2][FRAGMENTS][2];   // -kStartValue times the first scale
  // prepared: the scales of the lane's first row in this stage, where kPrepared.
  MEMBER void decode(const Raw& raw, int stage, int t, Shared<u32> grid, const Levels& levels, Shared<float> prepared) {
    const int s = first_part(stage);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int m = 0; m < FRAGMENTS; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          u32 codes[2];
          decode_fragment<FORMAT>(raw.part[i][m][r], kParts > 1 ? s + i : 0, t, grid, levels, codes, scale[i][m][r]);
          a[i][m][r] = codes[0], a[i][m][2 + r] = codes[1];
          if constexpr (kPrepared) {
            const float4 both = prepared.template ld<float4>(4 * (kDown ? 16 * m + 8 * r : 8 * m + 8 * FRAGMENTS * r));
            scale[i][m][r][0] = i ? both.z : both.x, back[i][m][r] = i ? both.w : both.y;
          } else {
            back[i][m][r] = __fmul_rn(-kStartValue, scale[i][m][r][0]);
          }
        }
  }
};

// Scales of the lane's row of a chunk that has arrived. words: from that row's chunk on. left: stages from it on.
DEVICE void prepare_scales(Shared<u8> words, Shared<float> prepared, int left, int lane) {
  if constexpr (kPrepared) {
    float4 two[kChunk];
#pragma unroll
    for (int stage = 0; stage < kChunk; ++stage) {
      if (kDown && stage >= left) break;   // other rows are whole chunks
      const auto at = [&](int, int fixed) { return words.template ld<u16>(fixed); };
      const float low = part_scale<FORMAT>(at, 2 * stage), high = part_scale<FORMAT>(at, 2 * stage + 1);
      two[stage] = {low, __fmul_rn(-kStartValue, low), high, __fmul_rn(-kStartValue, high)};
    }
#pragma unroll
    for (int stage = 0; stage < kChunk; ++stage) {
      if (kDown && stage >= left) break;
      prepared.st(4 * (32 * stage + lane), two[stage]);
    }
    __syncwarp();
  }
}

using Sums = float[FRAGMENTS][kTiles][4];

// What a dot that starts at kStart stands for, as a float.
DEVICE float started(i32 dot) { return bits_to_float(static_cast<u32>(dot)); }

struct Operands {   // a stage of kTogether tiles of activations
  u32 b[kTogether][4];     // codes, 16 values a register
  float4 d_x[kTogether];   // of columns 2t and 2t + 1, two blocks each
  // codes, scales: from where the lane reads in tile 0 on.
  MEMBER void load(Shared<u8> codes, Shared<u8> scales, int first) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const int at = 8 * (first + j) * kUnitBytes;
      ldmatrix_x4<false>(b[j], codes, at);
      const float2 even = scales.template ld<float2>(at), odd = scales.template ld<float2>(at + kUnitBytes);
      d_x[j] = float4{even.x, even.y, odd.x, odd.y};
    }
  }
};

// acc += one stage of the tiles first .. first + kTogether - 1: the block of 32 at lower k, then the other.
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

// SwiGLU of a block's gate and up sums, then int8 for 32 features, into rows first .. first + columns - 1 of h; the sums
// themselves to the trace, [row][gate ff | up ff], unless that is null. They change hands in shared memory, so that eight
// lanes hold a block of 32: little code, which all columns share.
DEVICE void finish_gate_up(const Sums& acc, const Place& me, Shared<float> sums, u8* units, float* trace, i32* status,
                           i64 first, int feature, int ff, int columns) {
  constexpr int kBlocks = kFeatures / kActivationBlock, kAtOnce = 2;   // blocks of a column; of a lane at a time
  const int part = 4 * (me.lane & 7), row_bytes = ff / kUnitValues * kUnitBytes;
  u8* corner = units + first * row_bytes + feature / kUnitValues * kUnitBytes;
  const int mine = 2 * me.t * kSumsRow + 8 * me.warp * FRAGMENTS + me.g;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const int start = pass * kPassColumns, here = columns - start < kPassColumns ? columns - start : kPassColumns;
    if (here <= 0) break;
    if (pass > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < kPassColumns / 8; ++j) {
      if (8 * j >= here) break;
#pragma unroll
      for (int i = 0; i < 4 * FRAGMENTS; ++i)   // fragment, gate or up, column
        sums.st(mine + (8 * j + i % 2) * kSumsRow + i / 4 * 8 + i / 2 % 2 * kFeatures, acc[i / 4][start / 8 + j][i % 4]);
    }
    __syncthreads();
#pragma unroll 1
    for (int base = me.warp * 4 * kAtOnce; base < here * kBlocks; base += kWarps * 4 * kAtOnce) {
      float gate[4 * kAtOnce], up[4 * kAtOnce], h[4 * kAtOnce];
      int column[kAtOnce], block[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int number = base + 4 * i + (me.lane >> 3);
        column[i] = number < here * kBlocks ? number / kBlocks : here - 1, block[i] = number % kBlocks;
        const int at = column[i] * kSumsRow + block[i] * kActivationBlock + part;
        const float4 g = sums.template ld<float4>(at), u = sums.template ld<float4>(at + kFeatures);
        gate[4 * i] = g.x, gate[4 * i + 1] = g.y, gate[4 * i + 2] = g.z, gate[4 * i + 3] = g.w;
        up[4 * i] = u.x, up[4 * i + 1] = u.y, up[4 * i + 2] = u.z, up[4 * i + 3] = u.w;
      }
      swiglu_all(gate, up, h);
      u32 largest[kAtOnce];
      float4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        v[i] = float4{h[4 * i], h[4 * i + 1], h[4 * i + 2], h[4 * i + 3]};
        largest[i] = largest_magnitude(v[i]);
      }
      warp_max<8>(largest);
      ActivationScale scale[kAtOnce];
      activation_scales(largest, scale);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = block[i] * kActivationBlock + part;
        if (base + 4 * i + (me.lane >> 3) >= here * kBlocks || feature + at >= ff) continue;
        u8* unit = corner + (start + column[i]) * row_bytes + block[i] / 2 * kUnitBytes;
        store<u32>(unit + block[i] % 2 * kActivationBlock + part, activation_codes(v[i], scale[i]));
        if (part == 0) {
          store<float>(unit + kUnitScales + block[i] % 2 * 4, scale[i].d);
          if (!scale[i].finite) atomicAdd(status + 1, 1);
        }
        if (trace != nullptr) {
          float* row = trace + (first + start + column[i]) * 2 * ff + feature + at;
          store(reinterpret_cast<float4*>(row), float4{gate[4 * i], gate[4 * i + 1], gate[4 * i + 2], gate[4 * i + 3]});
          store(reinterpret_cast<float4*>(row + ff), float4{up[4 * i], up[4 * i + 1], up[4 * i + 2], up[4 * i + 3]});
        }
      }
    }
  }
}

// Sums of down as they are, each row to its pair; n is a multiple of 256, so of WEIGHT_ROWS. What is not finite is looked
// for in all of them at once.
DEVICE void finish_down(const Sums& acc, const Place& me, Shared<i32> pairs, float* out, i32* status, int row, int n, int columns) {
  float* mine = out + row + 16 * me.warp * FRAGMENTS + me.g;
  float probe = 0.0f;   // becomes NaN
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (8 * j >= columns) break;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = 8 * j + 2 * me.t + c;
      if (column >= columns) continue;
      float* here = mine + static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);
#pragma unroll
      for (int i = 0; i < 2 * FRAGMENTS; ++i) {
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
        if (8 * j + 2 * me.t + c < columns) lost += magnitude_bits(acc[i / 2][j][2 * (i % 2) + c]) >= kInfinityBits;
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
  const Shared<u8> staged = shared_array<u8>(Shape::x, STAGES * kStage);
  const Shared<u8> words = shared_array<u8>(Shape::weights, kWordsBytes);
  const Shared<float> prepared = shared_array<float>(Shape::prepared, kPreparedScales);
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
    // The lane's row where each lane has one.
    const int own_base = row_place(lane), lowest_own = static_cast<int>(reinterpret_cast<u64>(first_row)) + (lane & 7) * row_bytes;
    const Shared<float> prepared_own = prepared.part(me.warp * (kPreparedScales / kWarps), kPreparedScales / kWarps);
    const auto buffer_at = [&](int chunk) { return (chunk % kBuffers * kWarps + me.warp) * kWarpBytes; };
    // The first stage of a chunk starts another. Rows of down may end in the middle of their last.
    const auto bring = [&](int stage) {
      const int chunk = stage / kChunk;
      if (stage % kChunk != 0 || stage >= stages) return;
      if (kDown && stage + kChunk >= stages) weights.start_at_end(words, buffer_at(chunk), chunk);
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
    if (later < items) next.find(tiles, first_tile + later / weight_blocks);
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
      if (kPrepared && stage % kChunk == 0)
        prepare_scales(rest(words, kWordsBytes, own_base + buffer + ((lowest_own + chunk * kChunkBytes) & 14)), prepared_own,
                       stages - stage, lane);
      bring(stage + STAGES);   // arrives with that stage at the latest
      start(stage + STAGES - 1);
      w.decode(raw, stage, me.t, grid, levels, kPrepared ? rest(prepared_own, kPreparedScales / kWarps, stage % kChunk * 128 + 4 * me.g) : prepared);
#else
      start(stage + STAGES - 1);
      w.decode(raw, stage, me.t, grid, levels, prepared);
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
    if (later < items) next.look_up(offsets, blobs);
    if constexpr (kDown) {
      finish_down(acc, me, pair_of, out, status, block * WEIGHT_ROWS, n, columns);
    } else {
      __syncthreads();   // the sums lie where the stages were
      finish_gate_up(acc, me, sums, h, trace, status, first, block * kFeatures, ff, columns);
    }
  }
}
