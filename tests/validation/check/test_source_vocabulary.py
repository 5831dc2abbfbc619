"""A source that leaves the vocabulary is refused in one line: what lanes judge is what a card runs, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.executors.base import KERNELS, StrataError
from validation.check import source_words
from validation.check.source_vocabulary import refuse_foreign

HEAD = '#include "include/vocabulary.cuh"\n'
ENTRY = 'extern "C" __global__ void k(const float* __restrict__ x, float* y, i32 n) '
UNWATCHED = "is an access that nothing watches"


def refused(tmp_path: Path, text: str, **beside: str) -> str:
    """What is said of a source, with other files beside it."""
    (tmp_path / "k.cu").write_text(text)
    for name, own in beside.items():
        (tmp_path / f"{name}.cuh").write_text(own)
    try:
        refuse_foreign(tmp_path / "k.cu", {"THREADS": 32})
    except StrataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("store(y, x[0]);", UNWATCHED),
        ("y[n] = 1.0f;", UNWATCHED),
        ("store(y, *x);", UNWATCHED),
        ("store(y, (x + n)[1]);", UNWATCHED),
        ("store(y, *(x + n));", UNWATCHED),
        ("if (n) *y = 1.0f;", UNWATCHED),
        ("auto p = x + n; store(y, p[0]);", UNWATCHED),
        ("const float* rows[2] = {x, x}; store(y, rows[0][1]);", UNWATCHED),
        ("store(y, static_cast<float>(reinterpret_cast<const u8*>(x)[3]));", UNWATCHED),
        ("const float2 v = *reinterpret_cast<const float2*>(x); store(y, v.x);", UNWATCHED),
        ("store(y, reinterpret_cast<const float2*>(x)->x);", UNWATCHED),
        ("const float& v = *(x + 1); store(y, v);", UNWATCHED),
        ("store(y, 0[x]);", UNWATCHED),
        ("memcpy(y, x, 4);", r"memcpy\(\) is no function of the vocabulary"),
        ("store(y, __builtin_sqrtf(2.0f));", "__builtin_sqrtf is no word of the vocabulary"),
        ("store(y, floorf(load(x)));", r"floorf\(\) is no function of the vocabulary"),
        ("store(y, sqrtf(load(x)));", r"instead of sqrtf: __fsqrt_rn\(x\)"),
        ("store(y, std::sqrt(load(x)));", "std is refused: NVRTC has no standard library"),
        ("const double v = 1.0f; store(y, v);", "double is refused"),
        ("store(y, __fmul_rn(0.5, load(x)));", "0.5 is a double, expected 0.5f"),
        ("store(y, __fmul_rn(1e-3, load(x)));", "1e-3 is a double, expected 1e-3f"),
        ("const long v = n; store(y, load(x + v));", "long is refused"),
        ("const i64 v = n + 1L; store(y, load(x + v));", "1L is a long"),
        ("const char v = 3; store(y, load(x + v));", "char is refused"),
        ("i32 sum = n % 3; sum = sum %: 2;", "stands for another mark"),
        ("store(y, x<:0:>);", "stands for another mark"),
        ("i32 v = n; auto w = x; store(y, w[v]);", UNWATCHED),
        ("if (not x[0]) return;", "not is refused"),
        ("store(y, static_cast<float>(sizeof x[0]));", UNWATCHED),
        ("static int calls; ++calls;", "a static variable is one for all threads"),
        ('asm("");', "asm is refused"),
        ("if (STRATA_CHECKED) return;", "STRATA_CHECKED is the compiler's or the toolkit's own"),
        ("lanes::current->id;", "lanes is refused"),
    ],
)
def test_what_a_card_would_compute_otherwise_or_nothing_watches_is_refused(
    tmp_path: Path, body: str, said: str
) -> None:

    found = refused(tmp_path, f"{HEAD}{ENTRY}{{\n  {body}\n}}\n")
    assert re.match(rf"k\.cu:3: .*{said}", found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}#ifdef STRATA_LANES\n#endif\n", "k.cu:2: a condition on STRATA_LANES"),
        (f"{HEAD}#if defined(__CUDA_ARCH__)\n#endif\n", "k.cu:2: a condition on __CUDA_ARCH__"),
        (f"{HEAD}#if THREADS > 32\n#elif __GNUC__\n#endif\n", "k.cu:3: a condition on __GNUC__"),
        (f"{HEAD}#define AT(p, i) p[i]\n", "k.cu:2: a macro reaches memory by ["),
        (f"{HEAD}#define AT(p) *p\n", "k.cu:2: a macro reaches memory by *"),
        (f"{HEAD}#define REAL double\n", "k.cu:2: double is refused"),
        (f'{HEAD}#pragma GCC optimize("fast-math")\n', "k.cu:2: #pragma is the compiler's own"),
        (f"{HEAD}#\\\nifdef STRATA_LANES\n#endif\n", "k.cu:2: a directive that goes on in the next line"),
        (f"{HEAD}#inclu\\\nde <cmath>\n", "k.cu:2: a directive that goes on in the next line"),
        (f'{HEAD}extern "C" float floorf(float);\nDEVICE float f(float v) {{ return floorf(v); }}\n', "k.cu:3: floorf"),
        (f"{HEAD}DEVICE void f(float* o, const float* v) {{ float o2[3] = {{}}; o2[0] = v[1]; }}\n", "k.cu:2: v[...]"),
        (
            f"{HEAD}DEVICE void g() {{ float a[2]; a[1] = 1.0f; }}\nDEVICE void f(float* a) {{ a[0] = 1.0f; }}\n",
            "k.cu:3: a[...]",
        ),
        (
            f"{HEAD}DEVICE void f(float* a) {{\n  {{\n    float a[2];\n    a[0] = 1.0f;\n  }}\n  a[1] = 1.0f; }}\n",
            "k.cu:5: a[...]",
        ),
        (
            f"{HEAD}template <class T>\nDEVICE void f(T a) {{ a[0] = 1; }}\nDEVICE void g() {{ float a[2]; f(a); }}\n",
            "k.cu:3: a[...]",
        ),
        (f"{HEAD}#include <cmath>\n", "k.cu:2: #include <cmath>: expected include/NAME.cuh"),
        (f'{HEAD}#include "vocabulary.hpp"\n', "k.cu:2: #include vocabulary.hpp: expected include/NAME.cuh"),
        (f"{HEAD}int calls = 0;\n", "k.cu:2: a variable outside of functions is one for all threads"),
        (f"{HEAD}__device__ float table[4];\n", "k.cu:2: a variable outside of functions is one for all threads"),
        (f"{HEAD}DEVICE float at(const float v[4], int i) {{\n  return v[i];\n}}\n", "k.cu:2: the parameter v[] is"),
        (f"{HEAD}DEVICE float at(const float* v, int i) {{\n  return v[i];\n}}\n", "k.cu:3: v[...] is an access"),
        (f"{HEAD}/* no end\n", "k.cu: line 2: "),
    ],
)
def test_what_stands_outside_of_functions_is_refused_too(tmp_path: Path, text: str, said: str) -> None:
    assert refused(tmp_path, text).startswith(said), refused(tmp_path, text)


def test_a_header_beside_the_source_is_looked_at_and_named(tmp_path: Path) -> None:
    said = refused(tmp_path, f'{HEAD}#include "mine.cuh"\n', mine="#pragma once\n#ifdef __CUDACC__\n#endif\n")
    assert said.startswith("mine.cuh:2: a condition on __CUDACC__")
    assert refused(tmp_path, HEAD, unused="#ifdef __CUDACC__\n#endif\n") == ""


def test_a_thread_s_own_arrays_functions_and_macros_are_nobody_else_s_affair(tmp_path: Path) -> None:
    own = """
#define HALF(v) ((v) / 2)
#ifndef WIDTH
#define WIDTH 4
#endif
#if THREADS > WIDTH
constexpr int kTable[3] = {1, 2, 3};
#endif
struct Pair {
  float v[2];
  MEMBER float sum() const { return v[0] + this->v[1]; }
};
template <int N>
DEVICE float total(const float (&v)[N]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) sum = sum + v[i] * 2.0f;
  return sum;
}
"""
    body = """{
  // x[0] in a comment
  float a[WIDTH][2] = {}, b[2] = {1.0f, 0x1p-3f}, c[4];
  const auto take = [&](int i) -> float { return a[i][0] * b[i & 1]; };
  for (int i = 0; i < WIDTH; ++i) c[i] = take(i) * -1.0f;
  Pair pair = {{b[0], b[1]}};
  const unsigned char byte = 3;
  const unsigned long long wide = 3ull;
  warp_add<32>(c);
  const float2 two = load<float2>(reinterpret_cast<const float2*>(x) + HALF(n));
  if (n > kTable[1]) store(y + byte * wide, total(c) * pair.sum() + two.x);
}
"""
    assert refused(tmp_path, f"{HEAD}{own}{ENTRY}{body}") == ""


@pytest.mark.parametrize(
    "name", ["router", "combine", "kv_pack", "decode_attention", "prompt_attention", "block_decode"]
)
def test_kernels_of_the_house_keep_to_it(name: str) -> None:
    numbers = ("TIER", "K_FORMAT", "V_FORMAT", "GROUP", "CELLS", "SHARED_BYTES")
    refuse_foreign(KERNELS / f"{name}.cu", dict.fromkeys(numbers, 1))


def test_the_page_of_the_vocabulary_has_these_words() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "lanes_vocabulary.md").read_text()
    for word in (*source_words.FUNCTIONS, *source_words.MARKERS, *source_words.REFUSED):
        assert f"`{word}`" in page, word
