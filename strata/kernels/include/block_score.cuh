// What the scorers of block selection share: the sum over heads, and which blocks a query has.
#pragma once

#include "vocabulary.cuh"

// The numbers of a query's step: its cells, its complete blocks, the cells to choose; `words` are from one to the next.
struct Step {
  static constexpr int cells = 1, blocks = 2, width = 3, words = 4;
};

// score + relu(dot): zero for a negative dot, and for -0; a NaN stays one.
DEVICE float add_head(float score, float dot) { return __fadd_rn(score, dot > 0.0f || dot != dot ? dot : 0.0f); }
