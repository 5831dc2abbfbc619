"""Mutants of the KV cell formats: conversions that prompt attention uses, and sizes that all kernels share."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.faults.decode_attention import DECODE
from validation.mutants.faults.kv_pack import PACK
from validation.mutants.mutant import Edit, Mutant

FORMATS = "strata/kernels/include/kv_format.cuh"


def _fault(name: str, old: str, new: str, why: str, paths: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"format-{name}", FORMATS, old, new, why, paths, recipes, also)


_FAULTS = (
    _fault(
        "int8-bias",
        "half2_sub(raised, 0x64806480u)",
        "half2_sub(raised, 0x64816481u)",
        "1153 is taken off an INT8 code, so that every value is one step low.",
        "prompt_attention/int8/sm80",
        "uniform",
    ),
    _fault(
        "int8-bias-high-lane",
        "half2_sub(raised, 0x64806480u)",
        "half2_sub(raised, 0x64800480u)",
        "Every second INT8 code keeps the 1152 that it was raised by.",
        "prompt_attention/k8v4/sm75",
        "uniform",
    ),
    _fault(
        "int8-halves-swapped",
        "HIGH ? 0x4342 : 0x4140",
        "HIGH ? 0x4140 : 0x4342",
        "The upper and the lower two of four INT8 codes change places.",
        "prompt_attention/int8/sm80",
        "signed_decades",
    ),
    _fault(
        "int8-pair-crossed",
        "HIGH ? 0x4342 : 0x4140",
        "HIGH ? 0x4243 : 0x4140",
        "The third and the fourth of four INT8 codes are built from the wrong bytes.",
        "prompt_attention/k8v4/sm75",
        "uniform",
    ),
    _fault(
        "nibble-halves-swapped",
        "  if (HIGH) return half2_fma",
        "  if (!HIGH) return half2_fma",
        "Low nibbles are read for high ones, on the reader's side alone.",
        "prompt_attention/q4_0/sm75",
        "uniform",
    ),
    _fault(
        "high-nibble-doubled",
        "0x2c002c00u, 0xd480d480u);",
        "0x30003000u, 0xd880d880u);",
        "High nibbles are divided by 8, not by 16, and their bias with them: twice their value.",
        "prompt_attention/q4_0/sm75",
        "uniform",
    ),
    _fault(
        "high-nibble-bias-sign",
        "0x2c002c00u, 0xd480d480u);",
        "0x2c002c00u, 0x54805480u);",
        "72 is added to a high nibble where it should be taken off.",
        "prompt_attention/q4_0/sm75",
        "uniform",
    ),
    _fault(
        "high-nibble-middle",
        "0x2c002c00u, 0xd480d480u);",
        "0x2c002c00u, 0xd488d488u);",
        "High nibbles are centred on 8.5 as in the packer's rounding, and low ones on 8.",
        "prompt_attention/q4_0/sm75",
        "flat",
    ),
    _fault(
        "high-nibble-mask",
        "bits_and_or<0x00f000f0u>",
        "bits_and_or<0x00ff00ffu>",
        "High nibbles keep the low ones behind the point, as sixteenths.",
        "prompt_attention/q4_0/sm75",
        "flat",
    ),
    _fault(
        "low-nibble-zero",
        "half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64086408u)",
        "half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64076407u)",
        "The zero of low nibbles is 7.",
        "prompt_attention/q4_0/sm75",
        "uniform",
    ),
    _fault(
        "nibbles-swapped-everywhere",
        "  if (HIGH) return half2_fma",
        "  if (!HIGH) return half2_fma",
        "Writer and readers agree that low nibbles come last: no round trip notices, every other Q4_0 reader does.",
        "kv_pack/q4_0/simt",
        "pack_bell",
        also=(
            Edit(DECODE, "const int shift = lane % 4 / 2 * 4;", "const int shift = 4 - lane % 4 / 2 * 4;"),
            Edit(DECODE, "two >> (dim % 32 / 16 * 4) & 15", "two >> (4 - dim % 32 / 16 * 4) & 15"),
            Edit(
                PACK,
                "bytes[i % 4] = i < 4 ? static_cast<u32>(code) : bytes[i % 4] | static_cast<u32>(code) << 4;",
                "bytes[i % 4] = i < 4 ? static_cast<u32>(code) << 4 : bytes[i % 4] | static_cast<u32>(code);",
            ),
        ),
    ),
    _fault(
        "q4-zero-everywhere",
        "half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64086408u)",
        "half2_sub(bits_and_or<0x000f000fu>(w, 0x64006400u), 0x64076407u)",
        "Writer and readers agree on a zero of 7 in place of 8: no round trip notices, every other Q4_0 reader does.",
        "kv_pack/q4_0/simt",
        "pack_bell",
        also=(
            Edit(FORMATS, "0x2c002c00u, 0xd480d480u);", "0x2c002c00u, 0xd470d470u);"),
            Edit(DECODE, "static_cast<int>(code >> shift & 15) - 8;\n", "static_cast<int>(code >> shift & 15) - 7;\n"),
            Edit(DECODE, "& 15) - 8);", "& 15) - 7);"),
            Edit(PACK, "__fmul_rn(v[i], inverse), 8.5f)", "__fmul_rn(v[i], inverse), 7.5f)"),
            Edit(PACK, "__fdiv_rn(extreme, -8.0f)", "__fdiv_rn(extreme, -7.0f)"),
        ),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the formats."""
    yield from _FAULTS
