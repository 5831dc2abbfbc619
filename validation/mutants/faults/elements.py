"""Mutants of gated activations, soft capping and residual sums."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FILES = {name: f"strata/kernels/{name}.cu" for name in ("gated", "softcap", "residual")}
_FIRST = "const i64 first = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) * 4;"
_WHOLE = "if (first + 4 <= count) {"
_REST = "for (i64 i = first; i < count; ++i) "


def _fault(operation: str, mode: str, name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    paths = f"{operation}/{mode}/simt"
    return Mutant(f"{operation}-{name}", _FILES[operation], old, new, why, paths, recipes)


def _gelu(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return _fault("gated", "gelu_tanh", name, old, new, why, *recipes)


def _swiglu(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return _fault("gated", "swiglu", name, old, new, why, *recipes)


def _cap(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return _fault("softcap", "fp32", name, old, new, why, *recipes)


def _add(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return _fault("residual", "fp32", name, old, new, why, *recipes)


_P = "const float p = __fmaf_rn(__fmul_rn(gate, gate), bits_to_float(0x3d372713u), 1.0f);"
_E = "const float e = exp2_fma(__fmul_rn(__fmul_rn(gate, p), bits_to_float(0xc0135761u)));"
_GELU = "return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);"
_MODE = "return SWIGLU ? swiglu(gate, up) : geglu(gate, up);"
_LOADED = "const float4 g = load<float4>(gate + first), u = load<float4>(up + first);"

_GATED = (
    _gelu("cube-of-another", "0x3d372713u", "0x3d34395au", "0.044 in place of 0.044715.", "gated_bell"),
    _gelu(
        "cube-rounded",
        _P,
        "const float p = __fadd_rn(__fmul_rn(__fmul_rn(gate, gate), bits_to_float(0x3d372713u)), 1.0f);",
        "The polynomial is rounded twice: a bit off.",
        "gated_bell",
    ),
    _gelu(
        "sigmoid-of-1.702",
        _E,
        "const float e = exp2_fma(__fmul_rn(gate, -2.4554671f));",
        "The sigmoid of 1.702 times a gate in place of the tanh formula.",
        "gated_bell",
    ),
    _gelu("exponent-up", "0xc0135761u", "0x40135761u", "The sigmoid of the gate with the other sign.", "gated_bell"),
    _gelu(
        "order-of-exponent",
        "__fmul_rn(__fmul_rn(gate, p), bits_to_float(0xc0135761u))",
        "__fmul_rn(__fmul_rn(gate, bits_to_float(0xc0135761u)), p)",
        "The exponent's factors are multiplied in another order: a bit off.",
        "gated_bell",
    ),
    _gelu(
        "reciprocal",
        _GELU,
        "return __fmul_rn(__fmul_rn(gate, __fdiv_rn(1.0f, __fadd_rn(1.0f, e))), up);",
        "A gate is multiplied by a reciprocal: a bit off.",
        "gated_bell",
    ),
    _gelu(
        "up-first",
        _GELU,
        "return __fdiv_rn(__fmul_rn(gate, up), __fadd_rn(1.0f, e));",
        "The product with up comes before the quotient: a bit off, and it overflows.",
        "gated_ladder",
    ),
    _gelu(
        "shut-early",
        _GELU,
        f"if (gate < -5.0f) return __fmul_rn(-0.0f, up);\n  {_GELU}",
        "A gate below -5 is shut.",
        "gated_edges",
    ),
    _gelu(
        "open-early",
        _GELU,
        f"if (gate > 3.0f) return __fmul_rn(gate, up);\n  {_GELU}",
        "A gate above 3 is open.",
        "gated_bell",
    ),
    _gelu(
        "linear-near-zero",
        _GELU,
        f"if (gate < 0x1p-12f && gate > -0x1p-12f) return __fmul_rn(__fmul_rn(0.5f, gate), up);\n  {_GELU}",
        "Half of a gate next to zero.",
        "gated_ladder",
    ),
    _gelu(
        "square-limited",
        _P,
        "const float square = __fmul_rn(gate, gate), p = __fmaf_rn(square < 16.0f ? square : 16.0f, "
        "bits_to_float(0x3d372713u), 1.0f);",
        "The square of a gate is 16 at most.",
        "gated_edges",
    ),
    _gelu("mode-of-another", _MODE, "return swiglu(gate, up);", "SwiGLU in place of GELU.", "gated_bell"),
    _swiglu("mode-of-gelu", _MODE, "return geglu(gate, up);", "GELU in place of SwiGLU.", "gated_bell"),
    _swiglu("operands-swapped", "gate_by(g.y, u.y)", "gate_by(u.y, g.y)", "An up gates its gate.", "gated_bell"),
    _swiglu(
        "up-of-neighbour", "gate_by(g.z, u.z)", "gate_by(g.z, u.w)", "A gate has its neighbour's up.", "gated_bell"
    ),
    _swiglu(
        "offset-of-32-bits",
        _FIRST,
        _FIRST.replace("static_cast<i64>(blockIdx.x)", "static_cast<u32>(blockIdx.x)"),
        "Elements are counted in 32 bits.",
        "gated_sizes",
    ),
    _swiglu("past-end", _WHOLE, "if (first < count) {", "The last thread takes four, whatever is left.", "gated_sizes"),
    _swiglu(
        "rest-without-last",
        _REST,
        _REST.replace("i < count", "i + 1 < count"),
        "The last element is left out.",
        "gated_sizes",
    ),
    _swiglu(
        "cleared-first",
        _LOADED,
        f"store<float4>(out + first, float4{{0.0f, 0.0f, 0.0f, 0.0f}});\n    {_LOADED}",
        "The output is cleared before operands are read, which are gone where they are one buffer.",
        "gated_bell",
    ),
    _swiglu(
        "gate-written-first",
        "store(out + i, gate_by(load(gate + i), load(up + i)));",
        "{ const float g = load(gate + i); store(out + i, g); store(out + i, gate_by(g, load(up + i))); }",
        "The gate lies in the output before the up is read, which is gone where both are one buffer.",
        "gated_sizes",
    ),
)

_SIGN = "bits_to_float(float_to_bits(cap) | (float_to_bits(x) & 0x80000000u))"
_SIZE = "const float size = bits_to_float(float_to_bits(__fdiv_rn(x, cap)) & 0x7fffffffu);"
_TANH = "const float tanh = __fdiv_rn(__fsub_rn(1.0f, t), __fadd_rn(1.0f, t));"
_CAPPED = f"return __fmul_rn({_SIGN}, tanh);"

_SOFTCAP = (
    _cap("sign-lost", _SIGN, "cap", "All outputs are positive.", "softcap_bell"),
    _cap(
        "minus-zero-lost",
        _SIGN,
        "(x < 0.0f ? -cap : cap)",
        "-0 gives +0.",
        "softcap_broken",
        "softcap_sizes",
        "softcap_ladder",
    ),
    _cap(
        "reciprocal",
        "__fdiv_rn(x, cap)",
        "__fmul_rn(x, __fdiv_rn(1.0f, cap))",
        "A value is multiplied by the cap's reciprocal: a bit off.",
        "softcap_bell",
    ),
    _cap("half-the-exponent", "0xc038aa3bu", "0xbfb8aa3bu", "tanh of half of the quotient.", "softcap_bell"),
    _cap("exponent-up", "0xc038aa3bu", "0x4038aa3bu", "The exponential grows, and infinities meet.", "softcap_bell"),
    _cap(
        "hard",
        _CAPPED,
        f"if (size > 1.0f) return {_SIGN};\n  {_CAPPED}",
        "Beyond the cap stands the cap.",
        "softcap_bell",
    ),
    _cap(
        "linear-near-zero",
        _CAPPED,
        f"if (size < 0x1p-13f) return x;\n  {_CAPPED}",
        "Small values stay as they are: nearer to the truth, and other bits.",
        "softcap_ladder",
    ),
    _cap(
        "uncapped",
        f"__fmul_rn({_SIGN}, tanh)",
        f"__fmul_rn({_SIGN} / cap, tanh)",
        "tanh without its cap.",
        "softcap_bell",
    ),
    _cap(
        "difference-rounded-otherwise",
        _TANH,
        "const float tanh = __fsub_rn(__fdiv_rn(2.0f, __fadd_rn(1.0f, t)), 1.0f);",
        "2 / (1 + t) - 1 in place of the quotient: it cancels.",
        "softcap_ladder",
    ),
    _cap("nan-capped", _CAPPED, f"if (x != x) return cap;\n  {_CAPPED}", "A NaN becomes the cap.", "softcap_broken"),
    _cap(
        "sign-read-late",
        "store(out + i, capped(load(x + i), cap));",
        "{ const float y = capped(load(x + i), cap); store(out + i, bits_to_float(float_to_bits(y) & 0x7fffffffu)); "
        "store(out + i, bits_to_float((float_to_bits(y) & 0x7fffffffu) | (float_to_bits(load(x + i)) & 0x80000000u))); }",
        "The sign is read again when the output is written, and is gone where both are one buffer.",
        "softcap_sizes",
    ),
    _cap(
        "rest-of-block",
        _REST,
        _REST.replace("i < count", "i < first"),
        "What is left behind the last four is not written.",
        "softcap_sizes",
    ),
    _cap(
        "offset-of-32-bits",
        _FIRST,
        _FIRST.replace("static_cast<i64>(blockIdx.x)", "static_cast<u32>(blockIdx.x)"),
        "Elements are counted in 32 bits.",
        "softcap_sizes",
    ),
)

_RESIDUAL = (
    _add(
        "minus-zero-lost",
        "__fadd_rn(x.x, y.x)",
        "__fadd_rn(__fadd_rn(x.x, y.x), 0.0f)",
        "The sum of -0 and -0 is +0.",
        "residual_ends",
    ),
    _add(
        "subnormal-flushed",
        "__fadd_rn(x.y, y.y)",
        "(float_to_bits(__fadd_rn(x.y, y.y)) & 0x7f800000u ? __fadd_rn(x.y, y.y) : 0.0f)",
        "Subnormal sums are zero.",
        "residual_ends",
    ),
    _add(
        "b-of-neighbour",
        "__fadd_rn(x.z, y.z)",
        "__fadd_rn(x.z, y.w)",
        "A sum has its neighbour's operand.",
        "residual_bell",
    ),
    _add(
        "difference", "__fadd_rn(x.w, y.w)", "__fsub_rn(x.w, y.w)", "A difference in place of a sum.", "residual_bell"
    ),
    _add(
        "overflow-limited",
        "__fadd_rn(x.x, y.x)",
        "(__fadd_rn(x.x, y.x) > 0x1.fffffep+127f ? 0x1.fffffep+127f : __fadd_rn(x.x, y.x))",
        "A sum that overflows is the largest float.",
        "residual_ends",
    ),
    _add(
        "a-written-first",
        "store(out + i, __fadd_rn(load(a + i), load(b + i)));",
        "{ store(out + i, load(a + i)); store(out + i, __fadd_rn(load(out + i), load(b + i))); }",
        "a lies in the output before b is read, which is gone where both are one buffer.",
        "residual_sizes",
    ),
    _add("past-end", _WHOLE, "if (first < count) {", "The last thread takes four, whatever is left.", "residual_sizes"),
    _add(
        "offset-of-32-bits",
        _FIRST,
        _FIRST.replace("static_cast<i64>(blockIdx.x)", "static_cast<u32>(blockIdx.x)"),
        "Elements are counted in 32 bits.",
        "residual_sizes",
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from (*_GATED, *_SOFTCAP, *_RESIDUAL)
