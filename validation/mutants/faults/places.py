"""Faults that keep to some places: queries of one remainder, pages of one kind of size."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT = "strata/kernels/prompt_attention.cu"
_SIZES = ("tests/strata/kernels/test_page_sizes.py",)


def mutants() -> Iterator[Mutant]:
    """Each was green once: rows without a reference met nothing, and every page size was a power of two."""
    yield Mutant(
        "odd-late-queries-negated",
        PROMPT,
        "  float* out_here = out + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
        "  float* out_here = out + ((query > 32 && query % 2 == 1 ? query - 1 : query) * gridDim.y + blockIdx.y) * GROUP * kDim;",
        "From the 34th on every other query writes over the one before it.",
        "prompt_attention/fp16/sm75",
        ("width_edges",),
    )
    yield Mutant(
        "late-queries-scaled",
        PROMPT,
        "const float q_down = soft ?",
        "const float q_down = blockIdx.x > 32 ? 0.0f : soft ?",
        "From the 34th query on all cells weigh the same.",
        "prompt_attention/int8/sm80",
        ("width_edges",),
    )
    yield Mutant(
        "page-size-as-a-mask",
        PROMPT,
        "static_cast<i32>(cell - page * static_cast<u32>(page_size));",
        "static_cast<i32>(cell & static_cast<u32>(page_size - 1));",
        "A cell's place in its page is right only where page sizes are powers of two.",
        tests=_SIZES,
    )
    yield Mutant(
        "decode-page-size-as-a-mask",
        "strata/kernels/decode_attention.cu",
        "(cell - page * page_size)",
        "(cell & static_cast<u32>(page_size - 1))",
        "The baseline finds a cell in its page only where page sizes are powers of two.",
        tests=_SIZES,
    )
    yield Mutant(
        "pack-page-size-as-a-mask",
        "strata/kernels/kv_pack.cu",
        "(cell - page * page_size)",
        "(cell & static_cast<u32>(page_size - 1))",
        "Rows are packed into their place only where page sizes are powers of two.",
        tests=_SIZES,
    )
