// What C++ leaves undefined and a card computes otherwise than a processor: in the checked build of a kernel from outside,
// the compiler calls these functions there, and the launch ends with the line. A sanitizer's library is not needed.
#pragma once

#ifdef STRATA_UNDEFINED

#include <cstring>

#include "machine.hpp"

namespace lanes {

// What the compiler tells of a place begins with this.
struct Place {
  const char* file;
  u32 line, column;
};

// Integers of the vocabulary's own instructions wrap, as they do on a card.
inline bool wraps(const Place* at) { return std::strstr(at->file, "include/") || std::strstr(at->file, "runtime/"); }

[[noreturn]] inline void undefined(const Place* at, const char* text) { fail_there(at->file, at->line, text); }

}  // namespace lanes

#define STRATA_UNDEFINED_AT(name, text, ...)                                                     \
  extern "C" [[noreturn]] __attribute__((used)) void __ubsan_handle_##name##_abort(lanes::Place* at __VA_ARGS__) { \
    lanes::undefined(at, text);                                                                  \
  }
#define STRATA_OVERFLOW(name, ...)                                                                                   \
  extern "C" __attribute__((used)) void __ubsan_handle_##name##_overflow(lanes::Place* at __VA_ARGS__) {              \
    if (!lanes::wraps(at))                                                                                           \
      lanes::undefined(at, "signed integer overflow, which C++ leaves undefined: i64 has room, u32 and u64 wrap");   \
  }
STRATA_OVERFLOW(add, , void*, void*)
STRATA_OVERFLOW(sub, , void*, void*)
STRATA_OVERFLOW(mul, , void*, void*)
STRATA_OVERFLOW(negate, , void*)
STRATA_UNDEFINED_AT(divrem_overflow, "integer division by zero, or of the smallest integer by -1", , void*, void*)
STRATA_UNDEFINED_AT(shift_out_of_bounds, "a shift by a negative number of bits, or by as many as the type has: cards and processors differ", ,
                    void*, void*)
STRATA_UNDEFINED_AT(float_cast_overflow,
                    "a float that its integer type cannot hold: a card saturates, a processor does not; __float2int_rz or _rn saturate", , void*)
STRATA_UNDEFINED_AT(out_of_bounds, "an index out of the range of a local array", , void*)
#undef STRATA_OVERFLOW
#undef STRATA_UNDEFINED_AT
extern "C" [[noreturn]] __attribute__((used)) void __ubsan_handle_missing_return(lanes::Place* at) {
  lanes::undefined(at, "a function ends without the value that it gives");
}

#endif
