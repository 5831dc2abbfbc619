// The standard headers that every kernel needs, read first by its build, so that a compiler can take them precompiled
// (executors/lanes/precompiled.py). Each header of the runtime still includes what it needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <source_location>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
