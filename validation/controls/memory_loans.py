"""Controls of loans of elastic memory, in whole pieces: what LEND gives away, and what a plan says may be lent.

A piece of which somebody still has a part stays, and a slot that lies partly in what is given away is named no more.
`memory` asks the arithmetic that this is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, product

from strata.memory.arena.pieces import MiB
from strata.memory.cache.cache_size import KEEP_SLOTS, CacheSize
from strata.memory.plan import ways
from strata.memory.plan.plan_request import GRANULARITY, PlanRequest
from strata.memory.plan.shapes import ModelShape
from validation.controls.memory import AGREES
from validation.core.control import Control
from validation.memory.world import GRANULARITY as GRANULE
from validation.memory.world import KINDS, World

_MODEL = ModelShape(layers=4, experts=16)


def _first_wrong(rows: Iterable[tuple[str, object, object]]) -> str:
    """AGREES, or the first row (what, got, due) whose sides differ."""
    return next((f"{what} is {got}, due is {due}" for what, got, due in rows if got != due), AGREES)


def _least(unit: int, nbytes: int) -> int:
    """The least multiple of `unit` that is not below `nbytes`."""
    return next(times * unit for times in count(nbytes // unit) if times * unit >= nbytes)


def _below(off: list[int], boundary: int) -> list[int]:
    return [k for k, end in enumerate(off[1:]) if end <= boundary]


def _loans() -> str:
    """LEND gives the fewest whole pieces that have the bytes, and no slot that lies partly in them stays named."""
    rows: list[tuple[str, object, object]] = []
    for kind, piece in product(KINDS, (3 * GRANULE, 5 * GRANULE, 8 * GRANULE)):
        world = World(kind, piece=piece)
        world.open()
        sizes, off = list(world.cache.arena.sizes), world.slots.off.tolist()
        lent, name = world.lending.lend(1), f"{kind} in pieces of {piece}"
        mapped = world.cache.arena.mapped_bytes
        given = [size for k, size in enumerate(sizes) if sum(sizes[:k]) >= mapped]
        rows += [
            (f"{name}: whole pieces", sum(sizes) - mapped, sum(given)),
            (f"{name}: enough and no more", sum(given) >= MiB > sum(given[1:]), True),
            (f"{name}: the answer", lent.mib, sum(given) // MiB),
            (f"{name}: slots that stay", sorted(world.residents().values()), _below(off, mapped)),
        ]
        world.close()
    return _first_wrong(rows)


def _planned_loans() -> str:
    """What a plan says may be lent: whole segments, and no piece of which a slot that stays has a part."""
    rows: list[tuple[str, object, object]] = []
    keep = KEEP_SLOTS
    for slots, segment in product((keep, keep + 1, keep + 40, keep + 333), (64, 65)):
        request = PlanRequest(shape=_MODEL, segment_mib=segment)
        blob, nbytes = request.shape.max_blob, {"V": 3 * MiB, "X": 5 * MiB + 1, "D": MiB, "H": 7 * MiB + 3}
        cache, piece = CacheSize(slots, 256, False), _least(GRANULARITY // MiB, segment) * MiB
        cached = slots * blob
        whole = next(n for n in count() if (n + 1) * piece > cached + sum(nbytes.values())) * piece
        if cached >= piece >= blob:
            rows.append((f"loan of {slots} by {segment}", ways.loan(request, cache, nbytes).lendable, whole))
        begins = range(0, cached, piece)
        behind = sum(min(piece, _least(GRANULARITY, cached - begin)) for begin in begins if begin >= keep * blob)
        lent = behind + _least(GRANULARITY, nbytes["H"])
        rows.append((f"alias of {slots} by {segment}", ways.alias(request, cache, nbytes).lendable, lent))
    return _first_wrong(rows)


def loans() -> Iterator[Control]:
    """What is given, and what is planned to be."""
    yield Control("memory/what LEND gives", _loans, AGREES)
    yield Control("memory/what a plan lends", _planned_loans, AGREES)
