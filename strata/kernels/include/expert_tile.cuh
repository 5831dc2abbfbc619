// What a block of threads works on: its share of an expert's product, and what it has in shared memory meanwhile. The
// macros are those of expert_fused.cu.
#pragma once

#include "activation.cuh"
#include "expert_fragments.cuh"

constexpr bool kDown = FORMAT == TYPE_IQ4_NL || FORMAT == TYPE_Q2_0;
constexpr int kWarps = WEIGHT_ROWS / (16 * FRAGMENTS), kThreads = 32 * kWarps;
constexpr int kTiles = COLUMNS / 8;            // of 8 columns
constexpr int kTogether = kDown ? 1 : 2;       // tiles that are skipped or multiplied together
constexpr int kScales = Fragment<FORMAT>::scales;
constexpr int kGrid = Fragment<FORMAT>::grid_words;
// Sums of gate and up on their way to SwiGLU: floats of a column, 4 more than a multiple of 32 for the banks. Where a
// block has 64 KiB they go in two passes.
constexpr int kFeatures = WEIGHT_ROWS / 2, kSumsRow = WEIGHT_ROWS + 4;
constexpr int kPasses = TIER >= 80 ? 1 : 2, kPassColumns = COLUMNS / kPasses;
static_assert(COLUMNS % (8 * kTogether) == 0, "columns fill groups");
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
DEVICE int row_place(int row) { return row / 8 * kGroupBytes + row % 8 * kRowBytes + row % 8 / 4 * kSkew; }

// Byte offsets of the arrays in shared memory. Sums of gate and up take the place of the stages once they are used up.
struct Shape {
  static constexpr int x = 0;
  static constexpr int weights = x + STAGES * kStage;
  static constexpr int stages = weights + kWordsBytes;
  static constexpr int sums = kDown ? 0 : kPassColumns * kSumsRow * 4;
  static constexpr int pairs = stages > sums ? stages : sums;
  static constexpr int grid = pairs + (kDown ? COLUMNS * 4 : 0);
  static constexpr int end = grid + kGrid * 4;
};
static_assert(Shape::end == SHARED_BYTES, "expert_fused.py and this file disagree on shared memory");

// The rest of an array from element `at` on. Constants added to that are part of a load's or copy's instruction.
template <class T>
DEVICE Shared<T> rest(Shared<T> all, int size, int at) { return all.part(kept(at), size - at); }

struct Place {   // g and t: row group and column pair in a matrix fragment
  int thread, warp, lane, g, t;
};
