"""Mutants of the FP32 baseline.

Left out, because no bit can differ: a chunk that starts exactly at the width sent through the whole kernel (it finds
no cell and leaves the maximum and the weight sum of an empty one); an empty chunk that stores no weight sum (merge
skips it by its maximum); weights of absent cells computed like others (2^(-inf - m) is 0, and where the maximum is
-inf too merge skips the NaN); no test for the page -1 (its row is negative for every page size and head, which is how
an absent cell is marked). All of them together gave the same bits on width_edges, scale_extremes, absent_pages,
all_absent and sunk in pages of 1, 4 and 64 cells.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import ROOT, Edit, Mutant, removals

DECODE = "strata/kernels/decode_attention.cu"
FP16, INT8, K8V4, Q4_0 = (f"decode_attention/{mode}/simt" for mode in ("fp16", "int8", "k8v4", "q4_0"))


def _fault(name: str, old: str, new: str, why: str, paths: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"decode-{name}", DECODE, old, new, why, paths, recipes, also)


_CELLS = (
    _fault(
        "single-cell-chunk",
        "if (chunk * kChunk >= n)",
        "if (chunk * kChunk + 1 >= n)",
        "A chunk of one cell is taken for an empty one, so a width of one past a tile loses its last cell.",
        FP16,
        "width_edges",
    ),
    _fault(
        "one-id-more",
        "if (i < n) {",
        "if (i <= n) {",
        "One id past the width is read, where any cell may stand.",
        K8V4,
        "width_edges",
    ),
    _fault(
        "one-id-less",
        "if (i < n) {",
        "if (i + 1 < n) {",
        "The last cell of every list is left out.",
        Q4_0,
        "flat",
    ),
    _fault(
        "table-unused",
        "const i32 physical = load(table + page);",
        "const i32 physical = static_cast<i32>(page);",
        "The logical page is taken for the physical one.",
        INT8,
        "shuffled",
    ),
    _fault(
        "page-zero-absent",
        "if (physical >= 0) found",
        "if (physical > 0) found",
        "Physical page 0 is taken for an absent one.",
        Q4_0,
        "in_order",
    ),
    _fault(
        "offset-mask",
        "(cell - page * page_size);",
        "(cell & 3u);",
        "The offset in a page is that of pages of four cells, whatever their size.",
        FP16,
        "peaked",
    ),
    _fault(
        "cells-before-heads",
        "(static_cast<i64>(physical) * kv_heads + kv_head) * page_size + (cell - page * page_size)",
        "(static_cast<i64>(physical) * page_size + (cell - page * page_size)) * kv_heads + kv_head",
        "Rows are looked up as if the heads of a cell stood together, not the cells of a head.",
        INT8,
        "peaked",
    ),
    _fault(
        "row-in-16-bits",
        "row.st(thread, found);",
        "row.st(thread, found < 0 ? found : static_cast<i64>(static_cast<u16>(found)));",
        "Pool rows are kept in 16 bits: a pool of more than 65,536 rows is read in its first ones.",
        Q4_0,
        "signed_decades",
    ),
    _fault(
        "width-from-cells",
        "load(steps + query * 4 + 3)",
        "load(steps + query * 4 + 1)",
        "The number of cells is read where the number of ids stands, which are the same up to the widest list.",
        FP16,
        "signed_decades",
    ),
    _fault(
        "steps-of-first-query",
        "load(steps + query * 4 + 3)",
        "load(steps + first_query * 4 + 3)",
        "Every query of a batch takes the width of the first one.",
        INT8,
        "width_edges",
    ),
    _fault(
        "ids-of-batch",
        "load(all_ids + query * cap + i)",
        "load(all_ids + static_cast<i64>(blockIdx.z) * cap + i)",
        "From the second batch on queries read the ids of the first batch.",
        Q4_0,
        "width_edges",
    ),
    _fault(
        "q-of-batch",
        "load(q + (query * kv_heads",
        "load(q + (static_cast<i64>(blockIdx.z) * kv_heads",
        "From the second batch on queries read the q of the first batch.",
        INT8,
        "width_edges",
    ),
)

_SCORES = (
    _fault(
        "k-scale-neighbour",
        "scale = load(scales + row * 4 + lane / 8);",
        "scale = load(scales + row * 4 + (lane / 8 ^ 1));",
        "Each 64 dims of K take the scale of the 64 beside them.",
        INT8,
        "signed_decades",
    ),
    _fault(
        "k-scale-halved-groups",
        "scale = load(scales + row * 4 + lane / 8);",
        "scale = load(scales + row * 4 + lane / 16 * 2);",
        "One scale serves 128 dims of K, the one of their first half.",
        K8V4,
        "signed_decades",
    ),
    _fault(
        "k-scale-twice",
        "x[i] = __fmul_rn(__int2float_rn(value), factor);",
        "x[i] = __fmul_rn(__fmul_rn(__int2float_rn(value), factor), factor);",
        "The scale of K is applied twice.",
        Q4_0,
        "signed_decades",
    ),
    _fault(
        "k-nibbles-swapped",
        "const int shift = lane % 4 / 2 * 4;",
        "const int shift = 4 - lane % 4 / 2 * 4;",
        "Low and high nibbles of K change places, on the reader's side alone.",
        Q4_0,
        "signed_decades",
    ),
    _fault(
        "k-bytes-crossed",
        "const u8* codes = block + 2 + lane % 2 * 8;",
        "const u8* codes = block + 2 + (lane % 2 ^ 1) * 8;",
        "Elements 0..7 and 8..15 of a block of K change places, and so do 16..23 and 24..31.",
        Q4_0,
        "signed_decades",
    ),
    _fault(
        "k-zero-point",
        "static_cast<int>(code >> shift & 15) - 8;\n        x[i]",
        "static_cast<int>(code >> shift & 15) - 7;\n        x[i]",
        "The zero of Q4_0 keys is 7, so every key is off by its scale.",
        Q4_0,
        "uniform",
    ),
    _fault(
        "k-codes-unsigned",
        "K_FORMAT == FORMAT_INT8 ? static_cast<i8>(code) :",
        "K_FORMAT == FORMAT_INT8 ? static_cast<int>(code & 255) :",
        "INT8 keys are read as numbers from 0 to 255.",
        K8V4,
        "uniform",
    ),
    _fault(
        "next-row-scored",
        """    const KeyBytes key = next;
    const i64 now = here;
    here = cell + kWarps < kChunk ? row.ld(cell + kWarps) : -1;
    if (here >= 0) next.fetch(k_pool, k_scales, here, lane);
""",
        """    const i64 now = here;
    here = cell + kWarps < kChunk ? row.ld(cell + kWarps) : -1;
    if (here >= 0) next.fetch(k_pool, k_scales, here, lane);
    const KeyBytes key = next;
""",
        "The bytes that are scored are those fetched ahead for the cell eight further on.",
        INT8,
        "peaked",
    ),
    _fault(
        "fetch-past-chunk",
        "here = cell + kWarps < kChunk ? row.ld(cell + kWarps) : -1;",
        "here = row.ld(cell + kWarps);",
        "The last fetch ahead takes its row from behind the list of rows.",
        FP16,
        "uniform",
    ),
    _fault(
        "score-base-e",
        "bits_to_float(0x3db8aa3bu);   // log2(e) / sqrt(256)",
        "0.0625f;",
        "Scores are scaled for e^x, and weighed by 2^x.",
        FP16,
        "peaked",
    ),
    _fault(
        "score-in-half",
        "    warp_add<32>(dot);\n",
        """    warp_add<32>(dot);
#pragma unroll
    for (int h = 0; h < GROUP; ++h) dot[h] = half_value(half_bits(dot[h]));
""",
        "Scores are rounded to half precision before they are scaled.",
        INT8,
        "peaked",
    ),
    _fault(
        "score-butterfly-short",
        "    warp_add<32>(dot);\n",
        "    warp_add<16>(dot);\n",
        "A score is the sum over half of the dims.",
        FP16,
        "uniform",
    ),
    _fault(
        "masked-scored-zero",
        "weight.st(cell * GROUP + lane, bits_to_float(kMinusInfinity));",
        "weight.st(cell * GROUP + lane, 0.0f);",
        "The 0 of a masked cell joins the maximum: where all scores lie far below, every weight vanishes.",
        INT8,
        "sunken",
    ),
)

_SOFTMAX = (
    _fault(
        "max-of-half",
        "warp_max<32>(high);",
        "warp_max<16>(high);",
        "Each half of a chunk takes its own maximum, and merge is told the first one.",
        FP16,
        "climbing",
    ),
    _fault(
        "max-from-first-cells",
        "float high[1] = {a > b ? a : b};",
        "float high[1] = {a};",
        "Cells 32 to 63 of a chunk do not join its maximum, and a weight may overflow.",
        Q4_0,
        "huge_q",
    ),
    _fault(
        "sum-of-half",
        "warp_add<32>(all);",
        "warp_add<16>(all);",
        "The weight sum of a chunk is taken over half of its cells.",
        K8V4,
        "uniform",
    ),
    _fault(
        "heads-past-eight",
        "for (int h = warp; h < GROUP; h += kWarps)",
        "for (int h = warp; h < kWarps; h += kWarps)",
        "Heads are weighed one a warp, and those past the eighth keep their scores as weights.",
        FP16,
        "uniform",
    ),
)

_VALUES = (
    _fault(
        "v-scale-of-k",
        "value_scale(v_pool, v_scales, from,",
        "value_scale(v_pool, k_scales, from,",
        "Values are multiplied by the scales of K.",
        INT8,
        "signed_decades",
    ),
    _fault(
        "v-scale-omitted",
        "if (V_FORMAT != FORMAT_FP16) value[i]",
        "if (V_FORMAT == FORMAT_INT8) value[i]",
        "Q4_0 values keep the size of their codes.",
        K8V4,
        "uniform",
    ),
    _fault(
        "v-scale-neighbour",
        "v_scale.ld((cell + i) * kVScales + thread * kVScales / kDim)",
        "v_scale.ld((cell + i) * kVScales + (thread * kVScales / kDim ^ 1))",
        "Each block of V takes the scale of the block beside it.",
        Q4_0,
        "signed_decades",
    ),
    _fault(
        "v-scale-of-next-cell",
        "v_scale.ld((cell + i) * kVScales +",
        "v_scale.ld((cell + (i ^ 1)) * kVScales +",
        "Values of neighbouring cells take each other's scales.",
        INT8,
        "signed_decades",
    ),
    _fault(
        "v-nibbles-swapped",
        "two >> (dim % 32 / 16 * 4) & 15",
        "two >> (4 - dim % 32 / 16 * 4) & 15",
        "Low and high nibbles of V change places, on the reader's side alone.",
        K8V4,
        "uniform",
    ),
    _fault(
        "v-nibbles-in-pairs",
        "+ 2 + dim % 16);\n  return __int2float_rn(static_cast<int>(two >> (dim % 32 / 16 * 4) & 15) - 8);",
        "+ 2 + dim % 32 / 2);\n  return __int2float_rn(static_cast<int>(two >> (dim % 2 * 4) & 15) - 8);",
        "The nibbles of a byte are taken for two neighbours, not for elements sixteen apart.",
        Q4_0,
        "uniform",
    ),
    _fault(
        "v-zero-point",
        "& 15) - 8);",
        "& 15) - 7);",
        "The zero of Q4_0 values is 7, so every value is off by its scale.",
        K8V4,
        "uniform",
    ),
    _fault(
        "v-codes-unsigned",
        "return __int2float_rn(static_cast<i8>(load(at + dim)));",
        "return __int2float_rn(load(at + dim));",
        "INT8 values are read as numbers from 0 to 255.",
        INT8,
        "uniform",
    ),
    _fault(
        "absent-value-read",
        "value[i] = here < 0 ? 0.0f : value_code(v_pool, here, thread);",
        "value[i] = value_code(v_pool, here < 0 ? 0 : here, thread);",
        "A masked cell reads row 0 for its value, and weight 0 times what is not finite is NaN.",
        FP16,
        "width_edges",
    ),
    _fault(
        "absent-scale-read",
        "from < 0 ? 0.0f : value_scale(v_pool, v_scales, from,",
        "value_scale(v_pool, v_scales, from < 0 ? 0 : from,",
        "A masked cell reads row 0 for its V scale, and 0 times what is not finite is NaN.",
        Q4_0,
        "width_edges",
    ),
    _fault(
        "value-row-ahead",
        "const i64 here = row.ld(cell + i);",
        "const i64 here = row.ld(cell + i + 1);",
        "Values are fetched one cell further on than the weights they meet.",
        FP16,
        "peaked",
    ),
)

_MERGE = (
    _fault(
        "empty-max-unwritten",
        "      store(maxima + slot * GROUP + thread, bits_to_float(kMinusInfinity));\n",
        "",
        "An empty chunk leaves no maximum, so merge reads what the last batch left there.",
        INT8,
        "width_edges",
    ),
    _fault(
        "weight-sum-unwritten",
        "      store(weights + slot * GROUP + h, all[0]);\n",
        "",
        "A chunk leaves no weight sum.",
        Q4_0,
        "uniform",
    ),
    _fault(
        "max-at-dense-offset",
        "store(maxima + slot * GROUP + h, high[0]);",
        "store(maxima + (slot_of(blockIdx.z, 1, 0, chunks, chunk) * GROUP + h), high[0]);",
        "The maxima of all KV heads are stored where those of one would lie.",
        FP16,
        "uniform",
    ),
    _fault(
        "partial-stride-zero",
        "return (query * kv_heads + kv_head) * chunks + chunk;",
        "return (query * 0 + kv_head) * chunks + chunk;",
        "The partial results of all queries of a batch share one place.",
        INT8,
        "uniform",
    ),
    _fault(
        "merge-head-modulo",
        "slot_of(blockIdx.y, kv_heads, head / GROUP, chunks, 0);",
        "slot_of(blockIdx.y, kv_heads, head % kv_heads, chunks, 0);",
        "Query heads are dealt to KV heads in turn, not twelve by twelve.",
        Q4_0,
        "peaked",
    ),
    _fault(
        "merge-max-not-compared",
        "high = m > high ? m : high;",
        "high = m;",
        "Chunks are weighed against the maximum of the last one, which may be that of nothing.",
        K8V4,
        "huge_q",
    ),
    _fault(
        "merge-reads-empty",
        "    if (m == bits_to_float(kMinusInfinity)) continue;",
        "",
        "Merge adds 0 times the unwritten sums of chunks of nothing.",
        FP16,
        "width_edges",
    ),
    _fault(
        "merge-sum-unscaled",
        "total = __fmaf_rn(load(weights + (slot + c) * GROUP + h), w, total);",
        "total = __fadd_rn(load(weights + (slot + c) * GROUP + h), total);",
        "Weight sums of chunks are added as if all chunks had one maximum.",
        INT8,
        "climbing",
    ),
    _fault(
        "merge-last-chunk",
        "  for (int c = 0; c < chunks; ++c) {\n    const float m = load(maxima + (slot + c) * GROUP + h);\n    if",
        "  for (int c = 0; c < (chunks > 1 ? chunks - 1 : 1); ++c) {\n"
        "    const float m = load(maxima + (slot + c) * GROUP + h);\n    if",
        "The last chunk is left out of the sums.",
        Q4_0,
        "flat",
    ),
    _fault(
        "merge-no-zero-guard",
        "total == 0.0f ? 0.0f : __fdiv_rn(acc, total)",
        "__fdiv_rn(acc, total)",
        "An empty list gives 0/0.",
        FP16,
        "zeros",
    ),
    _fault(
        "merge-first-batch",
        "store(out + ((first_query + static_cast<i64>(blockIdx.y)) * kv_heads",
        "store(out + (static_cast<i64>(blockIdx.y) * kv_heads",
        "Every batch is written over the first one.",
        K8V4,
        "width_edges",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the baseline; those without a barrier are made from the source as it is."""
    yield from (*_CELLS, *_SCORES, *_SOFTMAX, *_VALUES, *_MERGE)
    source = (ROOT / DECODE).read_text()
    why = "Without this barrier threads read what others may not have written yet."
    for what, call in (("block-barrier", "__syncthreads();"), ("warp-barrier", "__syncwarp();")):
        pattern = Mutant(f"decode-{what}", DECODE, call, ";", why, "decode_attention/q4_0/simt", ("uniform",))
        yield from removals(pattern, source)
