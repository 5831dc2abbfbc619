"""Mutants of prompt attention: the scales of K and V, their powers of two, and the accumulator's units.

Left out, because they are no faults:
- The largest |scale| taken over scales that are not finite too: the dims under such a scale are not finite anyway.
- The fold 2^(15 - e) together with units of 2^(e - 15): p' stays below 2^15.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
HOST = "strata/kernels/prompt_attention.py"
_K_INT8 = "half_value(scales.ld((cell + (i & 1)) * kScales + me.warp))"
_K_Q4 = "half_value(keys.ld<u16>((cell + c) * kKRow + (2 * me.warp + h) * Format<FORMAT_Q4_0>::block_bytes))"
_FOLD = "__fmul_rn(half_value(bits[group][i]), power_of_two(14 - e))"

_FAULTS = (
    Mutant(
        "scale-planes-swapped",
        HOST,
        "pool.k, pool.k_scale, pool.v, pool.v_scale,",
        "pool.k, pool.v_scale, pool.v, pool.k_scale,",
        "K gets the scales of V, and V those of K.",
        "prompt_attention/int8/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "k-scale-for-v",
        HOST,
        "pool.k, pool.k_scale, pool.v, pool.v_scale,",
        "pool.k, pool.k_scale, pool.v, pool.k_scale,",
        "V gets the scales of K.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-scale-omitted",
        PROMPT,
        "if (K_FORMAT == FORMAT_INT8) score[i] = __fmul_rn(",
        "if (false) score[i] = __fmul_rn(",
        "Scores of INT8 keys are those of their codes.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "k-scale-twice",
        PROMPT,
        _K_INT8,
        f"__fmul_rn({_K_INT8}, {_K_INT8})",
        "Scores of INT8 keys are multiplied by the square of their scale.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-scale-of-next-group",
        PROMPT,
        _K_INT8,
        _K_INT8.replace("me.warp", "(me.warp + 1) % kWarps"),
        "64 dims of an INT8 key get the scale of the 64 behind them.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-scale-of-even-cell",
        PROMPT,
        _K_INT8,
        _K_INT8.replace("cell + (i & 1)", "cell"),
        "An INT8 key of odd number gets the scale of the cell before.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "k-scale-without-sign",
        PROMPT,
        _K_INT8,
        "half_value(static_cast<u16>(scales.ld((cell + (i & 1)) * kScales + me.warp) & 0x7fffu))",
        "A negative scale of an INT8 key counts as positive.",
        "prompt_attention/k8v4/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "k-scale-flushed",
        PROMPT,
        _K_INT8,
        "half_value(static_cast<u16>((scales.ld((cell + (i & 1)) * kScales + me.warp) & 0x7c00u) == 0 ? 0 : "
        "scales.ld((cell + (i & 1)) * kScales + me.warp)))",
        "A subnormal scale of an INT8 key counts as zero.",
        "prompt_attention/int8/sm75",
        ("faint",),
    ),
    Mutant(
        "k-block-scale-of-neighbour",
        PROMPT,
        _K_Q4,
        _K_Q4.replace("2 * me.warp + h", "2 * me.warp"),
        "Both blocks of 32 dims of a warp's keys get the scale of the first.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "k-block-scale-of-even-cell",
        PROMPT,
        _K_Q4,
        _K_Q4.replace("cell + c", "cell"),
        "A 4-bit key of odd number gets the scale of the cell before.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-block-scale-without-sign",
        PROMPT,
        "const float scale = " + _K_Q4,
        "const float scale = half_value(static_cast<u16>(keys.ld<u16>((cell + c) * kKRow + (2 * me.warp + h) * "
        "Format<FORMAT_Q4_0>::block_bytes) & 0x7fffu))",
        "A negative scale of 32 dims of a 4-bit key counts as positive.",
        "prompt_attention/q4_0/sm75",
        ("all_negative",),
    ),
    Mutant(
        "k-block-scale-as-bits",
        PROMPT,
        "__fmaf_rn(raw[half][h][i], scale, score[i])",
        "__fmaf_rn(raw[half][0][i], scale, score[i])",
        "The second block's scale multiplies the first block's sum again.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "v-scale-omitted",
        PROMPT,
        _FOLD,
        "power_of_two(14 - e)",
        "V scales do not reach p, only their power of two.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "v-scale-twice",
        PROMPT,
        _FOLD,
        f"__fmul_rn({_FOLD}, half_value(bits[group][i]))",
        "V scales reach p twice.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "v-scale-without-sign",
        PROMPT,
        _FOLD,
        _FOLD.replace("half_value(bits[group][i])", "half_value(static_cast<u16>(bits[group][i] & 0x7fffu))"),
        "A negative V scale counts as positive.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "v-scale-flushed",
        PROMPT,
        _FOLD,
        _FOLD.replace(
            "half_value(bits[group][i])", "((bits[group][i] & 0x7c00u) == 0 ? 0.0f : half_value(bits[group][i]))"
        ),
        "A subnormal V scale counts as zero.",
        "prompt_attention/q4_0/sm80",
        ("faint",),
    ),
    Mutant(
        "v-scale-of-next-group",
        PROMPT,
        "? vs_at(chunk).ld(cell * kScales + me.warp)",
        "? vs_at(chunk).ld(cell * kScales + (me.warp ^ 1))",
        "64 dims of INT8 values get the scale of their neighbours.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "v-scale-of-next-cell",
        PROMPT,
        "const int cell = me.lane + 32 * i;",
        "const int cell = (me.lane ^ 1) + 32 * i;",
        "A cell's values get the scale of its neighbour.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "v-block-scale-of-neighbour",
        PROMPT,
        "values.ld<u16>(cell * kVRow + (2 * me.warp + group) * Format<FORMAT_Q4_0>::block_bytes)",
        "values.ld<u16>(cell * kVRow + (2 * me.warp + 1 - group) * Format<FORMAT_Q4_0>::block_bytes)",
        "The two blocks of 32 dims of a warp's values exchange their scales.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "fold-of-the-first-group",
        PROMPT,
        "if (window < kVGroups) {   // a new scale group",
        "if (window == 0) {",
        "The second 32 dims of a warp are weighted with the scales of the first.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "fold-exponent-off-by-one",
        PROMPT,
        _FOLD,
        _FOLD.replace("14 - e", "15 - e"),
        "V scales are raised by one power of two more than the accumulator's units say.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "fold-without-headroom",
        PROMPT,
        _FOLD,
        _FOLD.replace("14 - e", "17 - e"),
        "V scales are raised until p no longer fits into FP16.",
        "prompt_attention/int8/sm80",
        ("peaked",),
        also=(
            Edit(
                PROMPT,
                "power_of_two(unit[window < kVGroups ? window : 0] - 14)",
                "power_of_two(unit[window < kVGroups ? window : 0] - 17)",
            ),
        ),
    ),
    Mutant(
        "fold-not-raised",
        PROMPT,
        _FOLD,
        "half_value(bits[group][i])",
        "V scales are folded into p as they are: small ones leave p few bits of FP16.",
        "prompt_attention/q4_0/sm75",
        ("faint", "signed_decades"),
        also=(
            Edit(PROMPT, "const float units = power_of_two(unit[group] - e);", "const float units = 1.0f;"),
            Edit(
                PROMPT,
                "__fmul_rn(acc[window][j][2 * r + c], power_of_two(unit[window < kVGroups ? window : 0] - 14))",
                "acc[window][j][2 * r + c]",
            ),
        ),
    ),
    Mutant(
        "largest-v-scale-one-step-short",
        PROMPT,
        "      warp_max<32>(largest);\n#pragma unroll\n      for (int group",
        "      warp_max<16>(largest);\n#pragma unroll\n      for (int group",
        "Each half of a warp has its own power of two for one chunk's V scales.",
        "prompt_attention/k8v4/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "unit-change-dropped",
        PROMPT,
        "const float units = power_of_two(unit[group] - e);",
        "const float units = 1.0f;",
        "A chunk with other V scales changes the accumulator's unit, not what it holds.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "unit-change-reversed",
        PROMPT,
        "const float units = power_of_two(unit[group] - e);",
        "const float units = power_of_two(e - unit[group]);",
        "A change of the accumulator's unit goes the wrong way.",
        "prompt_attention/k8v4/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "unit-of-the-first-group",
        PROMPT,
        "power_of_two(unit[window < kVGroups ? window : 0] - 14)",
        "power_of_two(unit[0] - 14)",
        "Both scale groups of a warp leave in units of the first.",
        "prompt_attention/q4_0/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "change-of-the-first-group",
        PROMPT,
        "change[window < kVGroups ? window : 0][i >> 1]",
        "change[0][i >> 1]",
        "Both scale groups of a warp are rescaled by the first one's change of unit.",
        "prompt_attention/k8v4/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "v-scales-of-another-stage",
        PROMPT,
        "v_scale.part(chunk % kStages * CELLS * kScales, CELLS * kScales)",
        "v_scale.part(0, CELLS * kScales)",
        "All chunks keep their V scales in the first stage.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of scales and units."""
    yield from _FAULTS
