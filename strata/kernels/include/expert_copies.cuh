// Copies of activations and of weights to shared memory, which run while products are made.
#pragma once

#include "expert_tile.cuh"
#include "ptx.cuh"

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
    const Shared<u8> mine = rest(to, kStage, kThreads > COLUMNS * unit && thread >= COLUMNS * unit ? 0 : 16 * thread);
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
