// Comparing two ranges of device memory byte for byte, and copying one with a kernel's own loads.
//
// Both ranges may begin at any address. 16 bytes are loaded at a time where both have the same address modulo 16;
// the ragged bytes before and after, and ranges that lie otherwise, go byte by byte.

#include "include/vocabulary.cuh"

constexpr u64 kVector = 16;

struct Ranges {
  u64 head, vectors, tail;   // bytes before the first vector, vectors, bytes after the last
};
DEVICE Ranges split(const u8* a, const u8* b, u64 n) {
  const u64 first = reinterpret_cast<u64>(a), second = reinterpret_cast<u64>(b);
  u64 head = (kVector - first % kVector) % kVector;
  if ((first ^ second) % kVector != 0 || head > n) head = n;
  const u64 vectors = (n - head) / kVector;
  return {head, vectors, n - head - vectors * kVector};
}

// The larger of two finds is the lower offset: a find is the complement of offset << 16 | expected << 8 | got.
DEVICE u64 find(u64 offset, u32 expected, u32 got) { return ~(offset << 16 | static_cast<u64>(expected << 8 | got)); }

DEVICE u64 byte_find(const u8* memory, const u8* expected, u64 i) {
  const u32 got = load(memory + i), want = load(expected + i);
  return got == want ? 0 : find(i, want, got);
}

DEVICE u64 vector_find(const u8* memory, const u8* expected, u64 i) {
  const uint4 got = load<uint4>(memory + i), want = load<uint4>(expected + i);
  const u32 g[4] = {got.x, got.y, got.z, got.w}, w[4] = {want.x, want.y, want.z, want.w};
  u64 best = 0;
#pragma unroll
  for (int j = 3; j >= 0; --j) {
    const u32 differs = g[j] ^ w[j];
    if (differs == 0) continue;
    const int byte = (differs & 0xffu) ? 0 : (differs & 0xff00u) ? 1 : (differs & 0xff0000u) ? 2 : 3;
    best = find(i + static_cast<u64>(4 * j + byte), w[j] >> 8 * byte & 0xffu, g[j] >> 8 * byte & 0xffu);
  }
  return best;
}

// result[0]: the find of the lowest offset that differs, 0 for none; result[1]: grows by the bytes compared.
// Neither depends on the order in which threads run.
extern "C" __global__ void __launch_bounds__(THREADS)
    compare_bytes(const u8* memory, u64 memory_at, const u8* expected, u64 expected_at, u64 n, u64* result) {
  const u8* const a = memory + memory_at;
  const u8* const b = expected + expected_at;
  const Ranges r = split(a, b, n);
  const u64 threads = static_cast<u64>(gridDim.x) * THREADS;
  const u64 me = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
  u64 best = 0, compared = 0;
  for (u64 i = me; i < r.head; i += threads) {
    const u64 found = byte_find(a, b, i);
    best = found > best ? found : best;
    ++compared;
  }
#pragma unroll 4
  for (u64 i = me; i < r.vectors; i += threads) {
    const u64 found = vector_find(a, b, r.head + i * kVector);
    best = found > best ? found : best;
    compared += kVector;
  }
  for (u64 i = me; i < r.tail; i += threads) {
    const u64 found = byte_find(a, b, r.head + r.vectors * kVector + i);
    best = found > best ? found : best;
    ++compared;
  }
  if (best != 0) atomicMax(result, best);

  const Shared<u64> sums = shared_array<u64>(0, THREADS);
  const int t = static_cast<int>(threadIdx.x);
  sums.st(t, compared);
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) sums.st(t, sums.ld(t) + sums.ld(t + half));
  }
  if (t == 0) atomicAdd(result + 1, sums.ld(0));
}

// out[i] = memory[memory_at + i]: what a kernel reads there, which a copy engine's answer does not prove.
extern "C" __global__ void __launch_bounds__(THREADS)
    copy_bytes(const u8* memory, u64 memory_at, u8* out, u64 out_at, u64 n) {
  const u64 threads = static_cast<u64>(gridDim.x) * THREADS;
  for (u64 i = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += threads)
    store<u8>(out + out_at + i, load(memory + memory_at + i));
}
