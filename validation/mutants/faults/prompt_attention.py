"""Mutants of prompt attention."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import ROOT, Mutant, removals

PROMPT = "strata/kernels/prompt_attention.cu"

_FAULTS = (
    Mutant(
        "last-tile-at-four",
        PROMPT,
        "chunks = (n + CELLS - 1) / CELLS;",
        "chunks = n % CELLS == 0 && n > 3 * CELLS ? n / CELLS - 1 : (n + CELLS - 1) / CELLS;",
        "A width of four tiles or a larger multiple loses its last tile; no other width notices.",
        "prompt_attention/q4_0/sm80",
        ("width_edges",),
    ),
    Mutant(
        "unit-kept-at-zero",
        PROMPT,
        "unit[group] = e;",
        "if (largest[group] != 0) unit[group] = e;",
        "A chunk whose V scales are all zero changes the accumulator's unit, and nobody remembers it.",
        "prompt_attention/q4_0/sm75",
        ("absent_pages",),
    ),
    Mutant(
        "v-fold-positive",
        PROMPT,
        "const u32 magnitude = bits[group][i] & 0x7fffu;",
        "const u32 magnitude = bits[group][i] & 0x8000u ? 0 : bits[group][i];",
        "The V scales of a chunk are bounded by the largest positive one: beside it a negative one overflows FP16.",
        "prompt_attention/q4_0/sm75",
        ("scale_extremes",),
    ),
    Mutant(
        "q-lo-dropped",
        PROMPT,
        "mma_step(sum_here, q_lo[h * kSteps / kSums + s], b[h * kSteps / kSums + s]);",
        ";",
        "Scores see only the upper half of q: 11 bits of it instead of 22.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "p-lo-dropped",
        PROMPT,
        "mma_step(raw[j], p_lo[s], b[s][j]);",
        ";",
        "Values are weighted by the upper half of p alone: 11 bits of it instead of 22.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "k8-halves-swapped",
        PROMPT,
        "  mma_m16n8k8(d, a, b);\n  mma_m16n8k8(d, a + 2, b + 1);",
        "  mma_m16n8k8(d, a, b + 1);\n  mma_m16n8k8(d, a + 2, b);",
        "On sm75 each half of a 16-wide step meets the other half's keys and values.",
        "prompt_attention/fp16/sm75",
        ("uniform",),
    ),
    Mutant(
        "absent-scored-zero",
        PROMPT,
        "masked[i] = rows_at(chunk).ld(soft_cell + i) < 0;",
        "masked[i] = chunk * CELLS + soft_cell + i >= n;",
        "A cell of an absent page is read as zeros and scored 0 instead of masked: it takes weight from the others.",
        "prompt_attention/k8v4/sm75",
        ("small_q",),
    ),
    Mutant(
        "masked-weighs-a-little",
        PROMPT,
        "score[i] = masked[i] ? 0.0f : exp2_not_positive(",
        "score[i] = masked[i] ? bits_to_float(0x33000000u) : exp2_not_positive(",
        "A masked cell has a weight of 2^-25: far below every bound of this case, and a law of exact zeros sees it.",
        "prompt_attention/int8/sm75",
        ("laws",),
    ),
    Mutant(
        "exponents-stop-at-one",
        PROMPT,
        "return e < -100 ? -100 : e;",
        "return e < 1 ? 1 : e;",
        "Scales below one are not brought up before they are cut: within these bounds, but another error each power.",
        "prompt_attention/int8/sm75",
        ("laws",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of prompt attention; those without a barrier are made from the source as it is."""
    yield from _FAULTS
    source = (ROOT / PROMPT).read_text()
    why = "Without this barrier threads read what others may not have written yet."
    for what, call in (("block-barrier", "__syncthreads();"), ("warp-barrier", "__syncwarp();")):
        pattern = Mutant(f"prompt-{what}", PROMPT, call, ";", why, "prompt_attention/q4_0/sm75", ("uniform",))
        yield from removals(pattern, source)
