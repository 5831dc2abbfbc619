// Asks a tensor core, and a card's special-function unit, for bits that tell one design from another.
//
// One block is one warp and one dot product, put into every row of A, every column of B and all of C: then all 128
// outputs must be equal, whatever lane holds which.
#include "include/ptx.cuh"

// The two elements of k that thread-in-group t holds of a register, and eight further on.
DEVICE u32 pair(const u16* row, int t, int eight) {
  return static_cast<u32>(load(row + eight + 2 * t)) | static_cast<u32>(load(row + eight + 2 * t + 1)) << 16;
}

// a, b: binary16 [blocks][16]; c: [blocks]; d: [blocks][32 lanes][4]; k: 8 or 16, the instruction.
extern "C" __global__ void identify(const u16* a, const u16* b, const float* c, float* d, i32 k) {
  const int lane = static_cast<int>(threadIdx.x), t = lane & 3;
  const i64 block = blockIdx.x;
  const float start = load(c + block);
  float acc[4] = {start, start, start, start};
  // Registers 0 and 1 of A are rows g and g + 8 of the first eight of k; 2 and 3 the same of the other eight.
  const u32 a_low = pair(a + block * 16, t, 0), a_high = pair(a + block * 16, t, 8);
  const u32 fa[4] = {a_low, a_low, a_high, a_high};
  const u32 fb[2] = {pair(b + block * 16, t, 0), pair(b + block * 16, t, 8)};
  if (k == 8) mma_m16n8k8(acc, fa, fb);
#if TIER >= 80
  else mma_m16n8k16(acc, fa, fb);
#endif
  mma_join();
  for (int i = 0; i < 4; ++i) store(d + (block * 32 + lane) * 4 + i, acc[i]);
}

#ifndef STRATA_LANES
#define FUNCTION(row, instruction)                             \
  {                                                            \
    float y;                                                   \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x));            \
    store(out + (row) * n + i, y);                             \
  }

// in: [n]; out: [5][n], a row for each instruction. No rule predicts these bits, so lanes do not have them.
extern "C" __global__ void special(const float* in, float* out, i32 n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= n) return;
  const float x = load(in + i);
  FUNCTION(0, "ex2.approx.f32")
  FUNCTION(1, "rcp.approx.f32")
  FUNCTION(2, "sqrt.approx.f32")
  FUNCTION(3, "lg2.approx.f32")
  FUNCTION(4, "sin.approx.f32")
}
#endif
