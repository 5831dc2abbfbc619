"""Mutants of prompt attention: codes as halves, and the order of dims that each format brings."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
FORMAT = "strata/kernels/include/kv_format.cuh"

_FAULTS = (
    Mutant(
        "slots-in-natural-order",
        PROMPT,
        "16 * step + (K_FORMAT == FORMAT_INT8 ? 4 * t + 2 * half : 2 * t + 8 * half);",
        "16 * step + (2 * t + 8 * half);",
        "q follows the natural order where INT8 keys come four neighbouring bytes a thread.",
        "prompt_attention/int8/sm75",
        ("uniform",),
    ),
    Mutant(
        "slots-by-format-of-v",
        PROMPT,
        "16 * step + (K_FORMAT == FORMAT_INT8 ?",
        "16 * step + (V_FORMAT == FORMAT_INT8 ?",
        "The order of q follows the format of V, which only K8V4 has different from that of K.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "window-by-format-of-k",
        PROMPT,
        "         : V_FORMAT == FORMAT_INT8 ? 4 * column + tile",
        "         : K_FORMAT == FORMAT_INT8 ? 4 * column + tile",
        "The order of outputs follows the format of K, which only K8V4 has different from that of V.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "window-in-natural-order",
        PROMPT,
        ": V_FORMAT == FORMAT_INT8 ? 4 * column + tile",
        ": V_FORMAT == FORMAT_INT8 ? 8 * tile + column",
        "Outputs of INT8 values leave as if a tile held 8 neighbouring dims.",
        "prompt_attention/int8/sm80",
        ("uniform",),
    ),
    Mutant(
        "window-halves-interleaved",
        PROMPT,
        "2 * column + (tile & 1) + 16 * (tile >> 1);",
        "2 * column + (tile >> 1) + 16 * (tile & 1);",
        "Outputs of 4-bit values leave with low and high nibbles as neighbours.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "key-bytes-of-another-row",
        PROMPT,
        "kKRow + me.warp * 64 + (me.lane >> 3) * 16);",
        "kKRow + me.warp * 64 + (me.lane & 3) * 16);",
        "The rows of INT8 matrices start at pieces that follow the row, not the matrix.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "cells-of-a-pair-exchanged",
        PROMPT,
        "low = byte_select<0x5140>(x, y)",
        "low = byte_select<0x1504>(x, y)",
        "Two neighbouring cells exchange half of their INT8 values.",
        "prompt_attention/int8/sm75",
        ("signed_decades",),
    ),
    Mutant(
        "int8-unsigned",
        PROMPT,
        "const u32 biased = r[s] ^ 0x80808080u;",
        "const u32 biased = r[s];",
        "INT8 keys lose their sign: 0 becomes -128.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "int8-one-cell-unsigned",
        PROMPT,
        "y = v.ld<u32>(at + kVRow) ^ 0x80808080u;",
        "y = v.ld<u32>(at + kVRow);",
        "INT8 values of every second cell lose their sign.",
        "prompt_attention/int8/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "int8-lowest-code-clamped",
        FORMAT,
        "return half2_sub(raised, 0x64806480u);",
        "return half2_sub((raised & 0xffu) == 0 ? raised | 1u : raised, 0x64806480u);",
        "The code -128 of one byte in two counts as -127.",
        "prompt_attention/k8v4/sm80",
        ("signed_decades", "uniform"),
    ),
    Mutant(
        "nibble-zero-at-seven",
        FORMAT,
        "0x64006400u), 0x64086408u);",
        "0x64006400u), 0x64076407u);",
        "Low nibbles stand for their code less 7.",
        "prompt_attention/q4_0/sm75",
        ("flat", "uniform"),
    ),
    Mutant(
        "nibble-zero-in-one-half",
        FORMAT,
        "0x64006400u), 0x64086408u);",
        "0x64006400u), 0x64086400u);",
        "Of two low nibbles one is taken as unsigned.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "high-nibble-zero-at-nine",
        FORMAT,
        "0x2c002c00u, 0xd480d480u);",
        "0x2c002c00u, 0xd490d490u);",
        "High nibbles stand for their code less 9.",
        "prompt_attention/q4_0/sm80",
        ("uniform",),
    ),
    Mutant(
        "key-nibbles-exchanged",
        PROMPT,
        "b[2 * block][half] = nibble_halves<false>(apart);\n"
        "        b[2 * block + 1][half] = nibble_halves<true>(apart);",
        "b[2 * block][half] = nibble_halves<true>(apart);\n"
        "        b[2 * block + 1][half] = nibble_halves<false>(apart);",
        "High nibbles of a key are its first 16 dims of 32.",
        "prompt_attention/q4_0/sm75",
        ("uniform",),
    ),
    Mutant(
        "key-nibbles-as-neighbours",
        PROMPT,
        "const u32 apart = byte_select<0x4140>(two, 0);",
        "const u32 apart = byte_select<0x4041>(two, 0);",
        "Two neighbouring dims of a 4-bit key are exchanged.",
        "prompt_attention/q4_0/sm80",
        ("signed_decades",),
    ),
    Mutant(
        "value-nibbles-exchanged",
        PROMPT,
        "b[1][half] = nibble_halves<false>(both >> 8), b[3][half] = nibble_halves<true>(both >> 8);",
        "b[1][half] = nibble_halves<true>(both >> 8), b[3][half] = nibble_halves<false>(both >> 8);",
        "In every second byte of a 4-bit value low and high nibble are exchanged.",
        "prompt_attention/k8v4/sm75",
        ("signed_decades",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of codes and the order of dims."""
    yield from _FAULTS
