"""Mutants of prompt attention: chunks on their way through shared memory, its layout, and the launch.

Left out, because they are no faults:
- `land` of K or V right after `start`: what it overwrites was last read before the barrier that stands there.
- A wait for every copy in place of all but one group: it waits longer.
- The order of all stages shifted alike: another name for the same places.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
HOST = "strata/kernels/prompt_attention.py"
_BARRIER = "    if (me.thread < CELLS) rows_at(chunk + kStages + 1).st(me.thread, row_ahead);\n    __syncthreads();"

_FAULTS = (
    Mutant(
        "wait-one-group-short",
        PROMPT,
        "    land_v(chunk + kStages - 1);\n#if TIER >= 80\n    cp_async_wait<1>();",
        "    land_v(chunk + kStages - 1);\n#if TIER >= 80\n    cp_async_wait<2>();",
        "A chunk is used while its copies are still on their way.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "first-wait-one-group-short",
        PROMPT,
        "#if TIER >= 80\n  cp_async_wait<1>();",
        "#if TIER >= 80\n  cp_async_wait<2>();",
        "The first chunk of K is used while its copies are still on their way.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "commit-omitted",
        PROMPT,
        "    start_v(chunk + kStages - 1);\n#if TIER >= 80\n    cp_async_commit();\n#endif",
        "    start_v(chunk + kStages - 1);",
        "Copies of the loop never become a group that could be waited for.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "v-not-landed",
        PROMPT,
        "    land_v(chunk + kStages - 1);\n",
        "",
        "Without asynchronous copies nobody brings V to shared memory.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-not-landed",
        PROMPT,
        "    land_k(chunk + kStages);\n",
        "",
        "Without asynchronous copies K of the first chunk serves for all.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "v-landed-after-barrier",
        PROMPT,
        "    land_v(chunk + kStages - 1);\n#if TIER >= 80\n    cp_async_wait<1>();\n#endif\n    __syncthreads();",
        "#if TIER >= 80\n    cp_async_wait<1>();\n#endif\n    __syncthreads();\n    land_v(chunk + kStages - 1);",
        "V reaches shared memory after the barrier that its readers wait at.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "k-started-before-barrier",
        PROMPT,
        _BARRIER + "\n\n    start_k(chunk + kStages);",
        "    start_k(chunk + kStages);\n" + _BARRIER,
        "Copies of K overwrite a chunk that other warps still read.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "barrier-under-a-branch",
        PROMPT,
        _BARRIER,
        _BARRIER.replace("__syncthreads();", "if (soft) __syncthreads();"),
        "Warps without a head pass the barrier before the softmax.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "v-one-chunk-ahead",
        PROMPT,
        "start_v(chunk + kStages - 1);",
        "start_v(chunk + kStages);",
        "V of the next chunk lands where that of this one is read.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
        also=(Edit(PROMPT, "    land_v(chunk + kStages - 1);\n#if", "    land_v(chunk + kStages);\n#if"),),
    ),
    Mutant(
        "keys-of-another-stage",
        PROMPT,
        "const Shared<u8> keys = k_at(chunk);",
        "const Shared<u8> keys = k_at(chunk + 1);",
        "Scores are made of the keys of the next chunk.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "v-in-one-stage",
        PROMPT,
        "v.part(chunk % kStages * CELLS * kVRow, CELLS * kVRow)",
        "v.part(0, CELLS * kVRow)",
        "All chunks of V go through the first stage while others are read there.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "rows-of-too-few-chunks",
        PROMPT,
        "i < (kStages + 1) * CELLS; i += kThreads) row.st(",
        "i < kStages * CELLS; i += kThreads) row.st(",
        "The rows of one chunk are never looked up.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "ninth-piece-not-brought",
        PROMPT,
        "return pieces % 4 == 0 || j < each - 1 || (me.thread & 3) < pieces % 4;",
        "return pieces % 4 == 0 || j < each - 1;",
        "The last 16 bytes of a row of 4-bit blocks stay where they are.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "padding-on-load-alone",
        PROMPT,
        "to.template st<uint4>((turn * 32 + (me.thread >> 2)) * SharedRow<FORMAT>::bytes",
        "to.template st<uint4>((turn * 32 + (me.thread >> 2)) * Format<FORMAT>::row_bytes",
        "Rows are stored without the padding with which they are read.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "score-padding-on-store-alone",
        PROMPT,
        "part.ld<float4>((w * kRows + soft_row) * kScoreRow + soft_cell + i)",
        "part.ld<float4>((w * kRows + soft_row) * CELLS + soft_cell + i)",
        "Shares of scores are read without the padding with which they are stored.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "fold-over-rows",
        PROMPT,
        "kWarps * kVGroups * CELLS * 4);\n  static constexpr int alpha",
        "kWarps * CELLS * 4);\n  static constexpr int alpha",
        "Folded scales of the second group lie over the rows of the pool.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
        also=(Edit(HOST, "WARPS * (2 if v.code == 2 else 1) * cells * 4", "WARPS * cells * 4"),),
    ),
    Mutant(
        "spare-rows-not-zeroed",
        PROMPT,
        "  for (int i = GROUP * kScoreRow + me.thread; i < kRows * kScoreRow; i += kThreads) weight.st(i, 0.0f);\n",
        "",
        "The rows of the tile that no head has hold whatever was in memory.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "spare-alphas-not-zeroed",
        PROMPT,
        "  if (me.thread >= GROUP && me.thread < kRows) alpha.st(me.thread, 0.0f);\n",
        "",
        "The spare rows of the tile are rescaled by whatever was in memory.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "second-half-of-warps-over-first",
        PROMPT,
        "part.part(me.warp * kRows * kScoreRow, kRows * kScoreRow)",
        "part.part((me.warp & 1) * kRows * kScoreRow, kRows * kScoreRow)",
        "Two warps leave their shares of the scores in the same place.",
        "prompt_attention/fp16/sm80",
        ("uniform",),
    ),
    Mutant(
        "grid-axes-exchanged",
        HOST,
        "(inputs.queries, inputs.kv_heads, 1)",
        "(inputs.kv_heads, inputs.queries, 1)",
        "The launch counts queries where the kernel counts KV heads.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "last-query-not-launched",
        HOST,
        "(inputs.queries, inputs.kv_heads, 1)",
        "(max(inputs.queries - 1, 1), inputs.kv_heads, 1)",
        "The launch has one query too few.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "cap-and-page-size-exchanged",
        HOST,
        "np.int32(inputs.cap), np.int32(inputs.page_size),",
        "np.int32(inputs.page_size), np.int32(inputs.cap),",
        "The row stride of the lists is given as page size and the page size as stride.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "planes-exchanged",
        HOST,
        "pool.k, pool.k_scale, pool.v, pool.v_scale,",
        "pool.v, pool.v_scale, pool.k, pool.k_scale,",
        "V is given as K and K as V.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "group-always-twelve",
        HOST,
        '("GROUP", group),',
        '("GROUP", 12),',
        "Every launch runs the kernel for 12 query heads a KV head.",
        "prompt_attention/int8/sm80",
        ("signed_decades",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of staging, shared memory and the launch."""
    yield from _FAULTS
