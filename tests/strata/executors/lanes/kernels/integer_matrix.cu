// Integer matrix instructions on tiles given row-major; fragments gathered byte by byte by the tables of
// the PTX manual ("Matrix Fragments for mma.m16n8k32", ".m16n8k16", ".m8n8k16" with .s8).
#include "include/int8.cuh"

constexpr int kM = 3, kN = 2;   // of the products over several fragments

// Element i of A: row g, g + 8 for odd registers; column 4t + (i & 3), 16 further from register 2 on.
DEVICE u32 a_register(const i8* a, int k, int lane, int reg, int rows) {
  u32 r = 0;
  for (int i = 0; i < 4; ++i)
    r |= static_cast<u32>(static_cast<u8>(load(a + ((lane >> 2) + (rows == 16 ? reg & 1 : 0) * 8) * k + (reg >> 1) * 16 + (lane & 3) * 4 + i))) << 8 * i;
  return r;
}
DEVICE u32 b_register(const i8* b, int lane, int reg) {
  u32 r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<u32>(static_cast<u8>(load(b + (reg * 16 + (lane & 3) * 4 + i) * 8 + (lane >> 2)))) << 8 * i;
  return r;
}

// a int8 [blocks][kM][16][32], b int8 [blocks][kN][32][8], c and d int32 [blocks][kM][kN][16][8].
// what: 0 m16n8k32, 1 m16n8k16 (first half of k), 2 m8n8k16 (rows 0..7, first half of k), all on fragment (0, 0);
// 3 multiply_k32_s8, 4 multiply_k16_s8 on all; 5 dp4a of the first 4 k of row lane % 16, column lane % 8.
extern "C" __global__ void integer_matrix(const i8* a, const i8* b, const i32* c, i32* d, i32 what) {
  const int lane = static_cast<int>(threadIdx.x), g = lane >> 2, t = lane & 3;
  const i64 block = blockIdx.x;
  a += block * kM * 16 * 32, b += block * kN * 32 * 8, c += block * kM * kN * 128, d += block * kM * kN * 128;
  i32 acc[kM][kN][4];
  u32 fa[kM][4], fb[kN][2], ha[kM][2], hb[kN][1];
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n)
      for (int i = 0; i < 4; ++i) acc[m][n][i] = load(c + ((m * kN + n) * 16 + g + (i >> 1) * 8) * 8 + 2 * t + (i & 1));
  for (int m = 0; m < kM; ++m)
    for (int i = 0; i < 4; ++i) fa[m][i] = a_register(a + m * 512, 32, lane, i, 16);
  for (int m = 0; m < kM; ++m)
    for (int i = 0; i < 2; ++i) ha[m][i] = fa[m][i];
  for (int n = 0; n < kN; ++n)
    for (int i = 0; i < 2; ++i) fb[n][i] = b_register(b + n * 256, lane, i);
  for (int n = 0; n < kN; ++n) hb[n][0] = fb[n][0];
  if (what == 2) mma_m8n8k16_s8(acc[0][0], fa[0], fb[0]);
  if (what == 3) multiply_k32_s8(acc, fa, fb);
  if (what == 4) multiply_k16_s8(acc, ha, hb);
#if TIER >= 80
  if (what == 0) mma_m16n8k32_s8(acc[0][0], fa[0], fb[0]);
  if (what == 1) mma_m16n8k16_s8(acc[0][0], fa[0], fb[0]);
#endif
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n)
      for (int i = 0; i < 4; ++i) store(d + ((m * kN + n) * 16 + g + (i >> 1) * 8) * 8 + 2 * t + (i & 1), acc[m][n][i]);
  if (what == 5) {
    const int row = lane & 15, column = lane & 7;
    u32 x = 0, y = 0;
    for (int i = 0; i < 4; ++i) {
      x |= static_cast<u32>(static_cast<u8>(load(a + row * 32 + i))) << 8 * i;
      y |= static_cast<u32>(static_cast<u8>(load(b + i * 8 + column))) << 8 * i;
    }
    __syncwarp();
    store(d + row * 8 + column, dp4a(x, y, load(c + row * 8 + column)));
  }
}
