"""Mutants of prompt attention: matrix fragments, their halves and accumulators.

Left out: the CUDA bodies of include/ptx.cuh and include/vocabulary.cuh, which lanes replace by their own and so
cannot show.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

PROMPT = "strata/kernels/prompt_attention.cu"

_FAULTS = (
    Mutant(
        "k8-second-half-of-a",
        PROMPT,
        "mma_m16n8k8(d, a + 2, b + 1);",
        "mma_m16n8k8(d, a, b + 1);",
        "On sm75 the second half of a step meets the first half of q or p.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "k8-second-half-dropped",
        PROMPT,
        "  mma_m16n8k8(d, a + 2, b + 1);\n",
        "",
        "On sm75 only half of each 16-wide step is added.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "q-registers-row-last",
        PROMPT,
        "split(__fmul_rn(x.x, up), __fmul_rn(x.y, up), q_hi[s][r + 2 * half], q_lo[s][r + 2 * half]);",
        "split(__fmul_rn(x.x, up), __fmul_rn(x.y, up), q_hi[s][2 * r + half], q_lo[s][2 * r + half]);",
        "The registers of a q fragment are filled by row and then half, not by half and then row.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
        also=(
            Edit(
                PROMPT,
                "q_hi[s][r + 2 * half] = q_lo[s][r + 2 * half] = 0;",
                "q_hi[s][2 * r + half] = q_lo[s][2 * r + half] = 0;",
            ),
        ),
    ),
    Mutant(
        "p-registers-row-last",
        PROMPT,
        "p_hi[s][r + 2 * half], p_lo[s][r + 2 * half]",
        "p_hi[s][2 * r + half], p_lo[s][2 * r + half]",
        "The registers of a p fragment are filled by row and then half, not by half and then row.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "second-sum-not-cleared",
        PROMPT,
        "            for (int i = 0; i < 4; ++i) sum_here[i] = 0.0f;",
        "            for (int i = 0; i < 4; ++i) sum_here[i] = 0.0f;\n"
        "            if (half == 1 && h == 0) mma_join();   // what the first 8 cells left is there\n"
        "            if (half == 1)\n"
        "              for (int i = 0; i < 4; ++i) sum_here[i] = raw[0][h][i];",
        "The accumulators of the second 8 cells start from where those of the first stand.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "values-not-cleared-between-windows",
        PROMPT,
        "        float raw[4][4];\n        u32 b[2][4][2];",
        "        u32 b[2][4][2];",
        "The second 32 dims of a warp start from the sums of the first.",
        "prompt_attention/int8/sm80",
        ("uniform",),
        also=(
            Edit(PROMPT, "u32 p_hi[2][4], p_lo[2][4];", "u32 p_hi[2][4], p_lo[2][4];\n      float raw[4][4] = {};"),
            Edit(
                PROMPT,
                "for (int i = 0; i < 4; ++i) raw[j][i] = 0.0f;",
                "for (int i = 0; i < 4; ++i) raw[j][i] = window == 0 ? 0.0f : raw[j][i];",
            ),
        ),
    ),
    Mutant(
        "accumulator-added-for-one-window",
        PROMPT,
        "float& here = acc[window][j][i];",
        "float& here = acc[0][j][i];",
        "Both windows of a warp's dims share one accumulator.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "key-matrix-pinned",
        PROMPT,
        "me.warp * 128 + i * 64 + (me.lane >> 3) * 16);",
        "me.warp * 128 + i * 64 + (me.lane >> 4) * 32);",
        "The second of two matrices of keys repeats the first.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "value-row-offset-pinned",
        PROMPT,
        "(first_cell + (me.lane & 15)) * kVRow",
        "(first_cell + (me.lane & 7)) * kVRow",
        "The second matrix of values takes the rows of the first 8 cells again.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "values-not-transposed",
        PROMPT,
        "ldmatrix_x4<true>(r, v,",
        "ldmatrix_x4<false>(r, v,",
        "Values are loaded as keys are: cells and dims exchanged.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of fragments."""
    yield from _FAULTS
