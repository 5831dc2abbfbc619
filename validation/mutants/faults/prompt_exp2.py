"""Mutants of exp2, which prompt attention and its baseline share: agreement of the two shows none of them.

Left out, because it is no fault: zeros below -127 in place of -126. Weights of that size lie below the floor of the
bound, 2^-125 of the largest V.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

EXP2 = "strata/kernels/include/exp2.cuh"
_NUMBERS = ("tests/strata/executors/lanes/test_numbers.py",)

_FAULTS = (
    Mutant(
        "exp2-magic-of-positive",
        EXP2,
        "const float magic = 12582912.0f;",
        "const float magic = 8388608.0f;",
        "2^23 rounds only what is positive: below it lie halves, and the softmax never sees a positive exponent.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
        also=(Edit(EXP2, "- 0x4b400000u;", "- 0x4b000000u;"),),
    ),
    Mutant(
        "exp2-no-lower-limit",
        EXP2,
        "r = x < -126.0f ? 0.0f : r;",
        "",
        "Below 2^-126 the exponent field wraps around, to weights of any size.",
        "prompt_attention/k8v4/sm75",
        ("huge_q",),
    ),
    Mutant(
        "exp2-lower-limit-at-sixteen",
        EXP2,
        "r = x < -126.0f ? 0.0f : r;",
        "r = x < -16.0f ? 0.0f : r;",
        "Weights below 2^-16 of the largest, which a half could not hold, vanish.",
        "prompt_attention/q4_0/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "exp2-nan-lost",
        EXP2,
        "return x != x ? bits_to_float(0x7fffffffu) : r;",
        "return r;",
        "exp2 of a NaN is whatever its bits make, mostly a number.",
        tests=_NUMBERS,
    ),
    Mutant(
        "exp2-linear-coefficient",
        EXP2,
        "bits_to_float(0x3f317219u)",
        "bits_to_float(0x3f317a19u)",
        "The coefficient of f is wrong in its fifth digit.",
        "prompt_attention/int8/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "exp2-linear-coefficient-last-bits",
        EXP2,
        "bits_to_float(0x3f317219u)",
        "bits_to_float(0x3f317239u)",
        "The coefficient of f is wrong by 32 units of its last place.",
        tests=_NUMBERS,
    ),
    Mutant(
        "exp2-degree-four",
        EXP2,
        "float r = bits_to_float(0x392385a4u);\n  r = __fmaf_rn(r, f, bits_to_float(0x3aafb9bbu));\n"
        "  r = __fmaf_rn(r, f, bits_to_float(0x3c1d930fu));",
        "float r = bits_to_float(0x3c1d930fu);",
        "The polynomial ends with f^4: four digits.",
        "prompt_attention/fp16/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "exp2-degree-five",
        EXP2,
        "float r = bits_to_float(0x392385a4u);\n  r = __fmaf_rn(r, f, bits_to_float(0x3aafb9bbu));",
        "float r = bits_to_float(0x3aafb9bbu);",
        "The polynomial ends with f^5: five digits.",
        tests=_NUMBERS,
    ),
    Mutant(
        "exp2-coefficients-exchanged",
        EXP2,
        "  r = __fmaf_rn(r, f, bits_to_float(0x3c1d930fu));\n  r = __fmaf_rn(r, f, bits_to_float(0x3d635719u));",
        "  r = __fmaf_rn(r, f, bits_to_float(0x3d635719u));\n  r = __fmaf_rn(r, f, bits_to_float(0x3c1d930fu));",
        "The coefficients of f^3 and f^4 have changed places.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of exp2."""
    yield from _FAULTS
