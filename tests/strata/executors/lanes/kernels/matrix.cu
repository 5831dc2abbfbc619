// Runs a program of matrix instructions: which operands, which accumulator, when to join.
//
// One block is one warp with operands of its own. Fragments are gathered element by element from
// row-major matrices by the tables of the PTX manual, so a wrong layout gives wrong numbers.
#include "include/ptx.cuh"

constexpr int kMost = 12;   // accumulators

// PTX, "Matrix Fragments for mma.m16n8k8" and ".m16n8k16": for the lane of group g and thread-in-group t,
// element i of A (two per register) lies in row g or g + 8 and column 2t + (i & 1), 8 further from
// i = 4 on; element i of B in row 2t + (i & 1), 8 further from i = 2 on, and column g; element i of C
// and D in row g, or g + 8 from i = 2 on, and column 2t + (i & 1).
DEVICE int a_row(int g, int i) { return g + (i >> 1 & 1) * 8; }
DEVICE int a_column(int t, int i) { return 2 * t + (i & 1) + (i >> 2) * 8; }
DEVICE int b_row(int t, int i) { return 2 * t + (i & 1) + (i >> 1) * 8; }
DEVICE int d_row(int g, int i) { return g + (i >> 1) * 8; }
DEVICE int d_column(int t, int i) { return 2 * t + (i & 1); }

// a [block][a_count][16][16], b [block][b_count][16][8] (m16n8k8 reads the first 8 of k), c and d
// [block][accumulators][16][8]. program [length][4]: operation, index of a, of b, of the accumulator.
// Operations: 8 and 16 are the instructions, 0 joins, -1 adds 1/3 to the accumulator, -2 multiplies it
// by 2^-140 and by 2^127, through subnormals. With `twist` odd lanes have half as many accumulators, so
// that one of theirs stands for two of the even lanes'.
extern "C" __global__ void matrix(const u16* a, const u16* b, const float* c, float* d, const i32* program, i32 length,
                                  i32 a_count, i32 b_count, i32 accumulators, i32 twist) {
  const int lane = static_cast<int>(threadIdx.x), g = lane >> 2, t = lane & 3;
  const i64 block = blockIdx.x;
  float acc[kMost][4];
  for (int n = 0; n < accumulators; ++n)
    for (int i = 0; i < 4; ++i)
      acc[n][i] = load(c + ((block * accumulators + n) * 16 + d_row(g, i)) * 8 + d_column(t, i));
  for (int step = 0; step < length; ++step) {
    const int operation = load(program + step * 4);
    float(&mine)[4] = acc[load(program + step * 4 + 3) >> (twist & lane & 1)];
    if (operation == 0) {
      mma_join();
    } else if (operation > 0) {
      const u16* from_a = a + (block * a_count + load(program + step * 4 + 1)) * 256;
      const u16* from_b = b + (block * b_count + load(program + step * 4 + 2)) * 128;
      u32 fa[4] = {}, fb[2] = {};
      for (int i = 0; i < operation / 2; ++i)
        fa[i >> 1] |= static_cast<u32>(load(from_a + a_row(g, i) * 16 + a_column(t, i))) << 16 * (i & 1);
      for (int i = 0; i < operation / 4; ++i)
        fb[i >> 1] |= static_cast<u32>(load(from_b + b_row(t, i) * 8 + g)) << 16 * (i & 1);
      if (operation == 8) mma_m16n8k8(mine, fa, fb);
#if TIER >= 80
      else mma_m16n8k16(mine, fa, fb);
#endif
    } else if (operation == -1) {
      for (int i = 0; i < 4; ++i) mine[i] = __fadd_rn(mine[i], 1.0f / 3);
    } else {
      for (int i = 0; i < 4; ++i)
        mine[i] = __fmul_rn(__fmul_rn(__fmul_rn(mine[i], 0x1p-100f), 0x1p-40f), 0x1p127f);
    }
  }
  for (int n = 0; n < accumulators; ++n)
    for (int i = 0; i < 4; ++i)
      store(d + ((block * accumulators + n) * 16 + d_row(g, i)) * 8 + d_column(t, i), acc[n][i]);
}
