// Prompt attention over selected cells of a quantised paged KV pool, on tensor cores.
//
// One block of 4 warps serves one query and one KV head; its GROUP query heads are the rows of a
// 16-row tile. The selected cells are walked in chunks of CELLS with an online softmax in base 2.
// Warp w owns dims 64w .. 64w+63 in both products. The mathematics, and why each scale is where it
// is, stand in prompt_attention.py; this file says where the data lies.
//
// -D: TIER (75 or 80), K_FORMAT, V_FORMAT (include/kv_format.cuh), GROUP (4, 8, 12), CELLS (32, 64),
// SHARED_BYTES (what the launch gives, checked below), MIN_BLOCKS (for the register budget).

#include "include/exp2.cuh"
#include "include/kv_format.cuh"
#include "include/ptx.cuh"

constexpr int kDim = 256, kWarps = 4, kThreads = 128, kRows = 16;
constexpr int kPerWarp = kDim / kWarps;                     // dims of a warp
constexpr int kSteps = kPerWarp / 16;                       // 16-dim steps of a score
constexpr int kSums = 2;                                    // accumulators of a score: 32 dims each
constexpr int kVGroups = V_FORMAT == FORMAT_Q4_0 ? 2 : 1;
constexpr int kWindows = 2;                                 // p.v takes a warp's dims 32 at a time
constexpr int kStages = TIER >= 80 ? 2 : 1;                 // chunks of K, and of V, in shared memory
constexpr int kRing = 4;                                    // chunks whose pool rows are held
constexpr int kScoreRow = CELLS + 8;                        // floats; 8 mod 32: 64-bit reads meet all banks
constexpr int kKRow = SharedRow<K_FORMAT>::bytes, kVRow = SharedRow<V_FORMAT>::bytes;
constexpr int kScales = 4;                                  // of an INT8 row, binary16

static_assert(GROUP % 4 == 0 && GROUP <= kRows, "heads fill whole warps of the softmax");
static_assert(CELLS % 32 == 0 && CELLS <= kThreads, "one thread finds the row of one cell");

// Byte offsets of the arrays in shared memory.
struct Layout {
  static constexpr int k = 0;
  static constexpr int v = k + kStages * CELLS * kKRow;
  static constexpr int k_scale = v + kStages * CELLS * kVRow;
  static constexpr int v_scale = k_scale + (K_FORMAT == FORMAT_INT8 ? kStages * CELLS * kScales * 2 : 0);
  static constexpr int part = v_scale + (V_FORMAT == FORMAT_INT8 ? kStages * CELLS * kScales * 2 : 0);
  static constexpr int weight = part + kWarps * kRows * kScoreRow * 4;
  static constexpr int fold = weight + kRows * kScoreRow * 4;
  static constexpr int row = fold + (V_FORMAT == FORMAT_FP16 ? 0 : kWarps * kVGroups * CELLS * 4);
  static constexpr int alpha = row + kRing * CELLS * 4;
  static constexpr int sum = alpha + kRows * 4;
  static constexpr int exponent = sum + kRows * 4;
  static constexpr int end = exponent + kRows * 4;
};
static_assert(Layout::end == SHARED_BYTES, "prompt_attention.py and this file disagree on shared memory");

struct Place {   // a thread's position; g and t: row group and column pair in a matrix fragment
  int thread, warp, lane, g, t;
};

DEVICE float power_of_two(int e) { return bits_to_float(static_cast<u32>(127 + e) << 23); }
constexpr u32 kMinusInfinity = 0xff800000u;

// e of x = f * 2^e, f in [1/2, 1), from the bits of |x|; 0 for zero. Never below -100, so that every
// scale made from it is a normal number: values that small make all scores equal anyway.
DEVICE int exponent_of(u32 magnitude) {
  const int e = magnitude == 0 ? 0 : static_cast<int>(magnitude >> 23) - 126;
  return e < -100 ? -100 : e;
}

// ---- bringing rows in ------------------------------------------------------------------------------

// One chunk of K or V on its way to shared memory: by cp.async, or through registers, where it waits
// until `land`. Masked cells become zeros. Four threads share a row and take every fourth piece of it.
template <int FORMAT>
struct Incoming {
  static constexpr int pieces = Format<FORMAT>::row_bytes / 16, turns = CELLS / 32, each = (pieces + 3) / 4;
#if TIER < 80
  uint4 held[turns][each];
  uint2 held_scales;
#endif

  // Whether the thread's j-th piece exists; known to the compiler but for the last one of Q4_0's nine.
  MEMBER static bool has(const Place& me, int j) { return pieces % 4 == 0 || j < each - 1 || (me.thread & 3) < pieces % 4; }

  MEMBER void start(const Place& me, Shared<u8> to, Shared<u16> to_scale, const u8* pool, const u16* scales,
                    Shared<i32> rows) {
    const int piece = me.thread & 3;
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const int cell = turn * 32 + (me.thread >> 2);
      const i32 row = rows.ld(cell);
      const u8* from = pool + static_cast<i64>(row < 0 ? 0 : row) * Format<FORMAT>::row_bytes + piece * 16;
#pragma unroll
      for (int j = 0; j < each; ++j)
        if (has(me, j)) {
#if TIER >= 80
          cp_async<16>(to, cell * SharedRow<FORMAT>::bytes + piece * 16 + j * 64, from + j * 64, row >= 0);
#else
          held[turn][j] = row < 0 ? uint4{0, 0, 0, 0} : load<uint4>(from + j * 64);
#endif
        }
    }
    if (FORMAT == FORMAT_INT8 && me.thread < CELLS) {
      const i32 row = rows.ld(me.thread);
      const u16* from = scales + static_cast<i64>(row < 0 ? 0 : row) * kScales;
#if TIER >= 80
      cp_async<8>(to_scale, me.thread * kScales, from, row >= 0);
#else
      held_scales = row < 0 ? uint2{0, 0} : load<uint2>(from);
#endif
    }
  }

  MEMBER void land(const Place& me, Shared<u8> to, Shared<u16> to_scale) {
#if TIER < 80
#pragma unroll
    for (int turn = 0; turn < turns; ++turn)
#pragma unroll
      for (int j = 0; j < each; ++j)
        if (has(me, j))
          to.template st<uint4>((turn * 32 + (me.thread >> 2)) * SharedRow<FORMAT>::bytes + (me.thread & 3) * 16 + j * 64, held[turn][j]);
    if (FORMAT == FORMAT_INT8 && me.thread < CELLS) to_scale.template st<uint2>(me.thread * kScales, held_scales);
#endif
  }
};

// Pool row of selected cell i of this query, or -1: past the width, or on a page that is not resident.
// A pool has fewer than 2^31 rows (the host checks); their byte offsets need 64 bits.
DEVICE i32 find_row(const i32* ids, const i32* table, int i, int n, int page_size) {
  if (i >= n) return -1;
  const u32 cell = static_cast<u32>(load(ids + i)), page = cell / static_cast<u32>(page_size);
  const i32 physical = load(table + page);
  if (physical < 0) return -1;
  return (physical * static_cast<i32>(gridDim.y) + static_cast<i32>(blockIdx.y)) * page_size +
         static_cast<i32>(cell - page * static_cast<u32>(page_size));
}

// ---- fragments -------------------------------------------------------------------------------------

// Two values as hi + lo halves: lo holds what hi leaves over.
DEVICE void split(float x, float y, u32& hi, u32& lo) {
  hi = half_pair(x, y);
  lo = half_pair(__fsub_rn(x, half_value(static_cast<u16>(hi))), __fsub_rn(y, half_value(static_cast<u16>(hi >> 16))));
}

// d += a.b over 16 k: one m16n8k16, or two m16n8k8, low k first.
DEVICE void mma_step(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if TIER >= 80
  mma_m16n8k16(d, a, b);
#else
  mma_m16n8k8(d, a, b);
  mma_m16n8k8(d, a + 2, b + 1);
#endif
}

// First of the two dims that k-slots 2t, 2t+1 (half 0) or 2t+8, 2t+9 (half 1) of a step stand for.
// INT8 gives a thread four neighbouring bytes, the others follow the natural order.
DEVICE int dim_of_slot(int step, int half, int t) {
  return 16 * step + (K_FORMAT == FORMAT_INT8 ? 4 * t + 2 * half : 2 * t + 8 * half);
}

// The warp's dims of 8 cells as B fragments: b[step].
DEVICE void key_fragments(u32 (&b)[kSteps][2], const Place& me, Shared<u8> k, int first_cell) {
  if (K_FORMAT == FORMAT_FP16) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {   // 16-byte pieces: two of them are a step
      u32 r[4];
      ldmatrix_x4<false>(r, k, (first_cell + (me.lane & 7)) * kKRow + me.warp * 128 + i * 64 + (me.lane >> 3) * 16);
      b[2 * i][0] = r[0], b[2 * i][1] = r[1], b[2 * i + 1][0] = r[2], b[2 * i + 1][1] = r[3];
    }
  } else if (K_FORMAT == FORMAT_INT8) {
    u32 r[4];
    ldmatrix_x4<false>(r, k, (first_cell + (me.lane & 7)) * kKRow + me.warp * 64 + (me.lane >> 3) * 16);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const u32 biased = r[s] ^ 0x80808080u;
      b[s][0] = int8_halves<false>(biased);
      b[s][1] = int8_halves<true>(biased);
    }
  } else {
#pragma unroll
    for (int block = 0; block < 2; ++block) {   // low nibbles are one step, high nibbles the next
      const int at = (first_cell + me.g) * kKRow + (2 * me.warp + block) * Format<FORMAT_Q4_0>::block_bytes + 2 + 2 * me.t;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 two = k.ld<u16>(at + 8 * half);
        const u32 apart = byte_select<0x4140>(two, 0);   // one byte in each half
        b[2 * block][half] = nibble_halves<false>(apart);
        b[2 * block + 1][half] = nibble_halves<true>(apart);
      }
    }
  }
}

// 32 dims (window) of 16 cells as B fragments of four 8-column tiles: b[tile]. Column n of tile j is
// dim window_dim(j, n) of the window.
DEVICE void value_fragments(u32 (&b)[4][2], const Place& me, Shared<u8> v, int first_cell, int window) {
  if (V_FORMAT == FORMAT_FP16) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      u32 r[4];
      ldmatrix_x4<true>(r, v, (first_cell + (me.lane & 15)) * kVRow + me.warp * 128 + window * 64 + i * 32 + (me.lane >> 4) * 16);
      b[2 * i][0] = r[0], b[2 * i][1] = r[1], b[2 * i + 1][0] = r[2], b[2 * i + 1][1] = r[3];
    }
  } else if (V_FORMAT == FORMAT_INT8) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = (first_cell + 8 * half + 2 * me.t) * kVRow + me.warp * 64 + window * 32 + 4 * me.g;
      const u32 x = v.ld<u32>(at) ^ 0x80808080u, y = v.ld<u32>(at + kVRow) ^ 0x80808080u;
      const u32 low = byte_select<0x5140>(x, y), high = byte_select<0x7362>(x, y);   // bytes 0,1 and 2,3 of both cells
      b[0][half] = int8_halves<false>(low), b[1][half] = int8_halves<true>(low);
      b[2][half] = int8_halves<false>(high), b[3][half] = int8_halves<true>(high);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = (first_cell + 8 * half + 2 * me.t) * kVRow + (2 * me.warp + window) * Format<FORMAT_Q4_0>::block_bytes + 2 + 2 * me.g;
      const u32 both = v.ld<u16>(at) | static_cast<u32>(v.ld<u16>(at + kVRow)) << 16;
      b[0][half] = nibble_halves<false>(both), b[2][half] = nibble_halves<true>(both);
      b[1][half] = nibble_halves<false>(both >> 8), b[3][half] = nibble_halves<true>(both >> 8);
    }
  }
}

DEVICE int window_dim(int tile, int column) {
  return V_FORMAT == FORMAT_FP16   ? 8 * tile + column
         : V_FORMAT == FORMAT_INT8 ? 4 * column + tile
                                   : 2 * column + (tile & 1) + 16 * (tile >> 1);
}

// ---- the kernel ------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    prompt_attention(const float* __restrict__ q, const u8* __restrict__ k_pool, const u16* __restrict__ k_scales,
                     const u8* __restrict__ v_pool, const u16* __restrict__ v_scales, const i32* __restrict__ table,
                     const i32* __restrict__ all_ids, const i32* __restrict__ steps, float* __restrict__ out, i32 cap,
                     i32 page_size) {
  const Shared<u8> k = shared_array<u8>(Layout::k, kStages * CELLS * kKRow);
  const Shared<u8> v = shared_array<u8>(Layout::v, kStages * CELLS * kVRow);
  const Shared<u16> k_scale = shared_array<u16>(Layout::k_scale, K_FORMAT == FORMAT_INT8 ? kStages * CELLS * kScales : 0);
  const Shared<u16> v_scale = shared_array<u16>(Layout::v_scale, V_FORMAT == FORMAT_INT8 ? kStages * CELLS * kScales : 0);
  const Shared<float> part = shared_array<float>(Layout::part, kWarps * kRows * kScoreRow);
  const Shared<float> weight = shared_array<float>(Layout::weight, kRows * kScoreRow);
  const Shared<float> fold = shared_array<float>(Layout::fold, V_FORMAT == FORMAT_FP16 ? 0 : kWarps * kVGroups * CELLS);
  const Shared<i32> row = shared_array<i32>(Layout::row, kRing * CELLS);
  const Shared<float> alpha = shared_array<float>(Layout::alpha, kRows);
  const Shared<float> sum = shared_array<float>(Layout::sum, kRows);
  const Shared<i32> exponent = shared_array<i32>(Layout::exponent, kRows);

  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31;
  const Place me{thread, thread >> 5, lane, lane >> 2, lane & 3};
  const i64 query = blockIdx.x;
  const float* q_here = q + (query * gridDim.y + blockIdx.y) * GROUP * kDim;
  float* out_here = out + (query * gridDim.y + blockIdx.y) * GROUP * kDim;
  const i32* ids = all_ids + query * cap;
  const int n = load(steps + query * 4 + 3), chunks = (n + CELLS - 1) / CELLS;

  // Each head gets a power of two of its own, from its largest finite |q|: scaled values lie below
  // 2^14, and a huge, infinite or NaN element spoils no other head.
  {
    u32 largest[GROUP / kWarps];
#pragma unroll
    for (int i = 0; i < GROUP / kWarps; ++i) {
      largest[i] = 0;
#pragma unroll
      for (int j = 0; j < kDim / 128; ++j) {
        const uint4 x = load<uint4>(q_here + (me.warp + i * kWarps) * kDim + (j * 32 + me.lane) * 4);
        const u32 each[4] = {x.x & 0x7fffffffu, x.y & 0x7fffffffu, x.z & 0x7fffffffu, x.w & 0x7fffffffu};
#pragma unroll
        for (int c = 0; c < 4; ++c) largest[i] = each[c] < 0x7f800000u && each[c] > largest[i] ? each[c] : largest[i];
      }
    }
    warp_max<32>(largest);
    if (me.lane == 0)
#pragma unroll
      for (int i = 0; i < GROUP / kWarps; ++i) exponent.st(me.warp + i * kWarps, exponent_of(largest[i]));
  }
  for (int i = me.thread; i < (kStages + 1) * CELLS; i += kThreads) row.st(i, find_row(ids, table, i, n, page_size));
  for (int i = GROUP * kScoreRow + me.thread; i < kRows * kScoreRow; i += kThreads) weight.st(i, 0.0f);
  if (me.thread >= GROUP && me.thread < kRows) alpha.st(me.thread, 0.0f);
  __syncthreads();

  u32 q_hi[kSteps][4], q_lo[kSteps][4];   // rows g and g+8, the warp's dims
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int head = me.g + 8 * r;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        q_hi[s][r + 2 * half] = q_lo[s][r + 2 * half] = 0;
        if (head >= GROUP) continue;
        const float up = power_of_two(14 - exponent.ld(head));
        const float2 x = load<float2>(q_here + head * kDim + me.warp * kPerWarp + dim_of_slot(s, half, me.t));
        split(__fmul_rn(x.x, up), __fmul_rn(x.y, up), q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);
      }
    }

  // Softmax state of row thread/8, the same in its 8 threads: maximum in units of the raw score, sum.
  const int soft_row = me.thread >> 3, soft_cell = (me.thread & 7) * (CELLS / 8);
  const bool soft = soft_row < GROUP;   // the same for a whole warp
  float maximum = bits_to_float(kMinusInfinity), total = 0.0f;
  // log2(e) / sqrt(256), and the power of two that q was raised by
  const float q_down = soft ? __fmul_rn(bits_to_float(0x3db8aa3bu), power_of_two(exponent.ld(soft_row) - 14)) : 0.0f;

  float acc[kWindows][4][4];   // in units of 2^(unit - 14) of its scale group
  int unit[kVGroups];
#pragma unroll
  for (int group = 0; group < kVGroups; ++group) unit[group] = 0;
#pragma unroll
  for (int w = 0; w < kWindows; ++w)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[w][j][i] = 0.0f;

  Incoming<K_FORMAT> next_k;
  Incoming<V_FORMAT> next_v;
  const auto k_at = [&](int chunk) { return k.part(chunk % kStages * CELLS * kKRow, CELLS * kKRow); };
  const auto v_at = [&](int chunk) { return v.part(chunk % kStages * CELLS * kVRow, CELLS * kVRow); };
  const auto ks_at = [&](int chunk) { return K_FORMAT == FORMAT_INT8 ? k_scale.part(chunk % kStages * CELLS * kScales, CELLS * kScales) : k_scale; };
  const auto vs_at = [&](int chunk) { return V_FORMAT == FORMAT_INT8 ? v_scale.part(chunk % kStages * CELLS * kScales, CELLS * kScales) : v_scale; };
  const auto rows_at = [&](int chunk) { return row.part(chunk % kRing * CELLS, CELLS); };
  const auto start_k = [&](int chunk) {
    if (chunk < chunks) next_k.start(me, k_at(chunk), ks_at(chunk), k_pool, k_scales, rows_at(chunk));
  };
  const auto start_v = [&](int chunk) {
    if (chunk < chunks) next_v.start(me, v_at(chunk), vs_at(chunk), v_pool, v_scales, rows_at(chunk));
  };
  const auto land_k = [&](int chunk) {
    if (chunk < chunks) next_k.land(me, k_at(chunk), ks_at(chunk));
  };
  const auto land_v = [&](int chunk) {
    if (chunk < chunks) next_v.land(me, v_at(chunk), vs_at(chunk));
  };

  // K runs kStages chunks ahead of its use, V one less: V of chunk c is used half a turn later.
#pragma unroll
  for (int c = 0; c < kStages; ++c) {
    start_k(c);
    land_k(c);
    if (c > 0) {
      start_v(c - 1);
      land_v(c - 1);
    }
#if TIER >= 80
    cp_async_commit();
#endif
  }
#if TIER >= 80
  cp_async_wait<1>();
#endif
  __syncthreads();

  for (int chunk = 0; chunk < chunks; ++chunk) {
    // Scores. Every warp leaves its share of q.k, with the K scales, for 16 heads and all cells.
    const i32 row_ahead = me.thread < CELLS ? find_row(ids, table, (chunk + kStages + 1) * CELLS + me.thread, n, page_size) : -1;
    {
      const Shared<u8> keys = k_at(chunk);
      const Shared<u16> scales = ks_at(chunk);
      const Shared<float> mine = part.part(me.warp * kRows * kScoreRow, kRows * kScoreRow);
#pragma unroll
      for (int pair = 0; pair < CELLS / 16; ++pair) {
        float raw[2][kSums][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          u32 b[kSteps][2];
          key_fragments(b, me, keys, 16 * pair + 8 * half);
#pragma unroll
          for (int h = 0; h < kSums; ++h) {
            float(&sum_here)[4] = raw[half][h];
#pragma unroll
            for (int i = 0; i < 4; ++i) sum_here[i] = 0.0f;
            // Every step cuts the sum towards zero, so the small lo products go first: one cut a step less.
#pragma unroll
            for (int s = 0; s < kSteps / kSums; ++s) mma_step(sum_here, q_lo[h * kSteps / kSums + s], b[h * kSteps / kSums + s]);
#pragma unroll
            for (int s = 0; s < kSteps / kSums; ++s) mma_step(sum_here, q_hi[h * kSteps / kSums + s], b[h * kSteps / kSums + s]);
          }
        }
        mma_join();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int cell = 16 * pair + 8 * half + 2 * me.t;   // columns of i = 0, 2 and, one more, of i = 1, 3
          float score[4];
          if (K_FORMAT == FORMAT_Q4_0) {   // a scale for each 32 dims
#pragma unroll
            for (int c = 0; c < 2; ++c)
#pragma unroll
              for (int h = 0; h < kSums; ++h) {
                const float scale = half_value(keys.ld<u16>((cell + c) * kKRow + (2 * me.warp + h) * Format<FORMAT_Q4_0>::block_bytes));
#pragma unroll
                for (int i = c; i < 4; i += 2)
                  score[i] = h == 0 ? __fmul_rn(raw[half][0][i], scale) : __fmaf_rn(raw[half][h][i], scale, score[i]);
              }
          } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              score[i] = __fadd_rn(raw[half][0][i], raw[half][1][i]);
              if (K_FORMAT == FORMAT_INT8) score[i] = __fmul_rn(score[i], half_value(scales.ld((cell + (i & 1)) * kScales + me.warp)));
            }
          }
          mine.st<float2>(me.g * kScoreRow + cell, float2{score[0], score[1]});
          mine.st<float2>((me.g + 8) * kScoreRow + cell, float2{score[2], score[3]});
        }
      }
    }
    if (me.thread < CELLS) rows_at(chunk + kStages + 1).st(me.thread, row_ahead);
    __syncthreads();

    start_k(chunk + kStages);
    start_v(chunk + kStages - 1);
#if TIER >= 80
    cp_async_commit();
#endif

    // Softmax: 8 threads a row, CELLS / 8 neighbouring cells each.
    if (soft) {
      constexpr int kEach = CELLS / 8;
      float score[kEach];
      bool masked[kEach];
      float high[1] = {bits_to_float(kMinusInfinity)};
#pragma unroll
      for (int i = 0; i < kEach; i += 4) {
        float4 share[kWarps];
#pragma unroll
        for (int w = 0; w < kWarps; ++w) share[w] = part.ld<float4>((w * kRows + soft_row) * kScoreRow + soft_cell + i);
        score[i] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].x, share[1].x), share[2].x), share[3].x);
        score[i + 1] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].y, share[1].y), share[2].y), share[3].y);
        score[i + 2] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].z, share[1].z), share[2].z), share[3].z);
        score[i + 3] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].w, share[1].w), share[2].w), share[3].w);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        masked[i] = rows_at(chunk).ld(soft_cell + i) < 0;
        score[i] = masked[i] ? bits_to_float(kMinusInfinity) : score[i];
        high[0] = score[i] > high[0] ? score[i] : high[0];
      }
      warp_max<8>(high);
      const float before = maximum;
      maximum = high[0] > maximum ? high[0] : maximum;
      // Differences first, then the scale: raw scores are finite for every finite q, scaled ones need not be.
      float here[1] = {0.0f};
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        score[i] = masked[i] ? 0.0f : exp2_not_positive(__fmul_rn(__fsub_rn(score[i], maximum), q_down));
        here[0] = __fadd_rn(here[0], score[i]);
      }
      warp_add<8>(here);
      const float shrink = before == bits_to_float(kMinusInfinity) ? 0.0f : exp2_not_positive(__fmul_rn(__fsub_rn(before, maximum), q_down));
      total = __fmaf_rn(total, shrink, here[0]);
#pragma unroll
      for (int i = 0; i < kEach; i += 4)
        weight.st<float4>(soft_row * kScoreRow + soft_cell + i, float4{score[i], score[i + 1], score[i + 2], score[i + 3]});
      if ((me.thread & 7) == 0) alpha.st(soft_row, shrink);
    }
    land_k(chunk + kStages);
    land_v(chunk + kStages - 1);
#if TIER >= 80
    cp_async_wait<1>();
#endif
    __syncthreads();

    // p.v: V scales are folded into p. Each scale group has a power of two, from its largest finite
    // |scale| in the chunk, that brings p below 2^14; scales have signs.
    const Shared<u8> values = v_at(chunk);
    const float shrink[2] = {alpha.ld(me.g), alpha.ld(me.g + 8)};
    float change[kVGroups][2];   // of acc, for rows g and g+8
    if (V_FORMAT == FORMAT_FP16) {
      change[0][0] = shrink[0], change[0][1] = shrink[1];
    } else {
      constexpr int kEach = CELLS / 32;
      u16 bits[kVGroups][kEach];
      u32 largest[kVGroups];
#pragma unroll
      for (int group = 0; group < kVGroups; ++group) {
        largest[group] = 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int cell = me.lane + 32 * i;
          bits[group][i] = V_FORMAT == FORMAT_INT8
                               ? vs_at(chunk).ld(cell * kScales + me.warp)
                               : values.ld<u16>(cell * kVRow + (2 * me.warp + group) * Format<FORMAT_Q4_0>::block_bytes);
          const u32 magnitude = bits[group][i] & 0x7fffu;
          largest[group] = magnitude < 0x7c00u && magnitude > largest[group] ? magnitude : largest[group];
        }
      }
      warp_max<32>(largest);
#pragma unroll
      for (int group = 0; group < kVGroups; ++group) {
        const int e = exponent_of(float_to_bits(half_value(static_cast<u16>(largest[group]))));
        const float units = power_of_two(unit[group] - e);
        change[group][0] = __fmul_rn(shrink[0], units), change[group][1] = __fmul_rn(shrink[1], units);
        unit[group] = e;
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          fold.st((me.warp * kVGroups + group) * CELLS + me.lane + 32 * i, __fmul_rn(half_value(bits[group][i]), power_of_two(14 - e)));
      }
      __syncwarp();
    }

#pragma unroll
    for (int first = 0; first < CELLS; first += 32) {   // 32 cells a sum
      u32 p_hi[2][4], p_lo[2][4];
#pragma unroll
      for (int window = 0; window < kWindows; ++window) {
        if (window < kVGroups) {   // a new scale group
#pragma unroll
          for (int s = 0; s < 2; ++s)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int cell = first + 16 * s + 8 * half + 2 * me.t;
              const float2 scale = V_FORMAT == FORMAT_FP16 ? float2{16384.0f, 16384.0f}
                                                           : fold.ld<float2>((me.warp * kVGroups + window) * CELLS + cell);
#pragma unroll
              for (int r = 0; r < 2; ++r) {
                const float2 p = weight.ld<float2>((me.g + 8 * r) * kScoreRow + cell);
                split(__fmul_rn(p.x, scale.x), __fmul_rn(p.y, scale.y), p_hi[s][r + 2 * half], p_lo[s][r + 2 * half]);
              }
            }
        }
        float raw[4][4];
        u32 b[2][4][2];
#pragma unroll
        for (int s = 0; s < 2; ++s) value_fragments(b[s], me, values, first + 16 * s, window);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) raw[j][i] = 0.0f;
        }
#pragma unroll
        for (int s = 0; s < 2; ++s)   // lo before hi, as in the scores
#pragma unroll
          for (int j = 0; j < 4; ++j) mma_step(raw[j], p_lo[s], b[s][j]);
#pragma unroll
        for (int s = 0; s < 2; ++s)
#pragma unroll
          for (int j = 0; j < 4; ++j) mma_step(raw[j], p_hi[s], b[s][j]);
        mma_join();
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& here = acc[window][j][i];
            here = first == 0 ? __fmaf_rn(here, change[window < kVGroups ? window : 0][i >> 1], raw[j][i]) : __fadd_rn(here, raw[j][i]);
          }
      }
    }
  }

  if (soft && (me.thread & 7) == 0) sum.st(soft_row, total);
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int head = me.g + 8 * r;
    if (head >= GROUP) continue;
    const float whole = sum.ld(head);
#pragma unroll
    for (int window = 0; window < kWindows; ++window)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          store(out_here + head * kDim + me.warp * kPerWarp + window * 32 + window_dim(j, 2 * me.t + c),
                whole == 0.0f ? 0.0f   // NaN stays NaN
                              : __fdiv_rn(__fmul_rn(acc[window][j][2 * r + c], power_of_two(unit[window < kVGroups ? window : 0] - 14)), whole));
  }
}
