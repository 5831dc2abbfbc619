"""Mutants of prompt attention: the online softmax, its guards, and the order of rescaling."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
_NAN_TESTS = ("tests/strata/kernels/test_attention.py",)

_FAULTS = (
    Mutant(
        "maximum-reset-every-chunk",
        PROMPT,
        "const float before = maximum;",
        "maximum = bits_to_float(kMinusInfinity);\n      const float before = maximum;",
        "The running maximum starts anew in each chunk, so that only the last one counts.",
        "prompt_attention/fp16/sm75",
        ("flat",),
    ),
    Mutant(
        "maximum-of-the-chunk-alone",
        PROMPT,
        "maximum = high[0] > maximum ? high[0] : maximum;",
        "maximum = high[0];",
        "The maximum may fall from chunk to chunk, and at a masked chunk to minus infinity.",
        "prompt_attention/k8v4/sm75",
        ("sunken", "absent_pages"),
    ),
    Mutant(
        "maximum-starts-at-zero",
        PROMPT,
        "float maximum = bits_to_float(kMinusInfinity), total = 0.0f;",
        "float maximum = 0.0f, total = 0.0f;",
        "Where every score lies far below zero all weights vanish.",
        "prompt_attention/int8/sm75",
        ("sunken",),
    ),
    Mutant(
        "finite-mask",
        PROMPT,
        "score[i] = masked[i] ? bits_to_float(kMinusInfinity) : score[i];",
        "score[i] = masked[i] ? -5e4f : score[i];",
        "A masked cell is scored -50,000, and where every real score is lower it sets the maximum.",
        "prompt_attention/q4_0/sm80",
        ("sunken",),
    ),
    Mutant(
        "sum-reset-every-chunk",
        PROMPT,
        "total = __fmaf_rn(total, shrink, here[0]);",
        "total = here[0];",
        "The sum of weights is that of the last chunk.",
        "prompt_attention/q4_0/sm80",
        ("flat",),
    ),
    Mutant(
        "alpha-not-on-sum",
        PROMPT,
        "total = __fmaf_rn(total, shrink, here[0]);",
        "total = __fadd_rn(total, here[0]);",
        "A new maximum rescales the accumulator and not the sum.",
        "prompt_attention/int8/sm80",
        ("climbing",),
    ),
    Mutant(
        "alpha-not-on-accumulator",
        PROMPT,
        "change[group][0] = __fmul_rn(shrink[0], units), change[group][1] = __fmul_rn(shrink[1], units);",
        "change[group][0] = units, change[group][1] = units;",
        "A new maximum rescales the sum and not the accumulator.",
        "prompt_attention/k8v4/sm80",
        ("climbing",),
    ),
    Mutant(
        "alpha-twice",
        PROMPT,
        "change[0][0] = shrink[0], change[0][1] = shrink[1];",
        "change[0][0] = __fmul_rn(shrink[0], shrink[0]), change[0][1] = __fmul_rn(shrink[1], shrink[1]);",
        "A new maximum rescales the accumulator twice.",
        "prompt_attention/fp16/sm80",
        ("climbing",),
    ),
    Mutant(
        "alpha-at-every-half-chunk",
        PROMPT,
        "here = first == 0 ? __fmaf_rn(here, change[window < kVGroups ? window : 0][i >> 1], raw[j][i]) : "
        "__fadd_rn(here, raw[j][i]);",
        "here = __fmaf_rn(here, change[window < kVGroups ? window : 0][i >> 1], raw[j][i]);",
        "With 64 cells a chunk, the second half rescales what the first has rescaled already.",
        "prompt_attention/q4_0/sm75",
        ("climbing",),
    ),
    Mutant(
        "no-guard-of-two-infinities",
        PROMPT,
        "const float shrink = before == bits_to_float(kMinusInfinity) ? 0.0f : exp2_not_positive(",
        "const float shrink = exp2_not_positive(",
        "Where no cell has been resident so far, minus infinity less minus infinity is a NaN that stays.",
        "prompt_attention/int8/sm80",
        ("absent_pages",),
    ),
    Mutant(
        "masked-weight-not-zeroed",
        PROMPT,
        "score[i] = masked[i] ? 0.0f : exp2_not_positive(",
        "score[i] = exp2_not_positive(",
        "In a chunk without a resident cell every weight is exp2 of a NaN.",
        "prompt_attention/k8v4/sm80",
        ("absent_pages",),
    ),
    Mutant(
        "weight-one-without-maximum",
        PROMPT,
        "score[i] = masked[i] ? 0.0f : exp2_not_positive(",
        "score[i] = maximum == bits_to_float(kMinusInfinity) ? 1.0f : exp2_not_positive(",
        "Guarded against minus infinity the wrong way: a head whose scores are all NaN gets the mean of V.",
        tests=_NAN_TESTS,
    ),
    Mutant(
        "no-division-guard",
        PROMPT,
        "whole == 0.0f ? 0.0f   // NaN stays NaN\n                              : __fdiv_rn(",
        "__fdiv_rn(",
        "Without any cell the output is 0/0.",
        "prompt_attention/fp16/sm80",
        ("zeros",),
    ),
    Mutant(
        "division-guard-eats-nan",
        PROMPT,
        "whole == 0.0f ? 0.0f   // NaN stays NaN",
        "!(whole > 0.0f) ? 0.0f",
        "A NaN in q or K gives an output of zeros instead of NaN.",
        tests=_NAN_TESTS,
    ),
    Mutant(
        "nan-score-dropped",
        PROMPT,
        "masked[i] = rows_at(chunk).ld(soft_cell + i) < 0;",
        "masked[i] = rows_at(chunk).ld(soft_cell + i) < 0 || score[i] != score[i];",
        "A cell whose score is NaN is masked, and nobody hears of it.",
        tests=_NAN_TESTS,
    ),
    Mutant(
        "maximum-one-step-short",
        PROMPT,
        "warp_max<8>(high);",
        "warp_max<4>(high);",
        "The two halves of a row's threads go on with maxima of their own.",
        "prompt_attention/fp16/sm75",
        ("peaked",),
    ),
    Mutant(
        "sum-one-step-short",
        PROMPT,
        "warp_add<8>(here);",
        "warp_add<4>(here);",
        "Half of a chunk's weights are missing from the sum.",
        "prompt_attention/q4_0/sm80",
        ("flat",),
    ),
    Mutant(
        "softmax-scale-dropped",
        PROMPT,
        "bits_to_float(0x3db8aa3bu)",
        "bits_to_float(0x3fb8aa3bu)",
        "Scores are not divided by 16, the root of the head size.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "natural-exponent-as-binary",
        PROMPT,
        "bits_to_float(0x3db8aa3bu)",
        "bits_to_float(0x3d800000u)",
        "Weights are powers of 2 where they should be powers of e.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "third-cell-misses-a-warp",
        PROMPT,
        "score[i + 2] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].z, share[1].z), share[2].z), share[3].z);",
        "score[i + 2] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].z, share[1].z), share[2].z), share[2].z);",
        "Every fourth score counts the third warp's dims twice and the last warp's never.",
        "prompt_attention/k8v4/sm75",
        ("signed_decades",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the softmax."""
    yield from _FAULTS
