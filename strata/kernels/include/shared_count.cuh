// Counts in shared memory that all threads of a block add to.
#pragma once

#include "vocabulary.cuh"

// Adds one to element i, which was written before the last barrier. The order of additions is open, their sum is not.
DEVICE void count_one(Shared<u32> counts, int i) {
#ifdef STRATA_LANES
  counts.ld(i);   // in range, written, and not written since the barrier
  ++counts.p[i];  // lanes of a block take turns
#else
  atomicAdd(counts.p + i, 1u);
#endif
}
