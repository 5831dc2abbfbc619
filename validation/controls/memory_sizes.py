"""Controls of sizes of elastic memory: each is the least or the largest that its definition allows, found by trying.

Nothing here rounds: a size is looked for step by step, so that a floor where a ceiling belongs, a size that was left
unrounded, or a piece that somebody still needs a part of is found wherever it makes a difference. Sizes are odd on
purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, pairwise, product

from strata.executors.base import StrataError
from strata.memory import carve, chunks, plan_ways, tail
from strata.memory.cache_size import CacheSize, cache_size, sized_slots
from strata.memory.geometry import ExpertGeometry
from strata.memory.pieces import MIB, cut, round_up, segment_bytes
from strata.memory.pieces import tail as last_pieces
from strata.memory.plan_asked import GRANULARITY, Asked
from strata.memory.prompt_plan import prompt_plan
from strata.memory.shapes import ModelShape
from strata.memory.slots import sized_slots as cut_slots
from strata.memory.slots import uniform_slots
from validation.controls.control import Control
from validation.memory.world import GRANULARITY as GRANULE
from validation.memory.world import KINDS, World

RIGHT = "right"
_UNITS = (1, 2, 3, 4, 7, 16)
_BLOBS = (5, 300, 256, 257, 511, 1)
_MODEL = ModelShape(layers=4, experts=16)


def _first_wrong(rows: Iterable[tuple[str, object, object]]) -> str:
    """RIGHT, or the first row (what, got, due) whose sides differ."""
    return next((f"{what} is {got}, due is {due}" for what, got, due in rows if got != due), RIGHT)


def _least(unit: int, nbytes: int) -> int:
    """The least multiple of `unit` that is not below `nbytes`."""
    return next(times * unit for times in count(nbytes // unit) if times * unit >= nbytes)


def _rounding(of: Callable[[int, int], int]) -> str:
    return _first_wrong((f"{n} to {unit}", of(n, unit), _least(unit, n)) for unit in _UNITS for n in range(40))


def _segments() -> str:
    rows = [
        (f"{mib} MiB in {unit} MiB", segment_bytes(mib, unit * MIB) // MIB * MIB, _least(unit, mib) * MIB)
        for mib, unit in product((64, 65, 66, 67, 127, 129), (1, 2, 3, 5, 64, 128))
    ]
    exact = [
        (f"{mib} MiB in {unit} MiB", segment_bytes(mib, unit * MIB) % (unit * MIB), 0)
        for mib, unit in product((64, 65, 129), (2, 3, 5))
    ]
    return _first_wrong([*rows, *exact])


def _cut() -> str:
    rows: list[tuple[str, object, object]] = []
    for total, unit, times in product(range(1, 40), (1, 2, 3, 4), (1, 2, 3)):
        piece, name = unit * times, f"{total} bytes in pieces of {unit * times} by {unit}"
        sizes = cut(total, piece, unit)
        rows += [
            (f"all of {name}", sum(sizes), _least(unit, total)),
            (f"pieces but the last of {name}", set(sizes[:-1]) <= {piece}, True),
            (f"the last of {name}", 0 < sizes[-1] <= piece and sizes[-1] % unit == 0, True),
        ]
    return _first_wrong(rows)


def _pieces_of_a_loan() -> str:
    """The fewest last pieces that have the bytes, and never all of them."""
    rows: list[tuple[str, object, object]] = []
    for sizes in ([8, 8, 8, 3], [8, 8], [5], [7, 7, 7]):
        for nbytes in range(1, sum(sizes) + 3):
            firsts = [k for k in range(1, len(sizes)) if sum(sizes[k:]) >= nbytes]
            due = (max(firsts), sum(sizes[: max(firsts)]), sum(sizes[max(firsts) :])) if firsts else None
            got = last_pieces(sizes, nbytes)
            rows.append((f"{nbytes} of {sizes}", None if got is None else tuple(got), due))
    return _first_wrong(rows)


def _slots_within() -> str:
    """A slot that a boundary cuts is not inside it."""
    geometry = ExpertGeometry(2, 4, (300, 511))
    rows: list[tuple[str, object, object]] = []
    for slots in (uniform_slots(geometry, 5), cut_slots(geometry, [0, 5, 1, 6], 2300)):
        off = slots.off.tolist()
        edges = sorted({edge + step for edge in off for step in (-1, 0, 1) if edge + step >= 0})
        for edge in edges:
            rows.append((f"slots in {edge} of {off}", slots.within(edge), sum(end <= edge for end in off[1:])))
        for k, (begin, end) in enumerate(pairwise(off)):
            rows.append((f"slot {k} of {off}", end - begin >= 300 and (slots.sized is False or begin % 256 == 0), True))
    return _first_wrong(rows)


def _offsets() -> str:
    """Offsets of slots cut to their experts, and how many lie in a budget."""
    off = [0]
    rows: list[tuple[str, object, object]] = []
    for blob in _BLOBS:
        off.append(off[-1] + _least(256, blob))
    rows.append(("offsets", tail.sized(_BLOBS), off))
    for budget in sorted({edge + step for edge in off for step in (-1, 0, 1) if edge + step >= 0}):
        rows.append((f"slots in {budget}", sized_slots(_BLOBS, budget), sum(end <= budget for end in off[1:])))
    return _first_wrong(rows)


def _tails() -> str:
    """Which slots hold a number of bytes at the end, or in front behind those that stay."""
    rows: list[tuple[str, object, object]] = []
    off = tail.sized(_BLOBS)
    slots = len(off) - 1
    for keep, nbytes in product(range(slots + 1), sorted({edge + step for edge in off for step in (0, 1)} - {0})):
        begins = [k for k in range(keep, slots + 1) if off[slots] - off[k] >= nbytes]
        ends = [k for k in range(keep, slots + 1) if off[k] - off[keep] >= nbytes]
        rows += [
            (f"first slot of {nbytes} behind {keep}", tail.first(off, nbytes, keep), max(begins, default=-1)),
            (f"fewest slots of {nbytes} behind {keep}", tail.floor(off, nbytes, keep), min(ends, default=-1)),
        ]
    for kept, quantum in product(range(slots + 1), (64, 100, 256, 1000)):
        rows.append((f"mapped under {kept} by {quantum}", tail.mapped(off, kept, quantum), _least(quantum, off[kept])))
    return _first_wrong(rows)


def _cache() -> str:
    """The most slots whose mapped bytes leave the reserve."""
    rows: list[tuple[str, object, object]] = []
    for blob, unit, free in product((3, 10, 64), (1, 7, 16), (0, 63, 64, 65, 200, 333)):
        got = cache_size(free + MIB, max_blob=blob, rows=20, reserve_mib=1, granularity=unit).slots
        due = max((n for n in range(21) if _least(unit, n * blob) <= free), default=0)
        rows.append((f"slots of {blob} in {free} by {unit}", got, due))
    return _first_wrong(rows)


def _chunks() -> str:
    """Chunks on their grid: enough for the tokens, and none that could be left out or smaller."""
    grid = carve.GRID
    rows: list[tuple[str, object, object]] = []
    for tokens in (1, 255, 256, 257, 511, 513, 1025, 20_036):
        got = chunks.request_chunk(64 * grid, tokens)
        rows.append((f"chunk of {tokens}", got, min(64 * grid, _least(grid, tokens))))
        for chunk in (grid, 3 * grid, 32 * grid):
            lengths = chunks.cut(tokens, chunk, stream_all=0)
            parts = next(n for n in count(1) if n * chunk >= tokens)
            size = next(n for n in range(grid, chunk + 1, grid) if n * parts >= tokens)
            due = [size] * len(lengths[:-1]) + [tokens - size * len(lengths[:-1])]
            rows += [
                (f"parts of {tokens} by {chunk}", lengths, due),
                (f"their number, {tokens}", len(lengths) <= parts, True),
            ]
    return _first_wrong(rows)


def _prompt() -> str:
    """The largest chunk, and then the largest ring, whose workspace fits."""
    rows: list[tuple[str, object, object]] = []
    needs = partial(carve.bytes_needed, shape=_MODEL)
    for chunk, ring, step in product((1, 2, 5), (8, 9, 20), (-1, 0, 1)):
        lendable = needs(chunk * carve.GRID, ring) + step
        got = prompt_plan(lendable, _MODEL, most_chunk=8 * carve.GRID, most_ring=24)
        fits = [n * carve.GRID for n in range(1, 9) if needs(n * carve.GRID, 8) <= lendable]
        rings = [n for n in range(8, 25) if fits and needs(fits[-1], n) <= lendable]
        due = (fits[-1], rings[-1]) if fits else None
        rows.append((f"plan in {lendable}", None if got is None else (got.chunk, got.ring), due))
    return _first_wrong(rows)


def _carved() -> str:
    """What a count says is enough at every address, and blocks begin at multiples of 256."""
    rows: list[tuple[str, object, object]] = []
    for base in (0, 1, 255, 256, 257, 4095):
        placed, counted = carve.Walk(base), carve.Walk()
        for number, nbytes in enumerate((0, 1, 255, 256, 257, 1000)):
            for walk in (placed, counted):
                walk.block(f"block {number}", nbytes, 1)
        starts = [block.address for block in placed.blocks]
        ends = [base, *(block.address + block.nbytes for block in placed.blocks)]
        rows += [
            (f"starts at {base}", [start % 256 for start in starts], [0] * len(starts)),
            (f"gaps at {base}", starts, [_least(256, end) for end in ends[:-1]]),
            (f"count at {base}", placed.used <= counted.used, True),
        ]
    return _first_wrong(rows)


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
            (f"{name}: enough and no more", sum(given) >= MIB > sum(given[1:]), True),
            (f"{name}: the answer", lent.mib, sum(given) // MIB),
            (f"{name}: slots that stay", sorted(world.residents().values()), _below(off, mapped)),
        ]
        world.close()
    return _first_wrong(rows)


def _planned_loans() -> str:
    """What a plan says may be lent: whole segments, and no piece of which a slot that stays has a part."""
    rows: list[tuple[str, object, object]] = []
    keep = chunks.KEEP_SLOTS
    for slots, segment in product((keep, keep + 1, keep + 40, keep + 333), (64, 65)):
        asked = Asked(shape=_MODEL, segment_mib=segment)
        blob, nbytes = asked.shape.max_blob, {"V": 3 * MIB, "X": 5 * MIB + 1, "D": MIB, "H": 7 * MIB + 3}
        cache, piece = CacheSize(slots, 256, False), _least(GRANULARITY // MIB, segment) * MIB
        cached = slots * blob
        whole = next(n for n in count() if (n + 1) * piece > cached + sum(nbytes.values())) * piece
        if cached >= piece >= blob:
            rows.append((f"loan of {slots} by {segment}", plan_ways.loan(asked, cache, nbytes).lendable, whole))
        begins = range(0, cached, piece)
        behind = sum(min(piece, _least(GRANULARITY, cached - begin)) for begin in begins if begin >= keep * blob)
        lent = behind + _least(GRANULARITY, nbytes["H"])
        rows.append((f"alias of {slots} by {segment}", plan_ways.alias(asked, cache, nbytes).lendable, lent))
    return _first_wrong(rows)


def _small_segment() -> str:
    try:
        return f"63 MiB is {segment_bytes(63, MIB)} bytes"
    except StrataError:
        return RIGHT


def sizes() -> Iterator[Control]:
    """One for each kind of size."""
    rows: tuple[tuple[str, Callable[[], str]], ...] = (
        ("multiples of a granularity", partial(_rounding, round_up)),
        ("multiples of an alignment", partial(_rounding, carve.roundup)),
        ("segments are rounded up", _segments),
        ("segments below 64 MiB are refused", _small_segment),
        ("pieces of a range", _cut),
        ("pieces of a loan", _pieces_of_a_loan),
        ("slots within a boundary", _slots_within),
        ("offsets of slots", _offsets),
        ("slots at the end", _tails),
        ("slots of a cache", _cache),
        ("chunks of a prompt", _chunks),
        ("chunk and ring that fit", _prompt),
        ("blocks of a workspace", _carved),
        ("what LEND gives", _loans),
        ("what a plan lends", _planned_loans),
    )
    for name, ask in rows:
        yield Control(f"size/{name}", ask, RIGHT)
