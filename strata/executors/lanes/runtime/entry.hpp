// The C interface of a built kernel, called from Python through ctypes.
#pragma once

#include <exception>
#include <utility>

#include "machine.hpp"
#include "request.hpp"
#include "undefined.hpp"
#include "vocabulary.hpp"

namespace lanes {
// Unpacks an array of pointers to arguments, as cuLaunchKernel takes them.
template <class... A, std::size_t... I>
inline void call(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_const_t<A>*>(args[I])...);
}
template <class... A>
inline void call(void (*kernel)(A...), void** args) {
  call(kernel, args, std::index_sequence_for<A...>{});
}
template <class... A>
constexpr int arity(void (*)(A...)) {
  return int(sizeof...(A));
}
template <class... A>
inline void sizes(void (*)(A...), int* out) {
  int i = 0;
  ((out[i++] = int(sizeof(A))), ...);
}
}  // namespace lanes

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))
#define STRATA_KERNEL(name)                                                                             \
  STRATA_EXPORT int strata_arity() { return lanes::arity(name); }                                        \
  STRATA_EXPORT void strata_sizes(int* out) { lanes::sizes(name, out); }                                 \
  STRATA_EXPORT int strata_launch(StrataRequest* r) {                                                    \
    try {                                                                                                \
      lanes::Launch launch{#name, [](void** args) { lanes::call(name, args); }, r->args,                 \
                           {r->grid[0], r->grid[1], r->grid[2]}, {r->dim[0], r->dim[1], r->dim[2]},      \
                           r->shared_bytes, {r->rule_block, r->rule_frac}, r->seed, r->workers,          \
                           r->extents, r->n_extents, &r->next, &r->finished, &r->stop, &r->faulted,      \
                           r->message, sizeof r->message, r->spare, r->n_spare};                                               \
      lanes::run(&launch);                                                                               \
    } catch (const std::exception& e) {                                                                  \
      std::snprintf(r->message, sizeof r->message, "%s: %s", #name, e.what());                           \
      return 2;                                                                                          \
    }                                                                                                    \
    return r->faulted.load();                                                                            \
  }                                                                                                      \
  STRATA_MAIN

#ifdef STRATA_PROGRAM
#define STRATA_MAIN \
  int main(int argc, char** argv) { return lanes::program(argc, argv, strata_arity(), strata_sizes, strata_launch); }
#else
#define STRATA_MAIN
#endif
