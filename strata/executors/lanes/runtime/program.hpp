// The sanitize flavor: a program that reads a launch, runs it and writes the buffers back.
// Mirrored in strata/executors/lanes/program.py.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "machine.hpp"
#include "request.hpp"

namespace lanes {

template <class T>
inline T read(std::FILE* f) {
  T v;
  if (std::fread(&v, sizeof v, 1, f) != 1) std::exit(3);
  return v;
}

struct Job {
  std::vector<std::unique_ptr<u8[]>> memory;
  std::vector<std::string> names;
  std::vector<Extent> extents;
  std::vector<u64> values;
  std::vector<void*> args;
};

inline int wrong_arguments(int given, const std::vector<int>& sizes) {
  std::fprintf(stderr, "the launch gives %d arguments, the kernel has %zu parameters of", given, sizes.size());
  for (int size : sizes) std::fprintf(stderr, " %d", size);
  std::fprintf(stderr, " bytes\n");
  return 3;
}

// The answer cannot be written: why, and the exit status that means so.
inline int not_written() {
  std::perror(nullptr);
  return 5;
}

// Reads the launch argv[1], runs it by `launch`, writes the buffers to argv[2]; returns the exit status.
int program(int argc, char** argv, int arity, void (*sizes_of)(int*), int (*launch)(StrataRequest*)) {
  if (argc != 3) return 3;
  std::vector<int> sizes(arity);
  sizes_of(sizes.data());
  std::FILE* in = std::fopen(argv[1], "rb");
  if (!in) return 3;
  auto request = std::make_unique<StrataRequest>();
  for (unsigned& n : request->grid) n = read<unsigned>(in);
  for (unsigned& n : request->dim) n = read<unsigned>(in);
  request->shared_bytes = read<u64>(in);
  request->seed = read<u64>(in);
  request->rule_block = read<int>(in);
  request->rule_frac = read<int>(in);
  request->workers = read<int>(in);
  request->n_args = read<int>(in);
  request->n_extents = read<int>(in);
  Job job;
  std::vector<int> region;
  for (int i = 0; i < request->n_args; ++i) {
    region.push_back(read<int>(in));
    const int bytes = read<int>(in);
    if (i >= int(sizes.size()) || bytes != sizes[i]) return wrong_arguments(request->n_args, sizes);
    job.values.push_back(read<u64>(in));
  }
  if (request->n_args != int(sizes.size())) return wrong_arguments(request->n_args, sizes);
  for (int i = 0; i < request->n_extents; ++i) {
    const u64 bytes = read<u64>(in);
    struct Name {
      char text[64];
    };
    job.names.push_back(std::string(read<Name>(in).text, 63).c_str());
    job.memory.emplace_back(new u8[bytes]);
    if (bytes && std::fread(job.memory.back().get(), 1, bytes, in) != bytes) return 3;
    job.extents.push_back({job.memory.back().get(), bytes, 1, nullptr, nullptr, 1});
  }
  std::fclose(in);
  for (int i = 0; i < request->n_extents; ++i) job.extents[i].name = job.names[i].c_str();
  for (int i = 0; i < request->n_args; ++i)
    if (region[i] >= 0) job.values[i] = u64(reinterpret_cast<std::uintptr_t>(job.extents[region[i]].base));
  for (u64& value : job.values) job.args.push_back(&value);
  request->args = job.args.data();
  request->extents = job.extents.data();
  if (launch(request.get()) != 0) {
    std::fprintf(stderr, "%s\n", request->message);
    return 1;
  }
  std::FILE* out = std::fopen(argv[2], "wb");
  if (!out) return not_written();
  const u64 finished = request->finished.load();
  bool whole = std::fwrite(&finished, sizeof finished, 1, out) == 1;
  for (const Extent& e : job.extents) whole = whole && std::fwrite(e.base, 1, e.bytes, out) == e.bytes;
  if (!whole) return not_written();  // before closing, which may say something else
  return std::fclose(out) == 0 ? 0 : not_written();
}

}  // namespace lanes
