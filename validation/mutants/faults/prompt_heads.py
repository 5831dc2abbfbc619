"""Mutants of prompt attention: heads, as rows of a tile and in memory, and the power of two that each q gets.

Left out, because they are no faults:
- The largest |q| taken over values that are not finite too: such a head gives NaN or infinity anyway.
- exponent_of one higher: values lie below 2^13 instead of 2^14, which hi and lo still hold to 22 bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

PROMPT = "strata/kernels/prompt_attention.cu"

_FAULTS = (
    Mutant(
        "alpha-of-the-first-row",
        PROMPT,
        "const float shrink[2] = {alpha.ld(me.g), alpha.ld(me.g + 8)};",
        "const float shrink[2] = {alpha.ld(me.g), alpha.ld(me.g)};",
        "Heads from 8 on are rescaled by the alpha of a head 8 before.",
        "prompt_attention/int8/sm75",
        ("climbing",),
    ),
    Mutant(
        "last-heads-without-softmax",
        PROMPT,
        "const bool soft = soft_row < GROUP;",
        "const bool soft = soft_row < GROUP && soft_row < 8;",
        "Heads from 8 on get no weights.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "one-exponent-for-all-heads",
        PROMPT,
        "const float up = power_of_two(14 - exponent.ld(head));",
        "const float up = power_of_two(14 - exponent.ld(0));",
        "Every head is scaled by the power of two of the first: a louder one overflows FP16.",
        "prompt_attention/q4_0/sm80",
        ("outlier_head",),
        also=(Edit(PROMPT, "power_of_two(exponent.ld(soft_row) - 14)", "power_of_two(exponent.ld(0) - 14)"),),
    ),
    Mutant(
        "q-scaled-down-by-the-wrong-row",
        PROMPT,
        "power_of_two(exponent.ld(soft_row) - 14)",
        "power_of_two(exponent.ld(me.warp) - 14)",
        "A head's scores are brought back by the power of two of another head.",
        "prompt_attention/fp16/sm75",
        ("outlier_head",),
    ),
    Mutant(
        "q-scaled-up-by-the-wrong-row",
        PROMPT,
        "const float up = power_of_two(14 - exponent.ld(head));",
        "const float up = power_of_two(14 - exponent.ld(me.g));",
        "Heads from 8 on are raised by the power of two of a head 8 before.",
        "prompt_attention/int8/sm75",
        ("outlier_head",),
    ),
    Mutant(
        "exponent-of-half-a-head",
        PROMPT,
        "for (int j = 0; j < kDim / 128; ++j) {",
        "for (int j = 0; j < 1; ++j) {",
        "The largest |q| is looked for in the first half of a head.",
        "prompt_attention/k8v4/sm80",
        ("outliers",),
    ),
    Mutant(
        "q-exponent-one-step-short",
        PROMPT,
        "    warp_max<32>(largest);\n    if (me.lane == 0)",
        "    warp_max<16>(largest);\n    if (me.lane == 0)",
        "The largest |q| is looked for by half of a warp.",
        "prompt_attention/q4_0/sm75",
        ("outliers",),
    ),
    Mutant(
        "q-exponent-of-positive",
        PROMPT,
        "{x.x & 0x7fffffffu, x.y & 0x7fffffffu, x.z & 0x7fffffffu, x.w & 0x7fffffffu}",
        "{x.x, x.y, x.z, x.w}",
        "Only positive elements of q are measured: beside them a large negative one overflows FP16.",
        "prompt_attention/fp16/sm80",
        ("outliers",),
    ),
    Mutant(
        "tiny-exponents-unbounded",
        PROMPT,
        "return e < -100 ? -100 : e;",
        "return e;",
        "A q near 2^-115 is raised by 2^128, which is infinity.",
        "prompt_attention/int8/sm75",
        ("tiny_q",),
    ),
    Mutant(
        "weights-of-the-first-rows",
        PROMPT,
        "weight.ld<float2>((me.g + 8 * r) * kScoreRow + cell);",
        "weight.ld<float2>(me.g * kScoreRow + cell);",
        "Heads from 8 on take the weights of a head 8 before.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "scores-of-the-first-rows",
        PROMPT,
        "float2{score[2], score[3]});",
        "float2{score[0], score[1]});",
        "Heads from 8 on take the scores of a head 8 before.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "sum-of-the-first-rows",
        PROMPT,
        "const float whole = sum.ld(head);",
        "const float whole = sum.ld(me.g);",
        "Heads from 8 on are divided by the sum of a head 8 before.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "heads-by-modulo",
        PROMPT,
        "q_here = q + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
        "q_here = q + (query * gridDim.y * GROUP + blockIdx.y) * kDim;",
        "KV head j serves the query heads that are j modulo their number, and writes them as its own.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
        also=(
            Edit(
                PROMPT, "q_here + (me.warp + i * kWarps) * kDim", "q_here + (me.warp + i * kWarps) * gridDim.y * kDim"
            ),
            Edit(PROMPT, "q_here + head * kDim", "q_here + head * gridDim.y * kDim"),
            Edit(
                PROMPT,
                "out_here = out + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
                "out_here = out + (query * gridDim.y * GROUP + blockIdx.y) * kDim;",
            ),
            Edit(PROMPT, "out_here + head * kDim", "out_here + head * gridDim.y * kDim"),
        ),
    ),
    Mutant(
        "heads-by-power-of-two",
        PROMPT,
        "q_here = q + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
        "q_here = q + (query * gridDim.y * GROUP + blockIdx.y * (GROUP > 8 ? 16 : GROUP)) * kDim;",
        "The query heads of a KV head are counted by the next power of two.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "output-by-kv-head",
        PROMPT,
        "out_here = out + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
        "out_here = out + (static_cast<i64>(blockIdx.y) * gridDim.x + query) * GROUP * kDim;",
        "Outputs are laid down by KV head and then query.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "output-row-of-eight-before",
        PROMPT,
        "__fmul_rn(acc[window][j][2 * r + c],",
        "__fmul_rn(acc[window][j][c],",
        "Heads from 8 on leave with the values of a head 8 before.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "last-heads-not-written",
        PROMPT,
        "    if (head >= GROUP) continue;\n    const float whole",
        "    if (head >= GROUP - 1) continue;\n    const float whole",
        "The last head of every group keeps what the output held before.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of heads and of the scaling of q."""
    yield from _FAULTS
