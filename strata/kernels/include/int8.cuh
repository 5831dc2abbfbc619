// Integer matrix instructions, int8 x int8 into 32-bit integers, each with two bodies: inline assembly,
// and the same exact arithmetic on lanes.
//
// Fragments, for the lane of group g = lane/4 and t = lane%4 (A row by k, B k by column):
//   m16n8k32  a[0] row g, k 4t..4t+3; a[1] row g+8; a[2], a[3] the same rows, k+16; b[0] column g, k 4t..4t+3;
//             b[1] k+16; d[0], d[1] row g, columns 2t, 2t+1; d[2], d[3] row g+8
//   m16n8k16  the first half of k: a[0], a[1]; b[0]
//   m8n8k16   a[0] row g; b[0] column g; d[0], d[1] row g, columns 2t, 2t+1
// The lowest byte of a register has the lowest k: what ldmatrix delivers from rows of bytes.
#pragma once

#include "ptx.cuh"

// dp4a.s32.s32: c plus the products of four int8 each.
DEVICE i32 dp4a(u32 a, u32 b, i32 c) {
#ifdef STRATA_LANES
  for (int i = 0; i < 32; i += 8) c += static_cast<i32>(static_cast<i8>(a >> i)) * static_cast<i8>(b >> i);
  return c;
#else
  i32 r;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#endif
}

// One m8n8k16 of several that make a larger product: which accumulators (first of two) and registers it takes.
struct Eighth {
  int d, a, b;
};
// m16n8k32 out of m8n8k16, in the order in which sm75 issues them; the first two are m16n8k16.
#define EIGHTHS {{0, 0, 0}, {2, 1, 0}, {0, 2, 1}, {2, 3, 1}}

#ifdef STRATA_LANES
namespace lanes {
// d[m][n] += a[m] b[n] for M fragments of A_REGS registers and N of B_REGS: one rendezvous for all of them.
template <int M, int N, int A_REGS, int B_REGS, int D_REGS>
inline void integer_products(int* d, const u32* a, const u32* b, Where at) {
  IntegerOperands mine{d, a, b};
  rendezvous(Kind::mma, kAllLanes, &mine, at, [](IntegerOperands** all) {
    constexpr Eighth kEighths[4] = EIGHTHS;
    constexpr int kSteps = A_REGS;   // each register of A meets one of B
    IntegerColumns columns[N * B_REGS];
    for (int i = 0; i < N * B_REGS; ++i) gather(columns[i], all, i);
    for (int m = 0; m < M; ++m) {
      IntegerRows rows[A_REGS];
      for (int i = 0; i < A_REGS; ++i) gather(rows[i], all, m * A_REGS + i);
      for (int n = 0; n < N; ++n) {
        const int first = (m * N + n) * D_REGS;
        alignas(64) int sum[D_REGS / 2][8][8];
        for (int i = 0; i < D_REGS / 2; ++i) exchange(sum[i], all, first + 2 * i, true);
        for (int i = 0; i < kSteps; ++i)
          multiply(sum[kEighths[i].d / 2], rows[kEighths[i].a], columns[n * B_REGS + kEighths[i].b]);
        for (int i = 0; i < D_REGS / 2; ++i) exchange(sum[i], all, first + 2 * i, false);
      }
    }
  });
}
}  // namespace lanes

// mma.sync m16n8k32 (sm_80): d += a b, modulo 2^32.
inline void mma_m16n8k32_s8(i32 (&d)[4], const u32* a, const u32* b, lanes::Where at = lanes::Where::current()) {
  lanes::integer_products<1, 1, 4, 2, 4>(d, a, b, at);
}
// mma.sync m16n8k16 (sm_80).
inline void mma_m16n8k16_s8(i32 (&d)[4], const u32* a, const u32* b, lanes::Where at = lanes::Where::current()) {
  lanes::integer_products<1, 1, 2, 1, 4>(d, a, b, at);
}
// mma.sync m8n8k16 (sm_75).
inline void mma_m8n8k16_s8(i32* d, const u32* a, const u32* b, lanes::Where at = lanes::Where::current()) {
  lanes::integer_products<1, 1, 1, 1, 2>(d, a, b, at);
}

// d[m][n] += a[m] b[n] over 32 k: M N products of 16 x 8, in the tier's instruction.
template <int M, int N>
inline void multiply_k32_s8(i32 (&d)[M][N][4], const u32 (&a)[M][4], const u32 (&b)[N][2], lanes::Where at = lanes::Where::current()) {
  lanes::integer_products<M, N, 4, 2, 4>(&d[0][0][0], &a[0][0], &b[0][0], at);
}
// The same over 16 k.
template <int M, int N>
inline void multiply_k16_s8(i32 (&d)[M][N][4], const u32 (&a)[M][2], const u32 (&b)[N][1], lanes::Where at = lanes::Where::current()) {
  lanes::integer_products<M, N, 2, 1, 4>(&d[0][0][0], &a[0][0], &b[0][0], at);
}

// d[m][n] = start + a[m] b[n], over 32 k and over 16.
template <int M, int N>
inline void dots_k32_s8(i32 (&d)[M][N][4], const u32 (&a)[M][4], const u32 (&b)[N][2], i32 start, lanes::Where at = lanes::Where::current()) {
  for (int i = 0; i < M * N * 4; ++i) (&d[0][0][0])[i] = start;
  multiply_k32_s8(d, a, b, at);
}
template <int M, int N>
inline void dots_k16_s8(i32 (&d)[M][N][4], const u32 (&a)[M][2], const u32 (&b)[N][1], i32 start, lanes::Where at = lanes::Where::current()) {
  for (int i = 0; i < M * N * 4; ++i) (&d[0][0][0])[i] = start;
  multiply_k16_s8(d, a, b, at);
}
#else
#if TIER >= 80
DEVICE void mma_m16n8k32_s8(i32 (&d)[4], const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_m16n8k16_s8(i32 (&d)[4], const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
#endif
DEVICE void mma_m8n8k16_s8(i32* d, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(b[0]));
}

template <int M, int N>
DEVICE void multiply_k32_s8(i32 (&d)[M][N][4], const u32 (&a)[M][4], const u32 (&b)[N][2]) {
#if TIER >= 80
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n) mma_m16n8k32_s8(d[m][n], a[m], b[n]);
#else
  constexpr Eighth kEighths[4] = EIGHTHS;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n) mma_m8n8k16_s8(d[m][n] + kEighths[i].d, a[m] + kEighths[i].a, b[n] + kEighths[i].b);
#endif
}
template <int M, int N>
DEVICE void multiply_k16_s8(i32 (&d)[M][N][4], const u32 (&a)[M][2], const u32 (&b)[N][1]) {
#if TIER >= 80
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n) mma_m16n8k16_s8(d[m][n], a[m], b[n]);
#else
  constexpr Eighth kEighths[4] = EIGHTHS;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n) mma_m8n8k16_s8(d[m][n] + kEighths[i].d, a[m] + kEighths[i].a, b[n] + kEighths[i].b);
#endif
}

template <int M, int N>
DEVICE void dots_k32_s8(i32 (&d)[M][N][4], const u32 (&a)[M][4], const u32 (&b)[N][2], i32 start) {
#if TIER >= 80
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                   : "=r"(d[m][n][0]), "=r"(d[m][n][1]), "=r"(d[m][n][2]), "=r"(d[m][n][3])
                   : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b[n][0]), "r"(b[n][1]), "r"(start));
#else
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) d[m][n][i] = start;
  multiply_k32_s8(d, a, b);
#endif
}
template <int M, int N>
DEVICE void dots_k16_s8(i32 (&d)[M][N][4], const u32 (&a)[M][2], const u32 (&b)[N][1], i32 start) {
#if TIER >= 80
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                   : "=r"(d[m][n][0]), "=r"(d[m][n][1]), "=r"(d[m][n][2]), "=r"(d[m][n][3])
                   : "r"(a[m][0]), "r"(a[m][1]), "r"(b[n][0]), "r"(start));
#else
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) d[m][n][i] = start;
  multiply_k16_s8(d, a, b);
#endif
}
#endif
