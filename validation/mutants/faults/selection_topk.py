"""Mutants of the choice of cells: order of scores, ties, the tail, cuts, and what the passes of the radix select share."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

SOURCE = "strata/kernels/block_topk.cu"


def _mutant(name: str, old: str, new: str, why: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"topk-{name}", SOURCE, old, new, why, "block_topk/fp32/simt", recipes, also)


_READ = "return has(turn) ? float_to_bits(load(row + 32 * turn)) : 0;"
_NAN = "if (magnitude > 0x7f800000u) return kNaN;"
_BEHIND = "const bool behind = equal_before >= need;   // every chosen block at the threshold lies before this one"
_COUNT = "const i32 count = key == threshold && equal_before + 1 == need ? kBlock - cut_away : kBlock;"
_BEFORE = "equal = lanes_sum(lane < warp ? parts.ld(2 * lane + 1) : 0);"

_ORDER = (
    _mutant(
        "ties-to-later",
        _BEFORE,
        f"const u32 skipped = lanes_sum(parts.ld(2 * lane + 1)) - need;\n  {_BEFORE}",
        "The tie rule is reversed: of equal scores the last blocks are chosen.",
        "topk_equal",
        "topk_levels",
        also=(
            Edit(
                SOURCE,
                _BEHIND,
                "const bool early = equal_before < skipped, behind = false;\n"
                "    const u32 taken = early ? 0 : equal_before - skipped;",
            ),
            Edit(SOURCE, "(key == threshold && !behind)", "(key == threshold && !early)"),
            Edit(SOURCE, "(behind ? need : equal_before)", "taken"),
            Edit(SOURCE, "equal_before + 1 == need", "taken + 1 == need"),
        ),
    ),
    _mutant(
        "epsilon-of-index",
        _READ,
        "const float less = 1e-6f * static_cast<float>(first + 32 * turn);\n"
        "    return has(turn) ? float_to_bits(__fsub_rn(load(row + 32 * turn), less)) : 0;",
        "Ties are broken by taking a small number times the index from a score.",
        "topk_bell",
    ),
    _mutant(
        "nan-first", _NAN, "if (magnitude > 0x7f800000u) return 0xffffffffu;", "A NaN is chosen first.", "topk_nan"
    ),
    _mutant("nan-as-bits", _NAN, "", "A NaN has a place by its bits.", "topk_nan"),
    _mutant("nan-as-zero", _NAN, "if (magnitude > 0x7f800000u) return 0x80000000u;", "A NaN is 0.", "topk_nan"),
    _mutant("minus-zero-below", "if (magnitude == 0) bits = 0;", "", "-0 is below +0.", "topk_zeros"),
    _mutant(
        "subnormals-as-zero",
        "if (magnitude == 0) bits = 0;",
        "if (magnitude < 0x00800000u) bits = 0;",
        "Subnormal scores are equal.",
        "topk_subnormals",
    ),
    _mutant(
        "infinity-as-nan",
        _NAN,
        "if (magnitude >= 0x7f800000u) return kNaN;",
        "Infinities are chosen last.",
        "topk_infinities",
    ),
    _mutant(
        "negative-turned",
        "bits >> 31 ? ~bits : bits | 0x80000000u",
        "bits >> 31 ? bits ^ 0x80000000u : bits | 0x80000000u",
        "Negative scores are ordered by their size.",
        "topk_bell",
    ),
)

_CELLS = (
    _mutant(
        "tail-left-out",
        "of_tail = tail < width ? tail : width, rest",
        "of_tail = 0, rest",
        "The tail's bonus is dropped: its cells are not chosen.",
        "topk_bell",
    ),
    _mutant(
        "tail-of-four",
        "tail = cells - blocks * kBlock, of_tail",
        "tail = cells == blocks * kBlock ? 0 : kBlock, of_tail",
        "The tail weighs a whole block, whatever cells it has.",
        "topk_bell",
    ),
    _mutant(
        "tail-first-in-place",
        "store(ids + rest + thread, blocks * kBlock + thread)",
        "store(ids + rest + thread, blocks * kBlock + tail - 1 - thread)",
        "The tail's cells are written in descending order.",
        "topk_bell",
    ),
    _mutant(
        "tail-cut-from-its-end",
        "store(ids + rest + thread, blocks * kBlock + thread)",
        "store(ids + rest + thread, blocks * kBlock + tail - of_tail + thread)",
        "Of a tail that is cut the last cells are chosen.",
        "topk_lengths",
    ),
    _mutant(
        "cut-from-its-end",
        "if (i < count) store(ids + at + i, block * kBlock + i);",
        "if (i < count) store(ids + at + i, block * kBlock + kBlock - count + i);",
        "Of a block that is cut the last cells are chosen.",
        "topk_bell",
    ),
    _mutant(
        "cut-off-by-one",
        "if (i < count) store(ids + at + i, block * kBlock + i);",
        "if (i < count) store(ids + at + i, block * kBlock + i + (count < kBlock));",
        "The cells of a block that is cut are the next ones.",
        "topk_bell",
    ),
    _mutant(
        "cut-the-first-of-ties",
        _COUNT,
        "const i32 count = key == threshold && equal_before == 0 ? kBlock - cut_away : kBlock;",
        "Of equal blocks the first is cut and not the last.",
        "topk_equal",
    ),
    _mutant(
        "cut-by-what-is-kept",
        "cut_away = (kBlock - rest % kBlock) % kBlock",
        "cut_away = rest % kBlock",
        "A block loses as many cells as it should keep.",
        "topk_bell",
    ),
    _mutant(
        "blocks-rounded-down",
        "static_cast<u32>(rest + kBlock - 1) / kBlock",
        "static_cast<u32>(rest) / kBlock",
        "The block that is cut is not counted.",
        "topk_bell",
    ),
    _mutant(
        "places-without-the-cut",
        "(behind ? need : equal_before)) - (behind ? cut_away : 0)",
        "(behind ? need : equal_before))",
        "Cells behind the block that is cut leave its missing cells free.",
        "topk_bell",
    ),
    _mutant(
        "all-cells-at-once",
        "if (cells <= width) {",
        "if (cells <= width + 1) {",
        "A query that chooses all its cells but one chooses all.",
        "topk_lengths",
    ),
)

_PASSES = (
    _mutant(
        "pass-without-its-digits",
        "if (key >> shift >> digit == threshold) count_one",
        "count_one",
        "Each pass counts all blocks, not those that agree with the passes before.",
        "topk_bell",
    ),
    _mutant(
        "pass-skipped",
        "for (int pass = 0; pass < kPasses; ++pass) {",
        "for (int pass = 0; pass < kPasses - 1; ++pass) {",
        "The last ten bits of scores are not looked at.",
        "topk_digits",
        also=(
            Edit(
                SOURCE,
                "  // Of the blocks at the threshold the first `need`",
                "  threshold <<= kLastDigit;\n  // Of the blocks at the threshold the first `need`",
            ),
            Edit(SOURCE, "equal += key == threshold;", "equal += (key & ~1023u) == threshold;"),
            Edit(SOURCE, "above += key > threshold;", "above += (key & ~1023u) > threshold;"),
            Edit(
                SOURCE,
                "keys.each([&](u32 key, i32 block) {",
                "keys.each([&](u32 key, i32 block) {\n    key &= ~1023u;",
            ),
        ),
    ),
    _mutant(
        "bin-too-low",
        "if (before < need && before + count[i] >= need) {",
        "if (before < need && before + count[i] > need) {",
        "A bin that has just as many blocks as are needed is passed over.",
        "topk_bell",
    ),
    _mutant(
        "own-counted-before",
        "u32 before = -through;",
        "u32 before = -(through / 2);",
        "A thread's bins count in part for what lies before them.",
        "topk_bell",
    ),
    _mutant(
        "counts-stay",
        "    histogram.st(highest - i, 0);\n",
        "",
        "Counts of a pass are added to those of the pass before.",
        "topk_bell",
    ),
    _mutant(
        "own-warp-before",
        "above = lanes_sum(lane < warp ? parts.ld(2 * lane) : 0);",
        "above = lanes_sum(lane <= warp ? parts.ld(2 * lane) : 0);",
        "A warp's own blocks count as those before it.",
        "topk_bell",
    ),
    _mutant(
        "equal-lanes-not-counted",
        "static_cast<u32>(__popc(are_equal & lower_lanes));",
        "0u * static_cast<u32>(__popc(are_equal & lower_lanes));",
        "Equal blocks of the lanes before are not counted.",
        "topk_equal",
    ),
    _mutant(
        "turns-not-counted",
        "above += static_cast<u32>(__popc(are_above));",
        "above += 0u * static_cast<u32>(__popc(are_above));",
        "Blocks of the turns before are not counted.",
        "topk_sizes",
    ),
    _mutant(
        "blocks-too-many",
        "bool has(int turn) const { return 32 * turn < left; }",
        "bool has(int turn) const { return 32 * turn <= left; }",
        "A block behind the last takes part.",
        "topk_bell",
    ),
    _mutant(
        "row-in-32-bits",
        "ids = all_ids + query * cap;",
        "ids = all_ids + static_cast<u32>(query * cap);",
        "The place of a row of ids loses what is beyond 32 bits.",
        "topk_far",
    ),
    _mutant(
        "scores-in-32-bits",
        "keys.row = scores + query * capacity + keys.first;",
        "keys.row = scores + static_cast<u32>(4 * (query * capacity + keys.first)) / 4;",
        "The place of a row of scores loses what is beyond 32 bits of bytes.",
        "topk_far",
    ),
)

_BARRIERS = (
    _mutant(
        "barrier-after-zeros",
        "histogram.st(i, 0);\n  __syncthreads();",
        "histogram.st(i, 0);",
        "Counting begins before all counts are zero.",
        "topk_bell",
    ),
    _mutant(
        "barrier-before-bins",
        "    __syncthreads();\n    find_bin",
        "    find_bin",
        "Bins are looked through before all is counted.",
        "topk_bell",
    ),
    _mutant(
        "barrier-after-bins",
        "find_bin(histogram, chosen, parts, need, thread);\n    __syncthreads();",
        "find_bin(histogram, chosen, parts, need, thread);",
        "The bin is read before it is found.",
        "topk_bell",
    ),
    _mutant(
        "barrier-between-warps-bins",
        "parts.st(2 * warp, through);\n  __syncthreads();",
        "parts.st(2 * warp, through);",
        "Counts of other warps' bins are read before they are written.",
        "topk_bell",
    ),
    _mutant(
        "barrier-before-parts",
        "  __syncthreads();\n  above = lanes_sum(lane < warp",
        "  above = lanes_sum(lane < warp",
        "Counts of other warps are read before they are written.",
        "topk_bell",
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from (*_ORDER, *_CELLS, *_PASSES, *_BARRIERS)
