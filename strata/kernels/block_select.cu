// Scores of blocks, a tile of queries and blocks at a time. The order of the sums stands in block_select.py; this file
// says where the data lies.
//
// Plain FP32 (TIER below 75): 256 threads make 32 queries, of four heads each, by 64 blocks; a thread makes two queries
// by four blocks. Tensor cores: see the second half.
//
// -D: TIER (60, 75 or 80), HEADS, DIMS, QUERIES and BLOCKS (of a tile), THREADS, SHARED_BYTES (what the launch of the
// scorer gives, checked below).

#include "include/block_score.cuh"

static_assert(HEADS == 4 && DIMS == 128, "what fragments and slices are made for");

// The most complete blocks that a query of a tile has: behind them the tile has nothing to do. Lengths need not grow
// with the query, so the last one says nothing. All lanes of a warp together.
DEVICE i32 longest_of(const i32* steps, i64 first_query, i32 queries, int lane) {
  u32 longest[1] = {0};
#pragma unroll
  for (int i = 0; i < QUERIES; i += 32) {
    const bool has = i + lane < QUERIES && first_query + i + lane < queries;
    const u32 blocks = has ? static_cast<u32>(load(steps + (first_query + i + lane) * Step::words + Step::blocks)) : 0;
    longest[0] = blocks > longest[0] ? blocks : longest[0];
  }
  warp_max<32>(longest);
  return static_cast<i32>(longest[0]);
}

#if TIER < 75

constexpr int kSlice = 32;                 // dims in shared memory at a time
constexpr int kRows = QUERIES * HEADS;     // of q, in a tile
constexpr int kPieces = kSlice / 4;        // of 16 bytes, in a row of a slice
constexpr int kAtOnce = THREADS / kPieces;   // rows that the threads read at a time
constexpr int kQRows = kRows / kAtOnce, kKeyRows = BLOCKS / kAtOnce;   // of a thread

static_assert(THREADS == 256 && QUERIES == 32 && BLOCKS == 64, "16 by 16 threads of two queries and four blocks");
static_assert(SHARED_BYTES == kSlice * (kRows + BLOCKS) * 4, "block_select.py and this file disagree on shared memory");
static_assert(QUERIES * BLOCKS <= kSlice * (kRows + BLOCKS), "scores lie where the slices did");

// Where row `row` of dim `dim` lies in a slice of `rows` rows: dim by dim, so that a thread reads neighbouring rows at
// once. Rows are exchanged in groups of four by the piece of the dim: else the eight pieces of a row, written by eight
// lanes, would meet in two banks.
DEVICE int place(int dim, int row, int rows) { return dim * rows + (row ^ (dim / 4 * 4)); }

// A thread's share of a slice on its way to shared memory.
template <int ROWS>
struct Incoming {
  float4 held[ROWS];

  // rows: of the array, from its first; a row behind the last is zeros.
  MEMBER void start(const float* from, i64 rows, int slice, int thread) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int row = i * kAtOnce + thread / kPieces;
      const float* at = from + static_cast<i64>(row) * DIMS + slice * kSlice + thread % kPieces * 4;
      held[i] = row < rows ? load<float4>(at) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
  }
  MEMBER void land(Shared<float> to, int thread) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int row = i * kAtOnce + thread / kPieces, dim = thread % kPieces * 4;
      to.st(place(dim, row, ROWS * kAtOnce), held[i].x);
      to.st(place(dim + 1, row, ROWS * kAtOnce), held[i].y);
      to.st(place(dim + 2, row, ROWS * kAtOnce), held[i].z);
      to.st(place(dim + 3, row, ROWS * kAtOnce), held[i].w);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    block_scores_simt(const float* __restrict__ q, const float* __restrict__ keys, const i32* __restrict__ steps,
                      float* __restrict__ scores, i32 queries, i32 capacity) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const i64 first_query = static_cast<i64>(blockIdx.y) * QUERIES, first_block = static_cast<i64>(blockIdx.x) * BLOCKS;
  const i32 longest = longest_of(steps, first_query, queries, lane);
  if (first_block >= longest) return;

  const Shared<float> q_slice = shared_array<float>(0, kSlice * kRows);
  const Shared<float> key_slice = shared_array<float>(kSlice * kRows * 4, kSlice * BLOCKS);
  const float* q_here = q + first_query * HEADS * DIMS;
  const float* keys_here = keys + first_block * DIMS;
  const i64 q_rows = (queries - first_query) * HEADS, key_rows = longest - first_block;

  // A warp makes 4 by 8 of the threads' places: what its lanes read of keys fills all banks once.
  const int own_query = warp / 2 * 4 + lane / 8, own_block = (warp % 2 * 8 + lane % 8) * 4;
  float dot[2][HEADS][4];   // queries own_query and 16 further, heads, blocks from own_block
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int head = 0; head < HEADS; ++head)
#pragma unroll
      for (int j = 0; j < 4; ++j) dot[i][head][j] = 0.0f;

  Incoming<kQRows> next_q;
  Incoming<kKeyRows> next_keys;
  next_q.start(q_here, q_rows, 0, thread);
  next_keys.start(keys_here, key_rows, 0, thread);
#pragma unroll 1
  for (int slice = 0; slice < DIMS / kSlice; ++slice) {
    if (slice > 0) __syncthreads();
    next_q.land(q_slice, thread);
    next_keys.land(key_slice, thread);
    __syncthreads();
    if (slice + 1 < DIMS / kSlice) {
      next_q.start(q_here, q_rows, slice + 1, thread);
      next_keys.start(keys_here, key_rows, slice + 1, thread);
    }
#pragma unroll
    for (int dim = 0; dim < kSlice; ++dim) {
      const float4 key = key_slice.ld<float4>(place(dim, own_block, BLOCKS));
      const float y[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 x = q_slice.ld<float4>(place(dim, (own_query + 16 * i) * HEADS, kRows));
        multiply_add(dot[i][0], x.x, y);
        multiply_add(dot[i][1], x.y, y);
        multiply_add(dot[i][2], x.z, y);
        multiply_add(dot[i][3], x.w, y);
      }
    }
  }

  // Scores pass through shared memory: rows of the output need not be aligned, and a warp then writes 32 in a row.
  __syncthreads();
  const Shared<float> tile = shared_array<float>(0, QUERIES * BLOCKS);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float score[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      score[j] = 0.0f;
#pragma unroll
      for (int head = 0; head < HEADS; ++head) score[j] = add_head(score[j], dot[i][head][j]);
    }
    tile.st<float4>((own_query + 16 * i) * BLOCKS + own_block, float4{score[0], score[1], score[2], score[3]});
  }
  __syncthreads();
  for (int i = warp; i < QUERIES; i += THREADS / 32) {
    const i64 query = first_query + i;
    if (query >= queries) break;
    const i64 blocks = load(steps + query * Step::words + Step::blocks);
#pragma unroll
    for (int j = lane; j < BLOCKS; j += 32)
      if (first_block + j < blocks) store(scores + query * capacity + first_block + j, tile.ld(i * BLOCKS + j));
  }
}

#else

// Tensor cores: block_split.cu has split every row of q and of keys into hi and lo halves. A thread block keeps the rows
// of QUERIES queries in shared memory and walks over tiles of BLOCKS blocks, whose keys pass through it 32 dims at a time.
// A warp makes 8 queries, as two matrix tiles of 16 rows, by kTiles times 8 blocks. Rows g and g + 8 of matrix tile m are
// heads 2m and 2m + 1 of query g, so one thread has all heads of a query.

#include "include/split_row.cuh"
#include "include/store_pair.cuh"

// A row, as block_split.cu leaves it: hi and lo, one after the other.
constexpr int kParts = 2, kPartBytes = DIMS * 2, kPieceBytes = 16;

constexpr int kRows = QUERIES * HEADS;               // of q, in a tile
constexpr int kSlice = 32, kSlices = DIMS / kSlice;  // dims of keys in shared memory at a time
constexpr int kSliceBytes = kSlice * 2, kSlicePieces = kSliceBytes / kPieceBytes;
constexpr int kStages = TIER >= 80 ? 2 : 1;          // slices in shared memory
constexpr int kQueryWarps = QUERIES / 8, kBlockWarps = THREADS / 32 / kQueryWarps;
constexpr int kTiles = BLOCKS / kBlockWarps / 8;     // of a warp, of 8 blocks
constexpr int kAtOnce = THREADS / kSlicePieces;      // rows of a slice that the threads bring at a time

// Byte offsets of the arrays in shared memory.
struct Layout {
  static constexpr int q = 0;   // [hi, lo][row][DIMS]
  static constexpr int keys = q + kParts * kRows * kPartBytes;   // [stage][hi, lo][block][kSlice]
  static constexpr int stage = kParts * BLOCKS * kSliceBytes;
  static constexpr int exponents = keys + kStages * stage;   // of keys, of two tiles
  static constexpr int end = exponents + 2 * BLOCKS * 4;
};
static_assert(Layout::end == SHARED_BYTES, "block_select.py and this file disagree on shared memory");
static_assert(kTiles % 2 == 0 && BLOCKS % kAtOnce == 0 && BLOCKS <= THREADS, "two tiles are read at once");

// Where a piece of 16 bytes lies. Rows that are read together have their pieces exchanged, so that they fill all banks:
// eight queries' rows of one head, and eight blocks.
DEVICE int q_place(int part, int row, int piece) {
  return (part * kRows + row) * kPartBytes + (piece ^ (row / HEADS & 7)) * kPieceBytes;
}
DEVICE int key_place(int part, int block, int piece) {
  return (part * BLOCKS + block) * kSliceBytes + (piece ^ (block >> 1 & 3)) * kPieceBytes;
}

// A thread's share of a slice of keys, and of their exponents, on its way to shared memory: by cp.async, or through
// registers, where it waits until `land`. Blocks from `blocks` on become zeros.
struct Incoming {
  static constexpr int turns = BLOCKS / kAtOnce;
#if TIER < 80
  uint4 held[kParts][turns];
  i32 held_exponent;
#endif

  MEMBER void start(Shared<u8> to, Shared<i32> to_exponents, const u16* keys, const i32* exponents, i64 first_block,
                    i64 blocks, int slice, int thread) {
    const int piece = thread % kSlicePieces;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        const int block = turn * kAtOnce + thread / kSlicePieces;
        const bool has = first_block + block < blocks;
        const u16* from = keys + ((first_block + block) * kParts + part) * DIMS + slice * kSlice + piece * 8;
#if TIER >= 80
        cp_async<16>(to, key_place(part, block, piece), from, has);
#else
        held[part][turn] = has ? load<uint4>(from) : uint4{0, 0, 0, 0};
#endif
      }
    if (slice == 0 && thread < BLOCKS) {
      const bool has = first_block + thread < blocks;
#if TIER >= 80
      cp_async<4>(to_exponents, thread, exponents + first_block + thread, has);
#else
      held_exponent = has ? load(exponents + first_block + thread) : 0;
#endif
    }
  }

  MEMBER void land(Shared<u8> to, Shared<i32> to_exponents, int slice, int thread) const {
#if TIER < 80
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int turn = 0; turn < turns; ++turn)
        to.st<uint4>(key_place(part, turn * kAtOnce + thread / kSlicePieces, thread % kSlicePieces), held[part][turn]);
    if (slice == 0 && thread < BLOCKS) to_exponents.st(thread, held_exponent);
#endif
  }
};

// d += a.b over 16 k: one m16n8k16, or two m16n8k8, low k first.
DEVICE void mma_step(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if TIER >= 80
  mma_m16n8k16(d, a, b);
#else
  mma_m16n8k8(d, a, b);
  mma_m16n8k8(d, a + 2, b + 1);
#endif
}

// s 2^e in two steps, each by a normal number: only the last one can leave the range.
DEVICE float scaled(float s, int e) {
  const int half = e >> 1;
  return __fmul_rn(__fmul_rn(s, power_of_two(half)), power_of_two(e - half));
}

// Exponents less 14 of at most this size let powers be multiplied as they come, in any order: sums of a dot are multiples
// of 2^-48 and below 2^36, so that no product is subnormal or infinite, and multiplying by a power of two is exact.
constexpr int kUsual = 30;
DEVICE bool usual_exponent(int e) { return static_cast<u32>(e - 14 + kUsual) <= 2 * kUsual; }

extern "C" __global__ void __launch_bounds__(THREADS)
    block_scores_tensor(const u16* __restrict__ q, const i32* __restrict__ q_exponents, const u16* __restrict__ keys,
                        const i32* __restrict__ key_exponents, const i32* __restrict__ steps, float* __restrict__ scores,
                        i32 queries, i32 capacity) {
  const Shared<u8> q_tile = shared_array<u8>(Layout::q, kParts * kRows * kPartBytes);
  const Shared<u8> key_slices = shared_array<u8>(Layout::keys, kStages * Layout::stage);
  const Shared<i32> exponents = shared_array<i32>(Layout::exponents, 2 * BLOCKS);

  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5, g = lane >> 2, t = lane & 3;
  const i64 first_query = static_cast<i64>(blockIdx.y) * QUERIES;
  const i32 longest = longest_of(steps, first_query, queries, lane);
  const i32 all_tiles = (longest + BLOCKS - 1) / BLOCKS, step = static_cast<i32>(gridDim.x);
  const i32 tiles = (all_tiles - static_cast<i32>(blockIdx.x) + step - 1) / step;   // this block takes every step-th
  if (tiles <= 0) return;

  for (int row = warp; row < kRows; row += THREADS / 32) {
    const bool has = first_query * HEADS + row < static_cast<i64>(queries) * HEADS;
    const u16* from = q + (first_query * HEADS + row) * kParts * DIMS + lane * 8;
    const int to = q_place(lane >> 4, row, lane & 15);
#if TIER >= 80
    cp_async<16>(q_tile, to, from, has);
#else
    q_tile.st<uint4>(to, has ? load<uint4>(from) : uint4{0, 0, 0, 0});
#endif
  }

  // The thread's query, and its heads' exponents.
  const int own_query = warp / kBlockWarps * 8, own_block = warp % kBlockWarps * (kTiles * 8);   // the warp's first
  const i64 query = first_query + own_query + g;
  const i32 blocks = query < queries ? load(steps + query * Step::words + Step::blocks) : 0;
  i32 e_q[HEADS];
  float q_down[HEADS];
  bool usual_q = true;
#pragma unroll
  for (int head = 0; head < HEADS; ++head) {
    e_q[head] = query < queries ? load(q_exponents + query * HEADS + head) : 0;
    q_down[head] = power_of_two(e_q[head] - 14);
    usual_q &= usual_exponent(e_q[head]);
  }

  Incoming next;
  const auto first_block = [&](i32 tile) { return (static_cast<i64>(blockIdx.x) + static_cast<i64>(tile) * step) * BLOCKS; };
  const auto keys_at = [&](int slice) { return key_slices.part(slice % kStages * Layout::stage, Layout::stage); };
  const auto exponents_at = [&](i32 tile) { return exponents.part((tile & 1) * BLOCKS, BLOCKS); };
  const auto start = [&](i32 tile, int slice) {
    if (tile < tiles) next.start(keys_at(slice), exponents_at(tile), keys, key_exponents, first_block(tile), longest, slice, thread);
#if TIER >= 80
    cp_async_commit();
#endif
  };

  start(0, 0);
#pragma unroll 1
  for (i32 tile = 0; tile < tiles; ++tile) {
    float cross[2][kTiles][4], high[2][kTiles][4];   // lo.hi + hi.lo, and hi.hi
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) cross[m][j][i] = high[m][j][i] = 0.0f;

#pragma unroll 1
    for (int slice = 0; slice < kSlices; ++slice) {
#if TIER >= 80
      cp_async_wait<0>();
#else
      next.land(keys_at(slice), exponents_at(tile), slice, thread);
#endif
      __syncthreads();
      start(slice + 1 < kSlices ? tile : tile + 1, (slice + 1) % kSlices);

      const Shared<u8> key_slice = keys_at(slice);
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k) {
        u32 a[kParts][2][4];   // matrices: heads 2m and 2m + 1 of the low 8 dims, then of the high 8
        const int row = (own_query + (lane & 7)) * HEADS + (lane >> 3 & 1), piece = slice * kSlicePieces + 2 * k + (lane >> 4);
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
          for (int m = 0; m < 2; ++m) ldmatrix_x4<false>(a[part][m], q_tile, q_place(part, row + 2 * m, piece));
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          u32 r[kParts][4], b[kParts][2][2];   // matrices: low and high 8 dims of 8 blocks, then of the next 8
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            const int block = own_block + 8 * j + (lane >> 4) * 8 + (lane & 7);
            ldmatrix_x4<false>(r[part], key_slice, key_place(part, block, 2 * k + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < 4; ++i) b[part][i / 2][i % 2] = r[part][i];
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) mma_step(cross[i / 2][j + i % 2], a[1][i / 2], b[0][i % 2]);
#pragma unroll
          for (int i = 0; i < 4; ++i) mma_step(high[i / 2][j + i % 2], a[0][i / 2], b[0][i % 2]);
#pragma unroll
          for (int i = 0; i < 4; ++i) mma_step(cross[i / 2][j + i % 2], a[0][i / 2], b[1][i % 2]);
        }
      }
      mma_join();
      if (TIER < 80) __syncthreads();   // the one stage is free
    }

    const Shared<i32> e_keys = exponents_at(tile);
    const i32 paired = capacity % 2 == 0 ? blocks : 0;   // of an odd row length every other row has no aligned pairs
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int column = own_block + 8 * j + 2 * t;
      const i64 block = first_block(tile) + column;
      float score[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const i32 e_key = e_keys.ld(column + c);
        score[c] = 0.0f;
        if (usual_q && usual_exponent(e_key)) {   // the same bits with fewer operations
#pragma unroll
          for (int head = 0; head < HEADS; ++head) {
            const int m = head / 2, i = head % 2 * 2 + c;
            score[c] = add_head(score[c], __fmul_rn(__fadd_rn(high[m][j][i], cross[m][j][i]), q_down[head]));
          }
          score[c] = __fmul_rn(score[c], power_of_two(e_key - 14));
        } else {
#pragma unroll
          for (int head = 0; head < HEADS; ++head) {
            const int m = head / 2, i = head % 2 * 2 + c;
            score[c] = add_head(score[c], scaled(__fadd_rn(high[m][j][i], cross[m][j][i]), e_q[head] + e_key - 28));
          }
        }
      }
      float* at = scores + query * capacity + block;
      if (block + 1 < paired) {
        store_pair(at, score[0], score[1]);
      } else {
        if (block < blocks) store(at, score[0]);
        if (block + 1 < blocks) store(at + 1, score[1]);
      }
    }
  }
}

#endif
