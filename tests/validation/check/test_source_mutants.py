"""Mutants of sources: each kind where it is expected and nowhere else, one edit apiece, the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import KERNELS, StrataError
from validation.check.source_declarations import Code
from validation.check.source_mutants import KINDS, ROUNDING_KINDS, SourceMutant, generate, spread
from validation.check.source_tokens import SourceError, tokens

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.cu"))
SOURCES = [*EXAMPLES, *sorted(KERNELS.glob("*.cu"))]
MACROS = {"TIER": 80, "THREADS": 128}


def of(body: str, **macros: int) -> list[SourceMutant]:
    """The mutants of a kernel with this body, or of a whole source."""
    whole = body if "__global__" in body else f"__global__ void k(float* y, int n) {{ {body} }}"
    return generate(whole, "k.cu", macros)


def edits(body: str, kind: str, **macros: int) -> list[str]:
    """What the body becomes by each mutant of a kind."""
    whole = f"__global__ void k(float* y, int n) {{ {body} }}"
    start, end = whole.index(body), len(whole) - whole.index(body) - len(body)
    found = [m.mutated(whole) for m in generate(whole, "k.cu", macros) if m.kind == kind]
    return [text[start : len(text) - end] for text in found]


#: Of every kind a source, and all that the kind makes of it.
SHOWN: list[tuple[str, str, list[str]]] = [
    ("barrier", "a(); __syncthreads(); b();", ["a(); ; b();"]),
    ("barrier", "if (n) __syncwarp(0xffu);", ["if (n) ;"]),
    ("barrier", "cp_async_wait<0>();", [";"]),
    ("boundary", "f(n < 3);", ["f(n <= 3);"]),
    ("boundary", "f(n >= 3);", ["f(n > 3);"]),
    ("boundary", "if (n > m) m = n, at = i;", ["if (n >= m) m = n, at = i;"]),
    ("boundary", "for (int o = 16; o > 0; o /= 2) f(o);", []),  # would never end
    ("boundary", "float a[4]; for (int i = 0; i < 4; ++i) a[i] = n;", []),  # undefined, and a compiler sees it
    ("comparison", "f(n == m);", ["f(n != m);"]),
    ("comparison", "f(x != x);", ["f(x == x);"]),
    ("comparison", "const int t = threadIdx.x; if (t == 0) store(y, 1.5f);", []),  # any thread may
    ("guard", "if (n < 3) f();", ["if (true) f();"]),
    ("guard", "if (n < 3) return;", ["if (false) return;"]),
    ("guard", "if (n < 3) { continue; }", ["if (false) { continue; }"]),
    ("guard", "if constexpr (N < 3) f();", []),
    ("guard", "v = n < 3 ? load(y) : z;", ["v = true ? load(y) : z;"]),
    ("guard", "int t = threadIdx.x; if (t == 0) s.st(0, v);", ["int t = threadIdx.x; if (true) s.st(0, v);"]),
    ("condition", "f(a && b);", ["f( b);", "f(a );"]),
    ("condition", "f(a < 3 || b);", ["f( b);", "f(a < 3 );"]),
    (
        "loop",
        "for (int i = 0; i < n; ++i) f(i);",
        ["for (int i = 1; i < n; ++i) f(i);", "for (int i = 0; i < n - 1; ++i) f(i);"],
    ),
    (
        "loop",
        "for (int i = t; i < n; i += S) f(i);",
        ["for (int i = t + S; i < n; i += S) f(i);", "for (int i = t; i < n - S; i += S) f(i);"],
    ),
    (
        "loop",
        "for (int i = n - 1; i >= 0; --i) f(i);",
        ["for (int i = (n - 1) - 1; i >= 0; --i) f(i);", "for (int i = n - 1; i >= 1; --i) f(i);"],
    ),
    ("stride", "for (int i = t; i < n; i += S) f(i);", ["for (int i = t; i < n; i += 2 * S) f(i);"]),
    ("stride", "for (int i = t; i < n; i++) f(i);", ["for (int i = t; i < n; i += 2) f(i);"]),
    ("reduction", "warp_add<32>(v);", [";", "warp_add<16>(v);"]),
    ("reduction", "v = __shfl_xor_sync(m, v, o);", ["v = (v);"]),
    (
        "reduction",
        "for (int o = 16; o > 0; o /= 2) f(o);",
        ["for (int o = (16) / 2; o > 0; o /= 2) f(o);", "for (int o = 16; o > 1; o /= 2) f(o);"],
    ),
    ("constant", "f(7, 0x1fu);", ["f(8, 0x1fu);", "f(7, 0x20u);"]),
    ("constant", "f(2.0f, 0.25f);", ["f(3.0f, 0.25f);", "f(2.0f, (2 * 0.25f));"]),
    ("constant", "f(0xffffffffu);", ["f(0xfffffffeu);"]),
    ("constant", "f(bits_to_float(0x3f800000u));", ["f(bits_to_float(0x3f900000u));"]),
    ("constant", "float a[4], b[2]; Shared<u8> s = shared_array<u8>(16, 32); f(a, b, s);", []),
    ("constant", "int b = 0; f(b); b ^= 1;", ["int b = 0; f(b); b ^= 2;"]),  # either buffer may be the first
    ("accumulator", "float sum = 0.0f; float a[2] = {0.0f, 0.0f};",
        ["float sum = 1.0f; float a[2] = {0.0f, 0.0f};", "float sum = 0.0f; float a[2] = {1.0f, 0.0f};"]),
    ("sign", "f(a + b, -c, a - b);", ["f(a - b, -c, a - b);", "f(a + b, c, a - b);", "f(a + b, -c, a + b);"]),
    ("sign", "s += __fadd_rn(a, b);", ["s -= __fadd_rn(a, b);", "s += __fsub_rn(a, b);"]),
    ("operands", "f(a * 2 - b / c);", ["f(b / c - (a * 2));", "f(a * 2 - c / b);"]),
    ("operands", "f(a - b - c);", ["f(b - a - c);", "f(c - (a - b));"]),
    ("operands", "f(__fsub_rn(a, g(b, c)));", ["f(__fsub_rn(g(b, c), a));"]),
    ("index", "f(y + row * n + i);", ["f(y + i * n + row);"]),
    ("index", "f(threadIdx.x, blockIdx.y);", ["f(threadIdx.y, blockIdx.y);", "f(threadIdx.x, blockIdx.x);"]),
    ("index", "f(v.z, v.y);", ["f(v.w, v.y);", "f(v.z, v.x);"]),
    ("index", "ldmatrix_x4<true>(r, s, 0);", ["ldmatrix_x4<false>(r, s, 0);"]),
    ("mask", "f(t & 31, c % 4 + 1);", ["f(t , c % 4 + 1);", "f(t & 31, c  + 1);"]),
    ("fma", "f(__fmaf_rn(a, b[1], c));", ["f(__fadd_rn(__fmul_rn(a, b[1]), c));"]),
    ("fma", "f(__fmaf_rn(a, /* x */ b, c));", []),  # the comment would go
    ("fma", "f(__fmaf_rn(a,\n#if 1\n b,\n#endif\n c));", []),
    ("rounding", "f(__float2int_rn(x));", ["f(__float2int_rz(x));"]),
    ("rounding", "f(half_value(half_bits(x + z)));", ["f((x + z));"]),
    ("rounding", "f(__fdiv_rn(a, b));", ["f(__fmul_rn(a, __fdiv_rn(1.0f, b)));"]),
    ("rounding", "f(__fdiv_rn(1.0f, c));", []),
    ("precision", "f(__fmul_rn(a, b));", ["f(bits_to_float(float_to_bits(__fmul_rn(a, b)) & 0xffff0000u));"]),
    ("extreme", "m = a > b ? a : b;", ["m = a < b ? a : b;"]),
    ("extreme", "if (a[i] > m) m = a[i];", ["if (a[i] < m) m = a[i];"]),
    ("extreme", "m = fmaxf(a, b);", ["m = fminf(a, b);"]),
    ("limit", "float m = bits_to_float(0xff800000u);", ["float m = 0.0f;"]),
    ("limit", "float m[2] = {-INFINITY, 1.0f}; m = -1e30f; m = 2 * 1e30f;",
        ["float m[2] = {0.0f, 1.0f}; m = -1e30f; m = 2 * 1e30f;",
         "float m[2] = {-INFINITY, 1.0f}; m = 0.0f; m = 2 * 1e30f;"]),
    ("limit", "float m = load(x + n); if (v > m) m = v;", ["float m = 0.0f; if (v > m) m = v;"]),
    ("limit", "float m = s.ld(0), k = 1.0f; m = v > m ? v : m;", []),  # two names in one declaration
    ("limit", "float m = s.ld(0); m = v > m ? v : m;", ["float m = 0.0f; m = v > m ? v : m;"]),
    ("limit", "float m = load(x + n); f(v > m); r = x < 128.0f ? r : bits_to_float(0x7f800000u);", []),
    ("stale", "s.st(i, v); a[0].part(i).template st<u8>(0, w);",
        ["; a[0].part(i).template st<u8>(0, w);", "s.st(i, v); ;"]),
    ("stale", "cp_async<16>(s, i, y, n);", [";"]),
    ("store", "store(y, 1); atomicAdd(c, 1);", ["; atomicAdd(c, 1);", "store(y, 1); ;"]),
    ("buffer", "b ^= 1;", ["b ^= 0;"]),
    ("buffer", "b = 1 - b;", ["b = b;"]),
    ("buffer", "b = !b;", ["b = b;"]),
    ("buffer", "f(chunk % kStages, chunk % 2, i % 2);",
        ["f(chunk % 1, chunk % 2, i % 2);", "f(chunk % kStages, chunk % 1, i % 2);"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body", "expected"), SHOWN)
def test_a_kind_changes_what_it_says(kind: str, body: str, expected: list[str]) -> None:
    assert [" ".join(text.split()) for text in edits(body, kind)] == [" ".join(text.split()) for text in expected]


def test_every_kind_is_shown_and_explained() -> None:
    assert {kind for kind, _, expected in SHOWN if expected} == set(KINDS)
    assert set(KINDS) > ROUNDING_KINDS


@pytest.mark.parametrize(
    "source",
    [
        "#ifndef GUARD_H\n#define GUARD_H 1\n#define ADD(a, b) \\\n  ((a) + (b) * 2)\n#endif\n",
        "template <int N, class T = Less<3 + 1>> struct S { static constexpr int end = N * 4 + 1; };",
        "constexpr int kRow = 16 + 8;\nenum { kOne = 1 };\nint table[4] = {1, 2, 3, 4};",
        "__global__ void __launch_bounds__(2 * 64) k(float (&a)[4], int n);",
        '__global__ void k() { static_assert(N % 4 == 0 && N < 9, "1 + 1"); constexpr int n = 4 - 1; }',
        "__global__ void k() { f<N / 2, (A < 4)>(); using T = V<3 + 1>; /* a < b + 1 */ } // c - 2",
        "#if 0\n__global__ void k(int n) { f(n + 1); }\n#endif\n",
        "#ifdef STRATA_LANES\n#else\n__global__ void k(int n) { f(n + 1); }\n#endif\n",
        "#define WIDE 0\n#if defined(WIDE) && WIDE >= 1 || TIER < 80\n__global__ void k(int n) { f(n + 1); }\n#endif\n",
    ],
)
def test_what_computes_nothing_is_left_alone(source: str) -> None:
    assert generate(source, "k.cu", {"TIER": 80}) == []


def test_one_branch_of_the_preprocessor_is_edited() -> None:
    source = "__global__ void k(int n) {\n#if TIER >= 80\n  f(n + 1);\n#else\n  f(n + 2);\n#endif\n}\n"
    assert {m.line for m in generate(source, "k.cu", {"TIER": 80})} == {3}
    assert {m.line for m in generate(source, "k.cu", {"TIER": 75})} == {5}
    assert {m.line for m in generate(source, "k.cu")} == {3}  # not known: the first


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_each_mutant_is_one_edit_of_its_source(file: Path) -> None:
    source = file.read_text()
    found = generate(source, file.name, MACROS)
    assert len({m.name for m in found}) == len({(m.span, m.new) for m in found}) == len(found)
    assert [m.span for m in found] == sorted(m.span for m in found)
    outside = [t for t in tokens(source) if t.kind in ("comment", "directive", "string")]
    for m in found:
        first, last = m.span
        assert source[first:last] == m.old != m.new
        assert m.mutated(source) == source[:first] + m.new + source[last:]
        assert source.count("\n", 0, first) + 1 == m.line
        assert not any(t.start < last and first < t.end for t in outside)
        assert m.question.startswith("nothing here notices that `")
        assert m.question.endswith(f" at {file.name}:{m.line}")
        assert len(m.question) < 320


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_a_mutant_is_a_source_as_well(file: Path) -> None:
    source = file.read_text()
    found = generate(source, file.name, MACROS)
    assert found == generate(source, file.name, MACROS)
    assert len(found) >= 40
    comments = [t.text for t in tokens(source) if t.kind == "comment"]
    for m in spread(found, 25):
        assert [t.text for t in tokens(m.mutated(source)) if t.kind == "comment"] == comments
        Code(m.mutated(source), MACROS)  # brackets match


PIECES = [
    *("a", "b1", "0x1fu", "1.5e-3f", "'\\''", '"x // \\" y"', 'R"(a"b)"', "<<=", "->", "::", "&&", "\\", "é"),
    *("// c < d\n", "/* e + f\n */", "\n#define X(a) \\\n  a /* g */\n", "\n", " ", "\t", *"(){}[]"),
]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_tokens_are_the_source(pieces: list[str]) -> None:
    source = " ".join(pieces)
    found = tokens(source)
    assert "".join(t.text for t in found) == source
    assert all(source[t.start : t.end] == t.text for t in found)
    assert all(t.line == source.count("\n", 0, t.start) + 1 for t in found)
    kept = [t.text for t in found if t.kind in ("comment", "string")]
    assert kept == [piece.rstrip("\n") for piece in pieces if piece[0] in '"/R' or piece.startswith("/*")]


OPERATORS = ["+", "-", "*", "/", "%", "<", ">=", "&&", "||", "&", "<<"]
EXPRESSION = st.recursive(
    st.sampled_from(["a", "b[i]", "f(x, y)", "3", "2.5f", "-c", "v.x", "load<u8>(p)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "<", ">=", "&&", "||", "&", "<<"]), inner).map(
            " ".join
        ),
        inner.map("({})".format),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) ? {t[1]} : {t[2]}"),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60)
@given(EXPRESSION)
def test_any_expression_gives_mutants_that_match_their_brackets(expression: str) -> None:
    source = f"__global__ void k() {{ r = {expression}; /* end */ }}"
    for m in generate(source, "k.cu"):
        text = m.mutated(source)
        assert text.startswith("__global__ void k() { r = ")
        assert text.endswith("; /* end */ }")
        Code(text, {})


@pytest.fixture(scope="module")
def every() -> list[SourceMutant]:
    return generate((ROOT / "examples/block_scale_matvec/block_scale_matvec.cu").read_text(), "m.cu", MACROS)


@settings(deadline=None, max_examples=40)
@given(count=st.integers(0, 140))
def test_some_are_spread_over_kinds_and_lines(every: list[SourceMutant], count: int) -> None:
    some = spread(every, count)
    assert len(some) == min(count, len(every))
    assert [m for m in every if m in some] == some
    kinds = {m.kind for m in every}
    assert len({m.kind for m in some}) == min(count, len(kinds))
    for kind in kinds:
        taken, there = sum(m.kind == kind for m in some), sum(m.kind == kind for m in every)
        others = [sum(m.kind == other for m in some) for other in kinds]
        assert taken == there or taken >= max(others) - 1  # no kind has two more while another has some left
    constants = [m.line for m in some if m.kind == "constant"]
    lines = [m.line for m in every if m.kind == "constant"]
    if len(constants) == 2:  # of two one is in either half
        assert lines.index(constants[0]) < len(lines) // 2 <= lines.index(constants[1])


def test_a_question_says_what_became_what_and_where() -> None:
    source = "__global__ void k(float* y, int n) {\n  if (i < n)\n    store(y + i, v);\n  __syncthreads();\n}\n"
    asked = {m.name: m.question for m in generate(source, "some/Row-Norm.cu")}
    assert asked["row_norm-boundary-2"] == "nothing here notices that `i < n` became `i <= n` at some/Row-Norm.cu:2"
    assert (
        asked["row_norm-barrier-4"] == "nothing here notices that `__syncthreads()` was left out at some/Row-Norm.cu:4"
    )


def test_a_mutant_knows_its_source() -> None:
    (mutant,) = of("f(n < m);")
    with pytest.raises(StrataError, match="k-boundary-1: expected '<' at character"):
        mutant.mutated("__global__ void another_kernel(float* y, int n) { f(n > m); }")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("void k() { /* no end", "line 1: '/\\*' begins a comment or a string"),
        ('\n"no end\n', "line 2: '\"n' begins a comment or a string"),
        ("void k() {\n(", "line 2: '\\(' is not closed"),
        ("void k() }", "line 1: '}' closes nothing"),
        ("#endif\n", "line 1: #endif without an #if"),
        ("#if A\n", "an #if has no #endif"),
    ],
)
def test_what_is_no_source_is_refused(source: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        generate(source, "k.cu")
