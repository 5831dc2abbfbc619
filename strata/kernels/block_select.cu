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

#endif
