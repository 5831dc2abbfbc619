"""Mutants of what goes before the products: grouping pairs on the device and on the host, and tokens to int8."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.faults.expert_activations import FUSED, MMQ, PAIRS_OF_SCALES
from validation.mutants.mutant import ROOT, Edit, Mutant, removals

PREPARE = "strata/kernels/expert_prepare.cu"
HOST = "strata/kernels/grouping.py"


def _fault(
    name: str, old: str, new: str, why: str, *recipes: str, path: str = FUSED, also: tuple[Edit, ...] = ()
) -> Mutant:
    return Mutant(f"group-{name}", PREPARE, old, new, why, path, recipes or ("experts_plain",), also)


def _host(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"host-group-{name}", HOST, old, new, why, MMQ, recipes or ("experts_plain",))


_PLACE = "const int place = valid ? shared_add(cursor, static_cast<int>(id), 1) : -1;"
_STRAY = "if (id < static_cast<u32>(experts)) shared_add(cursor, static_cast<int>(id), 1);"
_VALID = "const bool valid = id < static_cast<u32>(experts);"
_COUNT = "if (id < static_cast<u32>(experts)) shared_add(cursor"
_ZERO = "        store(rows + (static_cast<i64>(token) * top + rank) * n + column, float4{0.0f, 0.0f, 0.0f, 0.0f});"

_DEVICE = (
    _fault("stray-as-expert-0", _VALID, "const bool valid = true;", "A pair of nobody takes a place.", "experts_stray"),
    _fault(
        "minus-one-is-expert-0",
        "id[j] = static_cast<u32>(load(ids + base + j * kThreads));",
        "id[j] = static_cast<u32>(load(ids + base + j * kThreads) == -1 ? 0 : load(ids + base + j * kThreads));",
        "An id of -1 is computed as expert 0.",
        "experts_stray",
    ),
    _fault(
        "id-equal-to-count",
        _COUNT,
        _COUNT.replace("id <", "id <="),
        "The id that is the number of experts is counted as an expert's.",
        "experts_stray",
    ),
    _fault(
        "negative-ids-valid",
        _VALID,
        "const bool valid = static_cast<i32>(id) < experts;",
        "Negative ids take places.",
        "experts_stray",
    ),
    _fault("nobody-unwritten", _ZERO, "        {}", "Rows of ids that name nobody are not written.", "experts_stray"),
    _fault(
        "nobody-minus-zero",
        _ZERO,
        _ZERO.replace("float4{0.0f,", "float4{-0.0f,"),
        "Rows of nobody hold zeros with a sign.",
        "experts_stray",
    ),
    _fault(
        "nobody-first-rank-only",
        "for (int rank = 0; rank < top; ++rank)\n      if (static_cast<u32>",
        "for (int rank = 0; rank < 1; ++rank)\n      if (static_cast<u32>",
        "Only the first rank of a token gets the zeros of nobody.",
        "experts_stray",
    ),
    _fault(
        "nobody-uncounted", "else shared_add(nobody, 0, 1);", "", "Pairs of nobody are not counted.", "experts_stray"
    ),
    _fault(
        "duplicates-collapsed",
        _PLACE,
        "const bool twice = i % top && load(ids + i) == load(ids + i - 1);\n    const int place = valid && twice ? cursor.ld(static_cast<int>(id)) - 1 : valid ? shared_add(cursor, static_cast<int>(id), 1) : -1;",
        "A token that names an expert in two ranks gets one row.",
        "experts_repeated",
    ),
    _fault(
        "duplicates-counted-once",
        "each_pair(ids, total, thread, [&](int, u32 id) {\n    if",
        "each_pair(ids, total, thread, [&](int i, u32 id) {\n    if (i % top && load(ids + i) == load(ids + i - 1)) return;\n    if",
        "Groups are counted as if no token named an expert twice.",
        "experts_repeated",
    ),
    _fault(
        "count-of-first-turn",
        "each_pair(ids, total, thread, [&](int, u32 id) {\n    if",
        "each_pair(ids, total, thread, [&](int i, u32 id) {\n    if (i >= kThreads) return;\n    if",
        "Only as many pairs are counted as a block has threads.",
        "experts_many",
    ),
    _fault(
        "pair-of-next",
        "if (valid) store(pairs + place, i);",
        "if (valid) store(pairs + place, i ^ 1);",
        "Rows name their neighbour's pair.",
    ),
    _fault(
        "slot-shifted",
        "store(slot + i, place);",
        "store(slot + i, place < 0 ? place : place + 1);",
        "Slots are one too high.",
    ),
    _fault(
        "tickets-from-zero",
        "cursor.st(thread, before[0]);",
        "cursor.st(thread, 0);",
        "Every expert's places begin at 0.",
    ),
    _fault(
        "tiles-of-64-floor",
        "(count + 63) / 64, (count + 127) / 128}",
        "count / 64 + (count < 64), (count + 127) / 128}",
        "The rest of a group beyond whole tiles of 64 has no tile.",
        "experts_edges",
    ),
    _fault(
        "tiles-of-128-floor",
        "(count + 63) / 64, (count + 127) / 128}",
        "(count + 63) / 64, count / 128 + (count < 128)}",
        "The rest of a group beyond whole tiles of 128 has no tile.",
        "experts_edges",
    ),
    _fault(
        "empty-has-a-tile",
        "(count + 63) / 64, (count + 127) / 128}",
        "count / 64 + 1, (count + 127) / 128}",
        "An expert without pairs, or with a full last tile, has a tile.",
        "experts_edges",
    ),
    _fault("tiles-overlap", "row += ROWS, ++at", "row += ROWS - 1, ++at", "Tiles overlap by a row.", "experts_edges"),
    _fault(
        "tile-begins-early",
        "store(tiles + 2 * at + 1, first + row);",
        "store(tiles + 2 * at + 1, first + row - (row > 0));",
        "Tiles but a group's first begin one row early: the last row of full tiles is left out.",
        "experts_edges",
    ),
    _fault(
        "tile-of-group-start",
        "store(tiles + 2 * at + 1, first + row);",
        "store(tiles + 2 * at + 1, first);",
        "Every tile of a group begins at its first row.",
        "experts_edges",
    ),
    _fault(
        "tile-of-next-expert",
        "store(tiles + 2 * at, expert);",
        "store(tiles + 2 * at, expert + 1);",
        "Tiles name the next expert.",
    ),
    _fault(
        "last-offset-missing", "store(offsets + experts, totals[0]);", "", "The end of the last group is not written."
    ),
    _fault(
        "sum-of-warp",
        "before += w < warp ? part : 0;",
        "before += 0;",
        "Offsets are sums over a warp of experts alone.",
        "experts_many",
    ),
    _fault(
        "scan-short",
        "for (int by = 1; by < 32; by *= 2) {\n      const i32 other",
        "for (int by = 1; by < 4; by *= 2) {\n      const i32 other",
        "Offsets are sums of the last four experts.",
    ),
    _fault(
        "halves-crossed",
        "half = thread >> 3 & 1;",
        "half = ~thread >> 3 & 1;",
        "The two blocks of 32 of a unit change places.",
    ),
    _fault(
        "scale-of-first-half",
        "store<float>(target + kUnitScales + 4 * half, scale.d);",
        "store<float>(target + kUnitScales, scale.d);",
        "Both scales of a unit are written to the first.",
    ),
    _fault("amax-of-64", "warp_max<8>(largest);", "warp_max<16>(largest);", "x has one scale for 64 values."),
    _fault("amax-of-256", "warp_max<8>(largest);", "warp_max<32>(largest);", "x has one scale for 128 values."),
    _fault(
        "amax-of-16",
        "warp_max<8>(largest);",
        "warp_max<4>(largest);",
        "Each half of 32 values takes a scale of its own, and one of them is stored.",
    ),
    _fault(
        "lost-uncounted",
        "if (!scale.finite) atomicAdd(status, 1);",
        "",
        "Blocks of x that are not finite are not counted.",
        "experts_broken",
    ),
    _fault(
        "order-of-others",
        "paired ? word_place<true>(word) : word_place<false>(word);",
        "word_place<false>(word);",
        "Codes lie in natural order for formats that pair them.",
        "experts_one_hot",
    ),
    _fault(
        "order-always-paired",
        "paired ? word_place<true>(word) : word_place<false>(word);",
        "word_place<true>(word);",
        "Codes lie in paired order for formats that do not pair them.",
        "experts_one_hot",
        path=PAIRS_OF_SCALES,
    ),
    _fault(
        "value-past-end",
        "const bool here = at < static_cast<i64>(tokens) * n;",
        "const bool here = at <= static_cast<i64>(tokens) * n;",
        "The values behind the last token are quantised as well.",
    ),
    _fault(
        "ticket-not-counted",
        "  array.p[i] = old + v;\n",
        "  array.p[i] = old;\n",
        "Tickets do not advance: a group's pairs share a place.",
    ),
)

_HOST = (
    _host(
        "unstable",
        'np.argsort(flat, kind="stable")',
        'np.argsort(flat, kind="stable")[::-1]',
        "Rows lie in falling order of experts.",
    ),
    _host(
        "stray-accepted",
        "invalid = np.flatnonzero((flat < 0) | (flat >= experts))",
        "invalid = np.flatnonzero(flat > experts)",
        "Ids below 0 and the number of experts are taken.",
        "experts_stray",
    ),
    _host(
        "id-equal-to-count",
        "(flat >= experts))",
        "(flat > experts))",
        "The number of experts is taken for an id.",
        "experts_stray",
        "experts_nobody",
    ),
    _host(
        "source-is-rank",
        "pairs // np.int32(ids.shape[1]), offsets)",
        "pairs % np.int32(ids.shape[1]), offsets)",
        "Rows name the rank of their pair in place of the token.",
    ),
    _host(
        "duplicates-collapsed",
        "np.bincount(flat, minlength=experts)",
        "np.bincount(np.concatenate([np.unique(row) for row in ids]), minlength=experts)",
        "Groups are counted as if no token named an expert twice.",
        "experts_repeated",
    ),
    _host(
        "last-row-of-tile",
        "min(most, int(self.offsets[expert + 1]) - row))",
        "min(most, max(int(self.offsets[expert + 1]) - row - 1, 1)))",
        "The last row of a group belongs to no tile.",
        "experts_one",
    ),
    _host(
        "hot-group-cut",
        "for row in range(int(self.offsets[expert]), int(self.offsets[expert + 1]), most)",
        "for row in range(int(self.offsets[expert]), min(int(self.offsets[expert + 1]), int(self.offsets[expert]) + 1), most)",
        "A group has one tile, however large it is.",
        "experts_edges",
    ),
    _host(
        "slot-is-pairs",
        "slot[pairs] = np.arange(len(pairs), dtype=np.int32)",
        "slot[:] = pairs",
        "The row of a pair is the pair of that row.",
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from _DEVICE
    yield from _HOST
    barrier = Mutant(
        "group-barrier",
        PREPARE,
        "  __syncthreads();\n",
        "",
        "Threads go on before the others have come so far.",
        FUSED,
        ("experts_plain",),
    )
    yield from removals(barrier, (ROOT / PREPARE).read_text())
