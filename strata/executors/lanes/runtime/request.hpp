// What is asked of a built kernel, and what comes back.
#pragma once

#include <atomic>
#include <cstdint>

#include "machine.hpp"

// Mirrored in strata/executors/lanes/library.py.
struct StrataRequest {
  unsigned grid[3], dim[3];
  std::uint64_t shared_bytes, seed;
  int rule_block, rule_frac, workers, n_args, n_extents;
  void** args;
  const lanes::Extent* extents;
  std::atomic<std::uint64_t> next, finished;
  std::atomic<int> stop, faulted;
  char message[1024];
  std::atomic<void*>* spare;   // stacks that earlier launches of as many threads a block left; null: none are kept
  int n_spare;
};

namespace lanes {
// The program of the sanitize flavor. arity, sizes: the kernel's parameters, and what tells the bytes of each.
int program(int argc, char** argv, int arity, void (*sizes)(int*), int (*launch)(StrataRequest*));
}  // namespace lanes
