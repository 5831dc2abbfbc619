"""The arithmetic of lent memory, asked over every small case: what is rounded up, what down, and which piece is whole.

Each question is answered twice, by the function of `strata.memory` and by trying every candidate; the answer is the
first case in which they differ. A rounding that goes the wrong way is right in all cases but few: sizes that are no
multiples are the rule here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena import pieces
from strata.memory.cache import cache_size
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import SLOT_ALIGN, Slots, sized_slots
from strata.memory.loan import chunks, prompt_plan, tail, workspace_layout
from validation.core.control import Control

#: What a control answers when no case differs.
AGREES = "agrees"
_KIB, _MIB = 1 << 10, 1 << 20
#: Granularities of cards as they are, and one that is no power of two: 65 MiB are a multiple of the first alone.
_GRANULARITIES = (64 * _KIB, 2 * _MIB, 3 * _MIB)
_SEGMENTS = (64, 65, 66, 67, 511, 512)
#: Offsets of slots of three sizes, none of them a multiple of a piece.
_OFFSETS = (0, 7, 12, 20, 27, 32, 40)
#: A card's bytes and pieces in small.
_TOTALS, _PIECES = range(1, 60), ((4, 4), (8, 4), (6, 3), (10, 5))


def multiple(n: int, unit: int) -> int:
    """The least multiple of `unit` that is not below n, by counting."""
    return next(m for m in range(0, n + unit, unit) if m >= n)


def last_pieces(sizes: Sequence[int], nbytes: int) -> tuple[int, int, int] | None:
    """(first, boundary, bytes) of the fewest last pieces with so many bytes, one staying; None when there are none."""
    for count in range(1, len(sizes)):
        if sum(sizes[len(sizes) - count :]) >= nbytes:
            kept = sizes[: len(sizes) - count]
            return len(kept), sum(kept), sum(sizes) - sum(kept)
    return None


def cut_up(total: int, piece: int, granularity: int) -> list[int]:
    """Pieces until nothing is left, the last as small as the granularity allows."""
    left, sizes = multiple(total, granularity), []
    while left:
        sizes.append(min(piece, left))
        left -= sizes[-1]
    return sizes


def _segments() -> Iterator[tuple[str, Any, Any]]:
    for mib, unit in product(_SEGMENTS, _GRANULARITIES):
        yield f"{mib} MiB of {unit}", pieces.segment_bytes(mib, unit), multiple(mib * _MIB, unit)


def _too_small() -> Iterator[tuple[str, Any, Any]]:
    for mib in (0, 1, 63):
        try:
            got = str(pieces.segment_bytes(mib, _GRANULARITIES[0]))
        except StrataError as error:
            got = str(error)
        yield f"{mib} MiB", got, f"segment of {mib} MiB: expected at least 64"


def _rounded() -> Iterator[tuple[str, Any, Any]]:
    for n, unit in product(range(50), (1, 2, 3, 7, 8)):
        yield f"{n} of {unit}", pieces.round_up(n, unit), multiple(n, unit)


def _blocks() -> Iterator[tuple[str, Any, Any]]:
    """A block is counted with a whole alignment of padding, and begins at the next aligned address."""
    align = workspace_layout.ALIGN
    for nbytes, base in product((0, 1, align - 1, align, align + 1, 700), (align, align + 1, 300, 2 * align - 1)):
        counted, placed = workspace_layout.Walk(), workspace_layout.Walk(base)
        for place in (counted, placed):
            place.block("block", 1, nbytes)
        yield f"{nbytes} counted", counted.used, multiple(nbytes + align, align)
        yield f"{nbytes} at {base}", placed.blocks[0].address, multiple(base, align)


def _cut() -> Iterator[tuple[str, Any, Any]]:
    for total, (piece, unit) in product(_TOTALS, _PIECES):
        yield f"{total} in {piece} of {unit}", pieces.cut(total, piece, unit), cut_up(total, piece, unit)


def _tails() -> Iterator[tuple[str, Any, Any]]:
    for total, nbytes in product(_TOTALS, range(1, 40)):
        sizes = cut_up(total, 8, 4)
        yield f"{nbytes} of {sizes}", pieces.tail(sizes, nbytes), last_pieces(sizes, nbytes)


def _slots() -> Slots:
    return Slots(np.array(_OFFSETS), np.full(len(_OFFSETS) - 1, -1))


def _within() -> Iterator[tuple[str, Any, Any]]:
    slots = _slots()
    for nbytes in range(_OFFSETS[-1] + 3):
        yield f"{nbytes}", slots.within(nbytes), sum(end <= nbytes for end in _OFFSETS[1:])


def _at() -> Iterator[tuple[str, Any, Any]]:
    slots = _slots()
    for offset in range(_OFFSETS[-1] + 3):
        found = [k for k in range(len(slots)) if _OFFSETS[k] <= offset < _OFFSETS[k + 1]]
        yield f"{offset}", slots.at(offset), found[0] if found else None


def _sized() -> Iterator[tuple[str, Any, Any]]:
    blobs = (257, 512, 700)
    geometry, profile = ExpertGeometry(3, 2, blobs), [0, 2, 4, 1, 3, 5]
    off = [0]
    for row in profile:
        off.append(off[-1] + multiple(blobs[row // 2], SLOT_ALIGN))
    for cap in range(off[1], off[-1] + SLOT_ALIGN, 64):
        fit = [end for end in off if end <= cap]
        yield f"slots in {cap}", sized_slots(geometry, profile, cap).off.tolist(), fit
        sizes = [blobs[row // 2] for row in profile]
        yield f"count in {cap}", cache_size.sized_slots(sizes, cap), len(fit) - 1
    yield "offsets", tail.sized([blobs[row // 2] for row in profile]), off


def _first() -> Iterator[tuple[str, Any, Any]]:
    last = len(_OFFSETS) - 1
    for nbytes, keep in product(range(_OFFSETS[-1] + 2), range(last + 1)):
        held = [k for k in range(keep, last + 1) if _OFFSETS[-1] - _OFFSETS[k] >= nbytes]
        yield f"{nbytes} behind {keep}", tail.first(_OFFSETS, nbytes, keep), max(held, default=-1)
        enough = [k for k in range(keep, last + 1) if _OFFSETS[k] - _OFFSETS[keep] >= nbytes]
        yield f"floor of {nbytes} behind {keep}", tail.floor(_OFFSETS, nbytes, keep), min(enough, default=-1)


def _mapped() -> Iterator[tuple[str, Any, Any]]:
    for count, quantum in product(range(len(_OFFSETS)), (1, 4, 7)):
        got = tail.mapped(_OFFSETS, count, quantum)
        yield f"{count} slots in {quantum}", got, multiple(_OFFSETS[count], quantum)


class _Shape:
    """Blocks of odd sizes."""

    constant, trunk = (("constant", 300),), (("trunk", 5),)
    gdn, qsa, moe = (("a", 7),), (("b", 3), ("c", 11)), (("d", 9),)
    max_blob, slack = 700, 64


def _fits() -> Iterator[tuple[str, Any, Any]]:
    """A workspace that was counted can be laid out from any address, and never ends behind its region."""
    for chunk, ring, base in product((1, 3, 256), (0, 2), (256, 257, 300, 511)):
        needed = workspace_layout.bytes_needed(chunk, ring, _Shape())
        place = workspace_layout.walk(workspace_layout.Walk(base), _Shape(), chunk, ring)
        yield f"{chunk}/{ring} at {base}", place.used + _Shape.slack <= needed, True
        yield (
            f"blocks of {chunk}/{ring}",
            [block.address % workspace_layout.ALIGN for block in place.blocks if block.nbytes],
            [0 for block in place.blocks if block.nbytes],
        )


def _planned() -> Iterator[tuple[str, Any, Any]]:
    """The largest chunk that fits, then the largest ring."""
    sizes = {
        (n, ring): workspace_layout.bytes_needed(n * 256, ring, _Shape()) for n in range(1, 5) for ring in range(9)
    }
    for edge in sizes.values():
        for lendable in (edge - 1, edge, edge + 1):
            made = prompt_plan.prompt_plan(lendable, _Shape(), most_chunk=1024, least_ring=1, most_ring=8)
            fit = [(n * 256, ring) for (n, ring), size in sizes.items() if ring and size <= lendable]
            yield f"{lendable}", made and (made.chunk, made.ring), max(fit, default=None)


def _counted() -> Iterator[tuple[str, Any, Any]]:
    """Slots of a cache: whole pieces of what is free, and whole slots of those."""
    for free, unit in product(range(0, 640, 7), (64, 100, 300)):
        got = cache_size.cache_size(free * _MIB // 64, max_blob=_MIB, rows=9, reserve_mib=1, granularity=unit * _KIB)
        room = free * _MIB // 64 - _MIB
        whole = max((m for m in range(0, room + 1, unit * _KIB)), default=0)
        yield f"{free} in {unit}", got.slots, max(n for n in range(10) if n * _MIB <= whole)


def _requests() -> Iterator[tuple[str, Any, Any]]:
    for tokens in (*range(1, 1100, 51), 255, 256, 257, 511, 512, 513):
        yield f"{tokens} tokens", chunks.request_chunk(1024, tokens), min(1024, multiple(tokens, 256))
        lengths = chunks.cut(tokens, 512, stream_all=64)
        fewest = -(-tokens // 512)
        sound = sum(lengths) == tokens and len(lengths) == fewest and max(lengths) <= 512
        yield f"{tokens} cut", sound and all(length % 256 == 0 for length in lengths[:-1]), True
    for tokens, chunk in product((255, 513, 1025, 20_036), (256, 768, 8192)):  # without a short last one
        fewest = -(-tokens // chunk)
        size = next(m for m in range(256, chunk + 1, 256) if m * fewest >= tokens)
        due = [size] * ((tokens - 1) // size)
        yield f"{tokens} cut alike", chunks.cut(tokens, chunk, stream_all=0), [*due, tokens - sum(due)]


def _first_difference(cases: Callable[[], Iterable[tuple[str, Any, Any]]]) -> str:
    asked = 0
    for case, got, due in cases():
        asked += 1
        if got != due:
            return f"{case}: {got}, expected {due}"
    return AGREES if asked else "nothing was asked"


def arithmetic() -> Iterator[Control]:
    """One control for each function that rounds or counts."""
    for name, cases in (
        ("bytes of a segment", _segments),
        ("segments that are too small", _too_small),
        ("pieces rounded up", _rounded),
        ("blocks rounded up", _blocks),
        ("pieces of a range", _cut),
        ("last pieces", _tails),
        ("slots wholly within", _within),
        ("slot of a byte", _at),
        ("slots of their experts' size", _sized),
        ("slots of a loan", _first),
        ("pieces that stay", _mapped),
        ("a workspace fits its count", _fits),
        ("largest chunk and ring", _planned),
        ("slots of a cache", _counted),
        ("chunks of a request", _requests),
    ):
        yield Control(f"memory/{name}", partial(_first_difference, cases), AGREES)
