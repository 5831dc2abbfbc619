"""Mutants of activations as int8, of SwiGLU, and of the integer products on lanes."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

ACTIVATION = "strata/kernels/include/activation.cuh"
SWIGLU = "strata/kernels/include/swiglu.cuh"
INT8 = "strata/kernels/include/int8.cuh"
FUSED = "expert_fused/iq3_xxs/iq4_nl/sm75"
PAIRS_OF_SCALES = "expert_fused/iq2_xs/q2_0/sm80"
MMQ = "expert_mmq/iq3_xxs/iq4_nl/sm75"
DECODE = "expert_decode/iq3_xxs/iq4_nl/simt"


def _quantise(
    name: str,
    old: str,
    new: str,
    why: str,
    *recipes: str,
    path: str = FUSED,
    also: tuple[Edit, ...] = (),
    tests: tuple[str, ...] = (),
) -> Mutant:
    return Mutant(f"activation-{name}", ACTIVATION, old, new, why, path, recipes or ("experts_plain",), also, tests)


#: Where what the kernel wrote is looked at itself: no output of a drawn layer shows these.
_WRITTEN = ("tests/strata/kernels/test_expert_activations.py",)


#: On a path whose scales of h are float32: half precision would hide a bit.
def _swiglu(
    name: str, old: str, new: str, why: str, *recipes: str, also: tuple[Edit, ...] = (), tests: tuple[str, ...] = ()
) -> Mutant:
    return Mutant(f"swiglu-{name}", SWIGLU, old, new, why, MMQ, recipes or ("experts_plain",), also, tests)


#: Half precision is no part of these headers.
_HALF = (Edit(ACTIVATION, '#include "quotient.cuh"', '#include "quotient.cuh"\n#include "ptx.cuh"'),)
_SWIGLU_HALF = (Edit(SWIGLU, '#include "exp2.cuh"', '#include "exp2.cuh"\n#include "ptx.cuh"'),)
_CODE = "__float2int_rn(__fmul_rn(v, scale.inverse))"
_D = "return {inverse, __fdiv_rn(amax, 127.0f), true};"
#: Nearly every block goes this way, and those near the ends of the range the other.
_USUAL = "scale[i] = {usual_quotient(127.0f, amax), usual_quotient(amax, 127.0f), true};"


def _usual(inverse: str, d: str) -> tuple[Edit, ...]:
    """The same fault in the usual way."""
    made = f"const float inverse = __fdiv_rn(127.0f, amax); scale[i] = {{{inverse}, {d}, true}};"
    return (Edit(ACTIVATION, _USUAL, made),)


_H = "__fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up)"
_NO_NUMBER = "return {0.0f, bits_to_float(kNotANumber), false};"

_QUANTISE = (
    _quantise("truncates", _CODE, _CODE.replace("_rn(__", "_rz(__"), "Codes are cut, not rounded."),
    _quantise(
        "ties-away",
        _CODE,
        "static_cast<int>(__fadd_rn(__fmul_rn(v, scale.inverse), v < 0.0f ? -0.5f : 0.5f))",
        "Ties are rounded away from zero, not to even.",
        "experts_ties",
    ),
    _quantise(
        "division",
        _CODE,
        "__float2int_rn(__fdiv_rn(v, scale.d))",
        "Codes are v / d, not v times 127 / amax: another value where a tie is near.",
        tests=_WRITTEN,
    ),
    _quantise(
        "d-is-reciprocal",
        _D,
        "return {inverse, __fdiv_rn(1.0f, inverse), true};",
        "d is 1 / inverse, not amax / 127: a bit off.",
        "experts_decades",
        also=_usual("inverse", "__fdiv_rn(1.0f, inverse)"),
    ),
    _quantise(
        "d-by-multiplication",
        _D,
        "return {inverse, __fmul_rn(amax, 1.0f / 127.0f), true};",
        "d is amax times the reciprocal of 127: a bit off.",
        "experts_decades",
        also=_usual("inverse", "__fmul_rn(amax, 1.0f / 127.0f)"),
    ),
    _quantise(
        "d-in-half",
        _D,
        "return {inverse, half_value(half_bits(__fdiv_rn(amax, 127.0f))), true};",
        "Scales of activations are rounded to half precision.",
        also=(*_HALF, *_usual("inverse", "half_value(half_bits(__fdiv_rn(amax, 127.0f)))")),
    ),
    _quantise(
        "largest-128",
        "inverse = __fdiv_rn(127.0f, amax);",
        "inverse = __fdiv_rn(128.0f, amax);",
        "The largest code is 128, which is -128.",
        also=_usual("__fdiv_rn(128.0f, amax)", "__fdiv_rn(amax, 127.0f)"),
    ),
    _quantise(
        "minus-128",
        _D,
        "return {-inverse, __fdiv_rn(-amax, 127.0f), true};",
        "Codes and scales have the other sign, as in a signed convention: the same values, other codes.",
        also=_usual("-inverse", "__fdiv_rn(-amax, 127.0f)"),
    ),
    _quantise(
        "positive-alone",
        "return float_to_bits(v) & 0x7fffffffu;",
        "return float_to_bits(v) >> 31 ? 0u : float_to_bits(v);",
        "Negative values do not join amax.",
    ),
    _quantise("fourth-value-left-out", "b = z > w ? z : w;", "b = z;", "Every fourth value does not join amax."),
    _quantise(
        "nan-to-zeros",
        _NO_NUMBER,
        "return {0.0f, 0.0f, false};",
        "A block that is not finite counts as zeros.",
        "experts_broken",
    ),
    _quantise(
        "nan-uncounted",
        _NO_NUMBER,
        _NO_NUMBER.replace("false", "true"),
        "A block that is not finite is not counted.",
        "experts_broken",
    ),
    _quantise(
        "infinity-passes",
        "if (largest >= kInfinityBits) return",
        "if (largest > kInfinityBits) return",
        "Infinity is taken for a number: its block becomes zeros.",
        "experts_broken",
    ),
    _quantise(
        "nan-passes",
        "if (largest >= kInfinityBits) return",
        "if (largest == kInfinityBits) return",
        "Only infinities count as not finite: NaN become codes.",
        "experts_broken",
    ),
    _quantise(
        "zeros-divide",
        "if (float_to_bits(inverse) >= kInfinityBits) return {0.0f, 0.0f, true};   // amax 0 too",
        "",
        "127 / 0 is computed with.",
        "experts_zeros",
    ),
    _quantise(
        "tiny-divide",
        "if (float_to_bits(inverse) >= kInfinityBits) return {0.0f, 0.0f, true};   // amax 0 too",
        "if (amax == 0.0f) return {0.0f, 0.0f, true};",
        "A reciprocal that overflowed is computed with.",
        "experts_tiny",
    ),
    _quantise(
        "tiny-keeps-d",
        "return {0.0f, 0.0f, true};   // amax 0 too",
        "return {0.0f, __fdiv_rn(amax, 127.0f), true};",
        "A block that counts as zeros keeps its scale.",
        tests=_WRITTEN,
    ),
    _quantise(
        "subnormal-flushed",
        "amax = bits_to_float(largest)",
        "amax = bits_to_float(largest < 0x03000000u ? 0 : largest)",
        "Blocks below 2^-121 and a little more count as zeros.",
        "experts_tiny",
    ),
    _quantise(
        "codes-crossed",
        "activation_code(v.y, scale) << 8 | activation_code(v.z, scale) << 16",
        "activation_code(v.z, scale) << 8 | activation_code(v.y, scale) << 16",
        "The second and the third of four codes change places.",
    ),
    _quantise(
        "code-unmasked",
        "__fmul_rn(v, scale.inverse))) & 255u;",
        "__fmul_rn(v, scale.inverse)));",
        "Negative codes spill over the bytes beside them.",
    ),
    _quantise(
        "two-scales",
        _CODE,
        "__float2int_rn(__fmul_rn(v, half_value(half_bits(scale.inverse))))",
        "The reciprocal is rounded to half precision.",
        path=PAIRS_OF_SCALES,
        also=_HALF,
    ),
)

_SWIGLU = (
    _swiglu(
        "not-negated",
        "__fmul_rn(gate, bits_to_float(kMinusLog2E))",
        "__fmul_rn(gate, bits_to_float(kMinusLog2E ^ 0x80000000u))",
        "1 + e^gate, not 1 + e^-gate.",
    ),
    _swiglu("base-two", "0xbfb8aa3bu", "0xbf800000u", "2^-gate in place of e^-gate."),
    _swiglu("constant-one-bit", "0xbfb8aa3bu", "0xbfb8aa3cu", "log2(e) is one bit larger."),
    _swiglu(
        "of-up",
        "const float e = exp2_fma(__fmul_rn(gate,",
        "const float e = exp2_fma(__fmul_rn(up,",
        "The sigmoid is that of up.",
    ),
    _swiglu(
        "gate-up-swapped",
        "DEVICE float swiglu(float gate, float up) {",
        "DEVICE float swiglu(float up, float gate) {",
        "Gate and up are swapped.",
    ),
    _swiglu(
        "up-first",
        _H,
        "__fdiv_rn(__fmul_rn(gate, up), __fadd_rn(1.0f, e))",
        "gate times up is divided, in place of the quotient multiplied: another rounding.",
    ),
    _swiglu(
        "reciprocal",
        _H,
        "__fmul_rn(__fmul_rn(gate, __fdiv_rn(1.0f, __fadd_rn(1.0f, e))), up)",
        "gate is multiplied by a reciprocal: another rounding.",
    ),
    _swiglu("silu-alone", _H, "__fdiv_rn(gate, __fadd_rn(1.0f, e))", "up is left out."),
    _swiglu(
        "no-gate",
        _H,
        "__fmul_rn(__fdiv_rn(1.0f, __fadd_rn(1.0f, e)), up)",
        "The sigmoid stands in place of gate times it.",
    ),
    _swiglu(
        "clamped",
        "const float e = exp2_fma(",
        "if (gate < -20.0f) return 0.0f;\n  const float e = exp2_fma(",
        "Gates below -20 give zeros.",
        tests=("tests/strata/kernels/test_swiglu.py",),
    ),
    _swiglu(
        "nan-hidden",
        "const float e = exp2_fma(",
        "if (gate != gate) return 0.0f;\n  const float e = exp2_fma(",
        "A gate that is NaN gives zero.",
        "experts_broken",
    ),
    _swiglu(
        "half",
        _H,
        "half_value(half_bits(" + _H + "))",
        "h is rounded to half precision before it is quantised.",
        also=_SWIGLU_HALF,
    ),
)
_QUOTIENT, _LOW, _HIGH = "strata/kernels/include/quotient.cuh", "kUsualLow = 0x0d800000u", "kUsualHigh = 0x71800000u"
_ALL = "h[i] = __fmul_rn(usual_quotient(gate[i], __fadd_rn(1.0f, e)), up[i]);"


def _all(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    """Of the fused product, which asks for special cases once for several values."""
    return Mutant(f"swiglu-all-{name}", SWIGLU, old, new, why, FUSED, recipes or ("experts_plain",))


_USUALLY = (
    _quantise(
        "first-asked",
        "usual_operand(bits_to_float(largest[i]))",
        "usual_operand(bits_to_float(largest[0]))",
        "Only the first of several blocks is asked for special cases.",
        "experts_broken",
    ),
    Mutant(
        "quotient-tiny-is-usual",
        _QUOTIENT,
        _LOW,
        "kUsualLow = 1",
        "Blocks of h whose reciprocal overflows are computed with as others are.",
        tests=("tests/strata/kernels/test_expert_infinities.py",),
    ),
    Mutant(
        "quotient-infinity-is-usual",
        _QUOTIENT,
        _HIGH,
        "kUsualHigh = 0x7f800000u",
        "Blocks of h with an infinity are computed with as others are.",
        tests=("tests/strata/kernels/test_expert_infinities.py",),
    ),
    Mutant(
        "quotient-nan-is-usual",
        _QUOTIENT,
        _HIGH,
        "kUsualHigh = 0x7fffffffu",
        "Blocks of h that are not finite are computed with as others are.",
        tests=("tests/strata/kernels/test_expert_infinities.py",),
    ),
    _all(
        "not-negated",
        "__fmul_rn(gate[i], bits_to_float(kMinusLog2E))",
        "__fmul_rn(gate[i], bits_to_float(kMinusLog2E ^ 0x80000000u))",
        "1 + e^gate, not 1 + e^-gate.",
    ),
    _all(
        "up-first",
        _ALL,
        "h[i] = usual_quotient(__fmul_rn(gate[i], up[i]), __fadd_rn(1.0f, e));",
        "gate times up is divided, in place of the quotient multiplied: another rounding.",
    ),
    _all("up-of-neighbour", _ALL, _ALL.replace("up[i]", "up[i ^ 1]"), "up is that of the neighbouring pair."),
    _all(
        "reciprocal",
        _ALL,
        "h[i] = __fmul_rn(__fmul_rn(gate[i], usual_quotient(1.0f, __fadd_rn(1.0f, e))), up[i]);",
        "gate is multiplied by a reciprocal: another rounding.",
    ),
    _all(
        "rare-of-first",
        "h[i] = swiglu(gate[i], up[i]);",
        "h[i] = swiglu(gate[0], up[i]);",
        "Where a gate is far from 1 its neighbours take that of the first.",
        "experts_extremes",
    ),
    _all(
        "rare-lost",
        "h[i] = swiglu(gate[i], up[i]);",
        "h[i] = 0.0f;",
        "Where a gate is far from 1 it and its neighbours become zeros.",
        "experts_extremes",
    ),
)


_INT8 = (
    Mutant(
        "int8-eighths-crossed",
        INT8,
        "{{0, 0, 0}, {2, 1, 0}, {0, 2, 1}, {2, 3, 1}}",
        "{{0, 0, 0}, {2, 1, 0}, {2, 2, 1}, {0, 3, 1}}",
        "Registers of the upper k of m16n8k32 reach each other's rows.",
        MMQ,
        ("experts_plain",),
    ),
    Mutant(
        "int8-lower-k-twice",
        INT8,
        "{{0, 0, 0}, {2, 1, 0}, {0, 2, 1}, {2, 3, 1}}",
        "{{0, 0, 0}, {2, 1, 0}, {0, 2, 0}, {2, 3, 0}}",
        "The upper 16 of k meet the activations of the lower 16.",
        FUSED,
        ("experts_one_hot",),
    ),
    Mutant(
        "int8-upper-k-dropped",
        INT8,
        "constexpr int kSteps = A_REGS;",
        "constexpr int kSteps = A_REGS / 2;",
        "The second half of every product is left out.",
        PAIRS_OF_SCALES,
        ("experts_plain",),
    ),
    Mutant(
        "int8-dp4a-unsigned",
        INT8,
        "static_cast<i32>(static_cast<i8>(a >> i)) *",
        "static_cast<i32>(static_cast<u8>(a >> i)) *",
        "Weight codes of dp4a are unsigned.",
        DECODE,
        ("experts_plain",),
    ),
    Mutant(
        "int8-dp4a-three",
        INT8,
        "for (int i = 0; i < 32; i += 8) c +=",
        "for (int i = 0; i < 24; i += 8) c +=",
        "The fourth product of dp4a is left out.",
        DECODE,
        ("experts_one_hot",),
    ),
    Mutant(
        "int8-start-lost",
        INT8,
        "for (int i = 0; i < M * N * 4; ++i) (&d[0][0][0])[i] = start;\n  multiply_k32_s8",
        "(void)start;\n  multiply_k32_s8",
        "Products of 32 begin at what was there.",
        FUSED,
        ("experts_plain",),
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_QUANTISE, *_SWIGLU, *_USUALLY, *_INT8)
