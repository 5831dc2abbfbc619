"""Mutants of prompt attention: which cells a query sees, and where the pool keeps them.

Left out, because they are no faults or cannot be shown here:
- One chunk more than the width needs: all its cells are masked, alpha is 1, and the bits stay.
- `physical == -1` for `physical < 0`: the host lets no other negative page in.
- 32-bit byte offsets: they need a pool beyond 2 GiB in one buffer, which lanes would have to fill.
- Masked rows of K that are loaded and not cleared: their scores are replaced before anything reads them.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

PROMPT = "strata/kernels/prompt_attention.cu"

_FAULTS = (
    Mutant(
        "width-one-more",
        PROMPT,
        "if (i >= n) return -1;",
        "if (i > n) return -1;",
        "The id behind the width is followed, wherever the last chunk is not full.",
        "prompt_attention/fp16/sm80",
        ("flat",),
    ),
    Mutant(
        "width-one-less",
        PROMPT,
        "if (i >= n) return -1;",
        "if (i >= n - 1) return -1;",
        "The last cell of every list is masked.",
        "prompt_attention/k8v4/sm80",
        ("flat",),
    ),
    Mutant(
        "last-tile-dropped",
        PROMPT,
        "chunks = (n + CELLS - 1) / CELLS;",
        "chunks = n / CELLS;",
        "Cells of a chunk that is not full are never looked at.",
        "prompt_attention/fp16/sm75",
        ("flat", "width_edges"),
    ),
    Mutant(
        "tail-clamped-not-masked",
        PROMPT,
        "if (i >= n) return -1;",
        "if (n == 0) return -1;\n  if (i >= n) i = n - 1;",
        "The free places of the last chunk repeat the last cell, which then counts many times.",
        "prompt_attention/int8/sm80",
        ("flat",),
    ),
    Mutant(
        "tail-mask-by-pages",
        PROMPT,
        "if (i >= n) return -1;",
        "if (i >= (n + 3) / 4 * 4) return -1;",
        "The end of a list is rounded up to the next multiple of four cells.",
        "prompt_attention/q4_0/sm75",
        ("flat",),
    ),
    Mutant(
        "ids-read-before-mask",
        PROMPT,
        "  if (i >= n) return -1;\n  const u32 cell = static_cast<u32>(load(ids + i)), page",
        "  const u32 cell = static_cast<u32>(load(ids + i));\n  if (i >= n) return -1;\n  const u32 page",
        "Ids are read up to the end of the chunk, past the list and at last past the buffer.",
        "prompt_attention/q4_0/sm80",
        ("width_edges",),
    ),
    Mutant(
        "table-read-one-past",
        PROMPT,
        "const i32 physical = load(table + page);",
        "const i32 physical = load(table + page), after = load(table + page + 1);\n  if (after < -1) return -1;",
        "The table entry behind the one needed is read with it, also where the table ends.",
        "prompt_attention/int8/sm75",
        ("in_order",),
    ),
    Mutant(
        "table-entry-of-next-page",
        PROMPT,
        "load(table + page);",
        "load(table + (page + (cell - page * static_cast<u32>(page_size) == static_cast<u32>(page_size) - 1 "
        "? 1 : 0)));",
        "The last cell of a page is looked for on the next one.",
        "prompt_attention/fp16/sm80",
        ("shuffled", "peaked"),
    ),
    Mutant(
        "logical-page-as-physical",
        PROMPT,
        "return (physical * static_cast<i32>(gridDim.y)",
        "return (static_cast<i32>(page) * static_cast<i32>(gridDim.y)",
        "Rows are addressed by the logical page, and the table only says what is resident.",
        "prompt_attention/q4_0/sm80",
        ("shuffled",),
    ),
    Mutant(
        "page-zero-absent",
        PROMPT,
        "if (physical < 0) return -1;",
        "if (physical <= 0) return -1;",
        "Physical page 0 counts as not resident.",
        "prompt_attention/k8v4/sm75",
        ("in_order",),
    ),
    Mutant(
        "absent-clamped-to-row-zero",
        PROMPT,
        "if (physical < 0) return -1;",
        "if (physical < 0) return 0;",
        "A cell of an absent page takes the first row of the pool.",
        "prompt_attention/int8/sm80",
        ("absent_pages",),
    ),
    Mutant(
        "in-page-offset-by-sixteen",
        PROMPT,
        "static_cast<i32>(cell - page * static_cast<u32>(page_size));",
        "static_cast<i32>(cell % static_cast<u32>(page_size < 16 ? page_size : 16));",
        "The place in a page is taken modulo 16, also where a page holds 64 cells.",
        "prompt_attention/int8/sm75",
        ("outliers", "flat", "shuffled"),
    ),
    Mutant(
        "page-stride-without-heads",
        PROMPT,
        "(physical * static_cast<i32>(gridDim.y) + static_cast<i32>(blockIdx.y)) * page_size",
        "(physical + static_cast<i32>(blockIdx.y)) * page_size",
        "The stride of a page does not count the KV heads.",
        "prompt_attention/k8v4/sm75",
        ("uniform",),
    ),
    Mutant(
        "heads-inside-cells",
        PROMPT,
        "return (physical * static_cast<i32>(gridDim.y) + static_cast<i32>(blockIdx.y)) * page_size +\n"
        "         static_cast<i32>(cell - page * static_cast<u32>(page_size));",
        "return (physical * page_size + static_cast<i32>(cell - page * static_cast<u32>(page_size))) *\n"
        "         static_cast<i32>(gridDim.y) + static_cast<i32>(blockIdx.y);",
        "Rows are looked for as page, cell, head, and kept as page, head, cell.",
        "prompt_attention/fp16/sm75",
        ("shuffled", "signed_decades"),
    ),
    Mutant(
        "width-of-visible-cells",
        PROMPT,
        "load(steps + query * 4 + 3)",
        "load(steps + query * 4 + 1)",
        "The width is taken from the cells that the query could see, not from those selected.",
        "prompt_attention/fp16/sm80",
        ("width_edges", "signed_decades"),
    ),
    Mutant(
        "width-of-first-query",
        PROMPT,
        "load(steps + query * 4 + 3)",
        "load(steps + 3)",
        "Every query has the width of the first one.",
        "prompt_attention/k8v4/sm80",
        ("flat", "width_edges"),
    ),
    Mutant(
        "ids-without-stride",
        PROMPT,
        "all_ids + query * cap;",
        "all_ids + query * load(steps + query * 4 + 3);",
        "The lists of ids are taken to lie one after another, without the row stride.",
        "prompt_attention/q4_0/sm75",
        ("width_edges",),
    ),
    Mutant(
        "ids-of-first-query",
        PROMPT,
        "all_ids + query * cap;",
        "all_ids;",
        "Every query walks the first query's list.",
        "prompt_attention/int8/sm75",
        ("width_edges", "signed_decades"),
    ),
    Mutant(
        "mask-of-next-chunk",
        PROMPT,
        "masked[i] = rows_at(chunk).ld(soft_cell + i) < 0;",
        "masked[i] = rows_at(chunk + 1).ld(soft_cell + i) < 0;",
        "Scores are masked by the rows of the next chunk.",
        "prompt_attention/q4_0/sm80",
        ("flat", "absent_pages"),
    ),
    Mutant(
        "masked-rows-loaded",
        PROMPT,
        "held[turn][j] = row < 0 ? uint4{0, 0, 0, 0} : load<uint4>(from + j * 64);",
        "held[turn][j] = load<uint4>(from + j * 64);",
        "Masked cells bring the first row of the pool, and a weight of zero does not quiet its NaN.",
        "prompt_attention/q4_0/sm75",
        ("flat",),
    ),
    Mutant(
        "masked-rows-copied",
        PROMPT,
        "from + j * 64, row >= 0);",
        "from + j * 64, true);",
        "The asynchronous copy brings the first row of the pool for masked cells, with its NaN.",
        "prompt_attention/fp16/sm80",
        ("flat",),
    ),
    Mutant(
        "masked-scales-copied",
        PROMPT,
        "cp_async<8>(to_scale, me.thread * kScales, from, row >= 0);",
        "cp_async<8>(to_scale, me.thread * kScales, from, true);",
        "Masked cells get the scales of the first row of the pool: NaN times a weight of zero.",
        "prompt_attention/int8/sm80",
        ("flat",),
    ),
    Mutant(
        "masked-scales-loaded",
        PROMPT,
        "held_scales = row < 0 ? uint2{0, 0} : load<uint2>(from);",
        "held_scales = load<uint2>(from);",
        "Without asynchronous copies masked cells get the scales of the first row of the pool.",
        "prompt_attention/int8/sm75",
        ("flat",),
    ),
    Mutant(
        "rows-one-chunk-late",
        PROMPT,
        "(chunk + kStages + 1) * CELLS + me.thread, n, page_size)",
        "(chunk + kStages) * CELLS + me.thread, n, page_size)",
        "The rows looked up ahead are those of the chunk before, so that it comes twice and others not at all.",
        "prompt_attention/k8v4/sm80",
        ("uniform",),
    ),
    Mutant(
        "half-of-a-chunk-weighed",
        PROMPT,
        "for (int first = 0; first < CELLS; first += 32) {",
        "for (int first = 0; first < 32; first += 32) {",
        "Of a chunk of 64 cells only the first 32 reach the output.",
        "prompt_attention/q4_0/sm75",
        ("flat",),
    ),
    Mutant(
        "ring-one-short",
        PROMPT,
        "constexpr int kRing = 4;",
        "constexpr int kRing = 3;",
        "The rows of a chunk are overwritten before its mask is read.",
        "prompt_attention/int8/sm80",
        ("flat",),
        also=(Edit("strata/kernels/prompt_attention.py", "RING = 4  #", "RING = 3  #"),),
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of masks, widths, lists and the page table."""
    yield from _FAULTS
