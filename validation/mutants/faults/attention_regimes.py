"""Mutants of attention that are right in the usual regime of numbers: shortcuts and limits that only a scale far from
the usual one meets, a rise, weight, score, q or V that is very small or very large."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
DECODE = "strata/kernels/decode_attention.cu"
EXP2 = "strata/kernels/include/exp2.cuh"

_SHRINK = "0.0f : exp2_not_positive(__fmul_rn(__fsub_rn(before, maximum), q_down));"
_WEIGHT = "score[i] = masked[i] ? 0.0f : exp2_not_positive(__fmul_rn(__fsub_rn(score[i], maximum), q_down));"
_SUM = "here[0] = __fadd_rn(here[0], score[i]);"
_SPLIT = (
    "lo = half_pair(__fsub_rn(x, half_value(static_cast<u16>(hi))), "
    "__fsub_rn(y, half_value(static_cast<u16>(hi >> 16))));"
)
_POLYNOMIAL = "return x != x ? bits_to_float(0x7fffffffu) : r;"
_RISE = "__fmul_rn(__fsub_rn(maximum, before), q_down)"


def _rescale(name: str, condition: str, value: str, why: str, path: str, recipe: str) -> Mutant:
    return Mutant(name, PROMPT, _SHRINK, f"0.0f : {condition} ? {value} : {_SHRINK[7:]}", why, path, (recipe,))


_FAULTS = (
    *(
        _rescale(
            f"rescale-skipped-below-2^-{bits}",
            f"{_RISE} < 0x1p-{bits}f",
            "1.0f",
            f"Where the running maximum rises by less than 2^-{bits} what was summed before is not rescaled.",
            path,
            "q_ladder",
        )
        for bits, path in (
            (11, "prompt_attention/fp16/sm80"),
            (12, "prompt_attention/int8/sm75"),
            (13, "prompt_attention/k8v4/sm80"),
            (14, "prompt_attention/q4_0/sm75"),
        )
    ),
    _rescale(
        "rescale-skipped-of-a-small-raw-rise",
        "__fsub_rn(maximum, before) < 8.0f",
        "1.0f",
        "The rise of the maximum is asked for in units of the raised q, where 8 is nothing beside usual scores.",
        "prompt_attention/fp16/sm75",
        "q_ladder",
    ),
    _rescale(
        "rescale-to-nothing-beyond-16",
        f"{_RISE} > 16.0f",
        "0.0f",
        "Where the running maximum rises by more than 16 all that was summed before is dropped.",
        "prompt_attention/int8/sm80",
        "v_ladder",
    ),
    _rescale(
        "rescale-linear-below-2^-6",
        f"{_RISE} < 0x1p-6f",
        f"__fsub_rn(1.0f, __fmul_rn({_RISE}, 0.69314718f))",
        "Where the running maximum rises by less than 2^-6 the factor is 1 - x ln 2.",
        "prompt_attention/k8v4/sm75",
        "q_ladder",
    ),
    Mutant(
        "exp2-one-near-zero",
        EXP2,
        _POLYNOMIAL,
        "r = x > -0x1p-14f && x <= 0.0f ? 1.0f : r;\n  " + _POLYNOMIAL,
        "exp2 of what is nearer to zero than 2^-14 is taken for 1.",
        "prompt_attention/int8/sm75",
        ("q_ladder",),
    ),
    Mutant(
        "exp2-linear-near-zero",
        EXP2,
        _POLYNOMIAL,
        "r = x > -0x1p-6f && x <= 0.0f ? __fmaf_rn(x, 0.69314718f, 1.0f) : r;\n  " + _POLYNOMIAL,
        "exp2 of what is nearer to zero than 2^-6 is 1 + x ln 2, off by up to 2^-14.",
        "prompt_attention/k8v4/sm80",
        ("q_ladder",),
    ),
    Mutant(
        "exp2-flushes-early",
        EXP2,
        "r = x < -126.0f ? 0.0f : r;",
        "r = x < -20.0f ? 0.0f : r;",
        "exp2 of what lies below -20 is zero, as if no cell of such a weight could have a large value.",
        "prompt_attention/fp16/sm75",
        ("v_ladder",),
    ),
    Mutant(
        "exponent-limited-at-30",
        PROMPT,
        _WEIGHT,
        "score[i] = __fmul_rn(__fsub_rn(score[i], maximum), q_down);\n"
        "        score[i] = masked[i] ? 0.0f : exp2_not_positive(score[i] < -30.0f ? -30.0f : score[i]);",
        "No cell weighs less than 2^-30 of the largest, however far its score lies below.",
        "prompt_attention/q4_0/sm80",
        ("v_ladder",),
    ),
    Mutant(
        "sum-skips-tiny-weights",
        PROMPT,
        _SUM,
        "here[0] = score[i] < 0x1p-14f ? here[0] : __fadd_rn(here[0], score[i]);",
        "Weights below 2^-14 do not count in the sum of weights.",
        "prompt_attention/q4_0/sm75",
        ("v_ladder",),
    ),
    Mutant(
        "tiny-weights-are-zero",
        PROMPT,
        _SUM,
        "score[i] = score[i] < 0x1p-18f ? 0.0f : score[i];\n        " + _SUM,
        "Cells of a weight below 2^-18 are left out of both sums.",
        "prompt_attention/int8/sm75",
        ("v_ladder",),
    ),
    Mutant(
        "half-sum-skips-weights-below-fp16",
        PROMPT,
        "here = first == 0 ? __fmaf_rn(here, change[window < kVGroups ? window : 0][i >> 1], raw[j][i]) : "
        "__fadd_rn(here, raw[j][i]);",
        "raw[j][i] = raw[j][i] < 0x1p-4f && raw[j][i] > -0x1p-4f ? 0.0f : raw[j][i];\n            "
        "here = first == 0 ? __fmaf_rn(here, change[window < kVGroups ? window : 0][i >> 1], raw[j][i]) : "
        "__fadd_rn(here, raw[j][i]);",
        "A chunk whose share is small in the units of its raised V scale is not added at all.",
        "prompt_attention/k8v4/sm75",
        ("v_ladder",),
    ),
    Mutant(
        "lo-of-small-q-dropped",
        PROMPT,
        "split(__fmul_rn(x.x, up), __fmul_rn(x.y, up), q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);",
        "split(__fmul_rn(x.x, up), __fmul_rn(x.y, up), q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);\n"
        "        if (__fmul_rn(x.x, up) < 8.0f && __fmul_rn(x.x, up) > -8.0f) q_lo[s][r + 2 * half] &= 0xffff0000u;\n"
        "        if (__fmul_rn(x.y, up) < 8.0f && __fmul_rn(x.y, up) > -8.0f) q_lo[s][r + 2 * half] &= 0xffffu;",
        "The low half of an element of q below 2^-11 of its head's largest is left out.",
        "prompt_attention/int8/sm80",
        ("k_ladder",),
    ),
    Mutant(
        "lo-of-small-weights-dropped",
        PROMPT,
        "split(__fmul_rn(p.x, scale.x), __fmul_rn(p.y, scale.y), p_hi[s][r + 2 * half], p_lo[s][r + 2 * half]);",
        "split(__fmul_rn(p.x, scale.x), __fmul_rn(p.y, scale.y), p_hi[s][r + 2 * half], p_lo[s][r + 2 * half]);\n"
        "                if (__fmul_rn(p.x, scale.x) < 8.0f && __fmul_rn(p.x, scale.x) > -8.0f) "
        "p_lo[s][r + 2 * half] &= 0xffff0000u;\n"
        "                if (__fmul_rn(p.y, scale.y) < 8.0f && __fmul_rn(p.y, scale.y) > -8.0f) "
        "p_lo[s][r + 2 * half] &= 0xffffu;",
        "The low half of a weight times its scale is left out where it lies below 2^-11 of what the chunk may hold.",
        "prompt_attention/q4_0/sm75",
        ("v_ladder",),
    ),
    Mutant(
        "subnormal-lo-flushed",
        PROMPT,
        _SPLIT,
        _SPLIT + "\n  if ((lo & 0x7c00u) == 0) lo &= 0xffff0000u;\n  if ((lo & 0x7c000000u) == 0) lo &= 0xffffu;",
        "A low half among the FP16 subnormals counts as zero.",
        "prompt_attention/fp16/sm80",
        ("k_ladder",),
    ),
    Mutant(
        "subnormal-hi-flushed",
        PROMPT,
        _SPLIT,
        _SPLIT + "\n  if ((hi & 0x7c00u) == 0) hi &= 0xffff0000u;\n  if ((hi & 0x7c000000u) == 0) hi &= 0xffffu;",
        "A high half among the FP16 subnormals counts as zero.",
        "prompt_attention/k8v4/sm80",
        ("k_ladder",),
    ),
    Mutant(
        "maximum-starts-at-a-number",
        PROMPT,
        "float maximum = bits_to_float(kMinusInfinity), total = 0.0f;",
        "float maximum = -1e9f, total = 0.0f;",
        "The running maximum starts at a finite number that usual scores, in units of the raised q, stay above.",
        "prompt_attention/q4_0/sm75",
        ("sunken_ladder",),
    ),
    Mutant(
        "v-unit-fall-limited",
        PROMPT,
        "const float units = power_of_two(unit[group] - e);",
        "const float units = power_of_two(unit[group] - e > 12 ? 12 : unit[group] - e);",
        "From one chunk to the next the unit of V may fall by 2^12 at most.",
        "prompt_attention/int8/sm75",
        ("k_ladder",),
    ),
    Mutant(
        "v-unit-rise-limited",
        PROMPT,
        "const float units = power_of_two(unit[group] - e);",
        "const float units = power_of_two(unit[group] - e < -12 ? -12 : unit[group] - e);",
        "From one chunk to the next the unit of V may rise by 2^12 at most.",
        "prompt_attention/q4_0/sm80",
        ("k_ladder",),
    ),
    Mutant(
        "q-exponent-has-a-floor",
        PROMPT,
        "exponent.st(me.warp + i * kWarps, exponent_of(largest[i]));",
        "exponent.st(me.warp + i * kWarps, exponent_of(largest[i]) < 10 ? 10 : exponent_of(largest[i]));",
        "q is raised as if its largest were 2^9 at least, so that the low halves of smaller ones are subnormal or gone.",
        "prompt_attention/fp16/sm75",
        ("q_ladder",),
    ),
    Mutant(
        "q-exponent-has-a-ceiling",
        PROMPT,
        "return e < -100 ? -100 : e;",
        "return e < -100 ? -100 : e > 24 ? 24 : e;",
        "q is scaled as if its largest were below 2^24: a larger one overflows the halves it is split into.",
        "prompt_attention/int8/sm80",
        ("q_ladder",),
    ),
    Mutant(
        "decode-merge-skips-small-rises",
        DECODE,
        "const float w = exp2_fma(__fsub_rn(m, high));",
        "const float w = __fsub_rn(high, m) < 0x1p-12f ? 1.0f : exp2_fma(__fsub_rn(m, high));",
        "A chunk whose maximum lies less than 2^-12 below the largest is not rescaled in the merge.",
        "decode_attention/q4_0/simt",
        ("q_ladder",),
    ),
    Mutant(
        "decode-merge-drops-far-chunks",
        DECODE,
        "const float w = exp2_fma(__fsub_rn(m, high));",
        "const float w = __fsub_rn(high, m) > 16.0f ? 0.0f : exp2_fma(__fsub_rn(m, high));",
        "A chunk whose maximum lies more than 16 below the largest is dropped.",
        "decode_attention/fp16/simt",
        ("v_ladder",),
    ),
    *(
        Mutant(
            f"decode-scores-{name}",
            DECODE,
            "const float a = weight.ld(lane * GROUP + h), b = weight.ld((lane + 32) * GROUP + h);",
            "const auto limited = [](float x) { return " + expression + "; };\n"
            "    const float a = limited(weight.ld(lane * GROUP + h)), b = limited(weight.ld((lane + 32) * GROUP + h));",
            why,
            f"decode_attention/{mode}/simt",
            ("q_ladder",),
        )
        for name, expression, why, mode in (
            (
                "limited-at-30",
                "x > 30.0f ? 30.0f : x < -30.0f && x > bits_to_float(kMinusInfinity) ? -30.0f : x",
                "Scores beyond 30 count as 30.",
                "int8",
            ),
            (
                "limited-at-88",
                "x > 88.0f ? 88.0f : x < -88.0f && x > bits_to_float(kMinusInfinity) ? -88.0f : x",
                "Scores beyond 88 count as 88, the last whose exponential is a float.",
                "k8v4",
            ),
            (
                "flushed-near-zero",
                "x < 0x1p-12f && x > -0x1p-12f ? 0.0f : x",
                "Scores nearer to zero than 2^-12 count as zero.",
                "q4_0",
            ),
        )
    ),
    Mutant(
        "decode-maximum-starts-at-a-number",
        DECODE,
        "float high = bits_to_float(kMinusInfinity);\n  for (int c = 0; c < chunks; ++c) {",
        "float high = -1e4f;\n  for (int c = 0; c < chunks; ++c) {",
        "The largest maximum of the chunks is -10,000 at least.",
        "decode_attention/int8/simt",
        ("sunken_ladder",),
    ),
    Mutant(
        "decode-far-maximum-is-no-chunk",
        DECODE,
        "if (m == bits_to_float(kMinusInfinity)) continue;",
        "if (m < -1e30f) continue;",
        "A chunk whose largest score lies below -1e30 counts as one of absent cells.",
        "decode_attention/fp16/simt",
        ("q_ladder",),
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from _FAULTS
