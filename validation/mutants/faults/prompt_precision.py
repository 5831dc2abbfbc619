"""Mutants of prompt attention that lose bits and little else; checks with wide tolerances pass most of them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT = "strata/kernels/prompt_attention.cu"

_FAULTS = (
    Mutant(
        "alpha-rounded-to-half",
        PROMPT,
        "if ((me.thread & 7) == 0) alpha.st(soft_row, shrink);",
        "if ((me.thread & 7) == 0) alpha.st(soft_row, half_value(half_bits(shrink)));",
        "The accumulator is rescaled by alpha to 11 bits, the sum by all of it.",
        "prompt_attention/fp16/sm75",
        ("climbing",),
    ),
    Mutant(
        "log2e-off-by-a-ten-thousandth",
        PROMPT,
        "bits_to_float(0x3db8aa3bu)",
        "bits_to_float(0x3db8aef5u)",
        "log2(e) is wrong in its fourth digit.",
        "prompt_attention/int8/sm75",
        ("climbing", "signed_decades"),
    ),
    Mutant(
        "log2e-as-a-half",
        PROMPT,
        "bits_to_float(0x3db8aa3bu)",
        "half_value(half_bits(bits_to_float(0x3db8aa3bu)))",
        "log2(e) / 16 is kept to 11 bits.",
        "prompt_attention/q4_0/sm75",
        ("climbing", "signed_decades"),
    ),
    Mutant(
        "log2e-last-bits",
        PROMPT,
        "bits_to_float(0x3db8aa3bu)",
        "bits_to_float(0x3db8aa4bu)",
        "log2(e) is wrong by 16 units of its last place.",
        "prompt_attention/int8/sm80",
        ("climbing", "signed_decades"),
    ),
    Mutant(
        "exponents-rounded-to-half",
        PROMPT,
        "exp2_not_positive(__fmul_rn(__fsub_rn(score[i], maximum), q_down));",
        "exp2_not_positive(half_value(half_bits(__fmul_rn(__fsub_rn(score[i], maximum), q_down))));",
        "The difference of two scores is rounded to 11 bits before exp2.",
        "prompt_attention/k8v4/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "shares-rounded-to-half",
        PROMPT,
        "score[i + 3] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].w, share[1].w), share[2].w), share[3].w);\n      }",
        "score[i + 3] = __fadd_rn(__fadd_rn(__fadd_rn(share[0].w, share[1].w), share[2].w), share[3].w);\n      }\n"
        "#pragma unroll\n"
        "      for (int i = 0; i < kEach; ++i)\n"
        "        score[i] = __fmul_rn(half_value(half_bits(__fmul_rn(score[i], power_of_two(-20)))), "
        "power_of_two(20));",
        "Scores are kept as halves before they are scaled and masked.",
        "prompt_attention/fp16/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "weights-kept-as-halves",
        PROMPT,
        "float4{score[i], score[i + 1], score[i + 2], score[i + 3]}",
        "float4{half_value(half_bits(score[i])), half_value(half_bits(score[i + 1])), "
        "half_value(half_bits(score[i + 2])), half_value(half_bits(score[i + 3]))}",
        "Weights reach the values rounded to 11 bits, the sum all of them.",
        "prompt_attention/fp16/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "sum-of-rounded-weights",
        PROMPT,
        "here[0] = __fadd_rn(here[0], score[i]);",
        "here[0] = __fadd_rn(here[0], half_value(half_bits(score[i])));",
        "The sum is made of weights rounded to 11 bits, and the values meet all of them.",
        "prompt_attention/q4_0/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "q-lo-of-the-first-sum",
        PROMPT,
        "mma_step(sum_here, q_lo[h * kSteps / kSums + s],",
        "mma_step(sum_here, q_lo[s],",
        "The second 32 dims of a warp meet the lower halves of the first 32.",
        "prompt_attention/fp16/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "p-lo-of-the-first-cells",
        PROMPT,
        "mma_step(raw[j], p_lo[s], b[s][j]);",
        "mma_step(raw[j], p_lo[0], b[s][j]);",
        "16 cells of 32 are weighted with the lower halves of the other 16.",
        "prompt_attention/k8v4/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "lo-of-the-wrong-half",
        PROMPT,
        "__fsub_rn(y, half_value(static_cast<u16>(hi >> 16)))",
        "__fsub_rn(y, half_value(static_cast<u16>(hi)))",
        "The second of two lower halves is what the first upper half leaves of it.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "lo-of-even-slots-alone",
        PROMPT,
        "__fsub_rn(y, half_value(static_cast<u16>(hi >> 16)))",
        "0.0f",
        "Every second value is split into an upper half and nothing.",
        "prompt_attention/fp16/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "q-lo-of-eight-heads",
        PROMPT,
        "q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);\n      }\n    }",
        "q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);\n"
        "        if (r == 1) q_lo[s][r + 2 * half] = 0;\n      }\n    }",
        "Heads from 8 on have no lower half of q.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "p-lo-of-half-a-chunk",
        PROMPT,
        "mma_step(raw[j], p_lo[s], b[s][j]);",
        "if (first == 0) mma_step(raw[j], p_lo[s], b[s][j]);",
        "In a chunk of 64 cells the last 32 are weighted by the upper half of p alone.",
        "prompt_attention/q4_0/sm75",
        ("signed_decades",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of precision."""
    yield from _FAULTS
