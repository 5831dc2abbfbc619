// Product of a matrix in 4-bit blocks with a few vectors: y[c, r] = sum over blocks b of scale[r, b] * sum over i of
// (code[r, b, i] - 8) * x[c, 32 b + i].
//
// One block makes 16 rows of y for 8 vectors; its 4 warps take the blocks of a row in turn. A warp's two tensor-core
// instructions sum the 32 products of a block, without the scale, which may have either sign; a fused multiply-add
// brings it in. x comes through shared memory 128 values at a time, into one half of a buffer while the other is read.
// The sums of the warps are added in their order. Codes are 16 bytes a block: byte j holds value j in its low nibble and
// value j + 16 in its high one.
//
// -D: TIER (80).

#include "include/ptx.cuh"

constexpr int kThreads = 128, kWarps = 4, kRows = 16, kColumns = 8;
constexpr int kStep = 32 * kWarps;      // values of a step: a block of 32 for every warp
constexpr int kStagedRow = kStep + 8;   // halves; 4 words off a multiple of 32, so that 8 rows meet all banks
constexpr int kStaged = kColumns * kStagedRow;

// Two nibbles of w less 8, as exact halves: those at bits 0..3 and 16..19. 1024 + n is built from its bits.
DEVICE u32 code_pair(u32 w) { return half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64086408u); }

extern "C" __global__ void __launch_bounds__(kThreads)
    block_scale_matvec(const u8* __restrict__ codes, const u16* __restrict__ scales, const u16* __restrict__ x,
                       float* __restrict__ y, i32 rows, i32 blocks, i32 columns) {
  const Shared<u16> staged = shared_array<u16>(0, 2 * kStaged);
  const Shared<float> sums = shared_array<float>(2 * kStaged * 2, kWarps * kRows * kColumns);
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const int g = lane >> 2, t = lane & 3;   // row and column pair of this lane in a fragment
  const int first_row = static_cast<int>(blockIdx.x) * kRows, first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int width = blocks * 32;

  float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};   // rows g and g + 8, columns 2t and 2t + 1
  int buffer = 0;
  for (int first = 0; first < width; first += kStep) {
    const Shared<u16> here = staged.part(buffer * kStaged, kStaged);
    for (int i = thread; i < kColumns * kStep; i += kThreads) {
      const int column = first_column + i / kStep, k = first + i % kStep;
      const i64 vector = column < columns ? column : columns - 1;   // of columns past the end no product is stored
      if (k < width) here.st(i / kStep * kStagedRow + i % kStep, load(x + vector * width + k));
    }
    __syncthreads();   // and the half that is written next was read before the barrier of the step between

    const int block = first / 32 + warp;
    if (block < blocks) {
      float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      u32 packed[2][2];   // of rows g and g + 8: bytes 2t, 2t + 1 and 2t + 8, 2t + 9 of the block
      float scale[2];
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + g + 8 * half;
        const i64 at = static_cast<i64>(row < rows ? row : rows - 1) * blocks + block;   // nor of rows past the end
        for (int k = 0; k < 2; ++k) {
          const u32 two = load<u16>(codes + at * 16 + 2 * t + 8 * k);
          packed[half][k] = byte_select<0x1100>(two, two);   // in each half one of the bytes, twice
        }
        scale[half] = half_value(load(scales + at));
      }
      for (int high = 0; high < 2; ++high) {   // values 0..15 of the block, then 16..31
        const u32 a[4] = {code_pair(packed[0][0] >> 4 * high), code_pair(packed[1][0] >> 4 * high),
                          code_pair(packed[0][1] >> 4 * high), code_pair(packed[1][1] >> 4 * high)};
        const int at = g * kStagedRow + 32 * warp + 16 * high + 2 * t;
        const u32 b[2] = {here.ld<u32>(at), here.ld<u32>(at + 8)};
        mma_m16n8k16(dot, a, b);
      }
      mma_join();
      for (int i = 0; i < 4; ++i) acc[i] = __fmaf_rn(scale[i / 2], dot[i], acc[i]);
    }
    buffer ^= 1;
  }

  for (int i = 0; i < 4; ++i) sums.st((warp * kRows + g + 8 * (i / 2)) * kColumns + 2 * t + i % 2, acc[i]);
  __syncthreads();
  const int row = first_row + thread % kRows, column = first_column + thread / kRows;
  if (row < rows && column < columns) {
    float total = 0.0f;
    for (int w = 0; w < kWarps; ++w) total = __fadd_rn(total, sums.ld((w * kRows + thread % kRows) * kColumns + thread / kRows));
    store(y + static_cast<i64>(column) * rows + row, total);
  }
}
