"""Mutants of sizes of elastic memory: floors where ceilings belong, sizes left unrounded, pieces lent in part."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"size-{name}", f"strata/memory/{file}.py", old, new, why, controls=True)


_ROWS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "segment-unrounded",
        "arena/pieces",
        "    return round_up(mib * MiB, granularity)\n",
        "    return mib * MiB\n",
        "A segment is no multiple of the granularity.",
    ),
    (
        "segment-floor",
        "arena/pieces",
        "    return round_up(mib * MiB, granularity)\n",
        "    return mib * MiB // granularity * granularity\n",
        "A segment is smaller than was asked for.",
    ),
    (
        "granularity-floor",
        "arena/pieces",
        "return -(-n // unit) * unit",
        "return n // unit * unit",
        "Ranges are rounded down.",
    ),
    (
        "granularity-one-more",
        "arena/pieces",
        "return -(-n // unit) * unit",
        "return (n // unit + 1) * unit",
        "A size that is a multiple already grows by one.",
    ),
    (
        "alignment-floor",
        "loan/workspace_layout",
        "self.used += round_up(nbytes + ALIGN, ALIGN)",
        "self.used += (nbytes + ALIGN) // ALIGN * ALIGN",
        "Blocks are rounded down.",
    ),
    (
        "a-piece-too-few",
        "arena/pieces",
        "        if taken >= nbytes:\n",
        "        if taken + sizes[first] > nbytes:\n",
        "A loan is a part of a piece smaller than what was asked for.",
    ),
    (
        "a-piece-too-many",
        "arena/pieces",
        "        if taken >= nbytes:\n",
        "        if taken > nbytes:\n",
        "A loan of just its pieces takes one more.",
    ),
    (
        "half-a-slot",
        "cache/slots",
        'np.searchsorted(self.off, nbytes, side="right")) - 1)\n',
        'np.searchsorted(self.off, nbytes, side="left")))\n',
        "A slot whose piece is given away in part stays named.",
    ),
    (
        "slot-unaligned",
        "cache/slots",
        "off[-1] + -(-geometry.blobs[layer] // SLOT_ALIGN) * SLOT_ALIGN",
        "off[-1] + geometry.blobs[layer]",
        "Slots cut to their experts begin anywhere.",
    ),
    (
        "offsets-floor",
        "loan/tail",
        "off.append(off[-1] + round_up(blob, 256))",
        "off.append(off[-1] + max(256, blob // 256 * 256))",
        "A slot is smaller than its expert.",
    ),
    (
        "tail-begins-late",
        "loan/tail",
        "return bisect_right(off, off[slots] - nbytes) - 1",
        "return bisect_right(off, off[slots] - nbytes)",
        "The slots at the end have fewer bytes than they must hold.",
    ),
    (
        "front-a-slot-short",
        "loan/tail",
        "bisect_left(off, off[keep] + nbytes))",
        "bisect_right(off, off[keep] + nbytes) - 1)",
        "A shrunk cache holds a slot less than it needs.",
    ),
    (
        "mapped-floor",
        "loan/tail",
        "return round_up(off[slots], quantum)",
        "return off[slots] // quantum * quantum",
        "The last slots that stay are not mapped.",
    ),
    (
        "cache-unrounded",
        "cache/cache_size",
        "later) // granularity * granularity // max_blob",
        "later) // max_blob",
        "The rounding up of a cache comes out of the reserve.",
    ),
    (
        "cache-ceiling",
        "cache/cache_size",
        "later) // granularity * granularity // max_blob",
        "later + max_blob - 1) // granularity * granularity // max_blob",
        "The last slot of a cache lies in the reserve.",
    ),
    (
        "chunk-floor",
        "loan/chunks",
        "return min(chunk, round_up(tokens, GRID))",
        "return min(chunk, max(GRID, tokens // GRID * GRID))",
        "The chunk of a request is shorter than the request.",
    ),
    (
        "parts-floor",
        "loan/chunks",
        "size = round_up(-(-tokens // parts), GRID)",
        "size = round_up(tokens // parts, GRID)",
        "Chunks are too short for all tokens, and one more comes.",
    ),
    (
        "plan-part-of-a-segment",
        "plan/ways",
        "lendable = (cached + given) // piece * piece",
        "lendable = cached + given",
        "A plan lends the part of a segment.",
    ),
    (
        "plan-head-unrounded",
        "plan/ways",
        'whole + round_up(nbytes["H"], GRANULARITY)',
        'whole + nbytes["H"]',
        "The head's memory counts without what it was rounded up by.",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of sizes. The piece of the alias that slots have a part of is `size-half-owned-piece`."""
    for row in _ROWS:
        yield _fault(*row)
    yield _fault(
        "half-owned-piece",
        "plan/ways",
        "- round_up(keep, piece))",
        "- keep // piece * piece)",
        "A piece is lent of which the slots that stay have a part.",
    )
