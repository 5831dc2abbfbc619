// Which cells the queries of a chunk see: steps of a global and of a local layer, and the ids of the cells in a window.
//
// A block writes a part of one row, its first thread the row's steps too where the part is the first. What is written
// stands in visible_cells.py.
//
// -D: THREADS (of a block), EACH (ids of a thread).

#include "include/vocabulary.cuh"

// Where the words of a row of steps lie: what is left out is 0.
struct Step {
  static constexpr int words = 4, cell = 0, cells = 3;
};

DEVICE void write_step(i32* step, i32 cell, i32 cells) {
#pragma unroll
  for (int i = 0; i < Step::words; ++i) store(step + i, i == Step::cell ? cell : i == Step::cells ? cells : 0);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    visible_cells(const i32* __restrict__ first, i32* __restrict__ steps_global, i32* __restrict__ steps_local,
                  i32* __restrict__ ids_local, i32 rows, i32 window) {
  constexpr int kPart = THREADS * EACH;
  const i64 parts = (static_cast<i64>(window) + kPart - 1) / kPart;
  const i64 row = blockIdx.x / parts, part = blockIdx.x % parts;
  if (row >= rows) return;
  const i32 cell = load(first) + static_cast<i32>(row), cells = cell + 1;
  const i32 width = cells < window ? cells : window;
  if (part == 0 && threadIdx.x == 0) {
    write_step(steps_global + row * Step::words, cell, cells);
    write_step(steps_local + row * Step::words, cell, width);
  }
  i32* ids = ids_local + row * window;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const i64 at = part * kPart + i * THREADS + threadIdx.x;
    if (at < width) store(ids + at, cells - width + static_cast<i32>(at));
  }
}
