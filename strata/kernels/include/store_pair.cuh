// Two floats in one store.
#pragma once

#include "vocabulary.cuh"

// st.global.v2.f32: x and y to a multiple of 8 bytes. Written as an instruction, since a compiler that finds single stores
// of the same floats on another way makes this one into two as well.
DEVICE void store_pair(float* p, float x, float y) {
#ifdef STRATA_LANES
  store<float2>(p, float2{x, y});
#else
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(x), "f"(y) : "memory");
#endif
}
