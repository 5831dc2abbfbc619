// y[i] = 2 x[i], and how many elements are above zero, with faults that leave the right numbers in y on a processor: a
// kernel of tests. fault: 0 for the right kernel, or one that twice.py names.

#include "include/vocabulary.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    twice(const float* __restrict__ x, float* y, float* w, i32* above, i32 width, i32 fault) {
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int i = block * THREADS + thread, next = block * THREADS + (thread + 1) % THREADS;
  if (i >= width) return;
  float value = __fmul_rn(2.0f, load(x + i));
  float unset, table[4] = {value, value, value, value};
  int number = width;

  if (fault == 1 && thread > 0) store(y + i - 1, load(x + i));
  if (fault == 2) store(w + i, value);
  if (fault == 2 && next < width && load(w + next) != load(w + next)) value = 0.0f;
  if (fault == 3 && thread == 0) store(w + block, value);
  if (fault == 3 && block > 0 && load(w) == 12345.0f) value = 0.0f;
  if (fault == 4 && load(w + i) > 1e30f) value = 0.0f;
  if (fault == 5 && load(y + i) > 1e30f) value = 0.0f;
  if (fault == 6) number = 1 << (width | 32);
  if (fault == 7) number = width * 2147483647;
  if (fault == 8) number = static_cast<int>(__fmul_rn(1e20f, __int2float_rn(width)));
  if (fault == 9) number = width / (width - width);
  if (fault == 10) value = table[width + 3];
  if (fault == 11 && width < 0) unset = value;
  if (fault == 11 && (unset < 0.0f) != (value != value)) number = 0;
  if (fault == 12) number = static_cast<int>(static_cast<u32>(width) >> (width | 32));
  if (fault == 13) store(y, value);
  if (fault == 14 && i == 0 && load(above) < 0) value = 0.0f;

  store(w + width, 1.0f);   // the same number of every thread: no race
  if (number == 77) value = 0.0f;
  store(y + i, fault == 11 && number == 0 ? 0.0f : value);
  if (value > 0.0f) atomicAdd(above, 1);
}
