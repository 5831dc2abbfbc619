"""The memory of a whole engine on a card, planned without the card: cache, reserve, and the prompt's chunk and ring.

Everything is sized for decoding with the output head in, so what is free while decoding is the reserve. A prompt then
is read in the tail of the cache, or also in what only decoding needs (the loan), or also in the head's memory (the
alias).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from strata.executors.base import StrataError
from strata.memory.cache_size import CacheSize, cache_size
from strata.memory.carve import GRID, LEAST_RING, bytes_needed, coarse_bytes, roundup
from strata.memory.chunks import KEEP_SLOTS, OWN_CHUNK, OWN_MARGIN, lend_percent, own_chunk
from strata.memory.pieces import cut, segment_bytes
from strata.memory.prompt_plan import MOST_CHUNK, PromptPlan, prompt_plan
from strata.memory.rejections import Setup, alias_rejections, loan_rejections
from strata.memory.resources import DEPENDENCIES, closure
from strata.memory.shapes import MiB, ModelShape

#: Granularity of physical memory on the cards that were seen, bytes.
GRANULARITY = 2 * MiB
#: What system and desktop hold when nobody says what is free, bytes.
SYSTEM = 512 * MiB
#: Estimates, of the reference model: dense weights with recurrent state, verifier (window graphs and buffers), bytes;
#: the part of the head's rows that the draft head repeats.
DENSE, VERIFIER = 2400 * MiB, 40 * MiB
DRAFT_ROWS = (2, 5)
#: Keys of what is allocated after the cache.
AFTER_CACHE = ("D", "V")
#: Keys of what is mapped by itself, each in whole granules.
MAPPED = ("H", "X", "D", "V")
#: What nobody has measured, and the reserve has to hold.
UNCOUNTED = (
    "the CUDA context and its modules",
    "dense weights of the draft layer, unless --weights holds them",
    "scratch of the head",
)
#: The largest context, cells: a bound on the lists that a plan prints.
MOST_CONTEXT = 1 << 24


@dataclass(frozen=True)
class Card:
    """total: of the card; free: before the engine loads anything; assumed: `free` was not given."""

    total: int
    free: int
    assumed: bool = False


@dataclass(frozen=True)
class Asked:
    """What to plan for. kv: a mode of the KV pool; dense: bytes of dense weights, None for the estimate; reserve_mib:
    None for the default, which alone a small card lowers; pinned: share of the experts in page-locked memory;
    segment_mib: of the pieces that memory is lent in; mtp: whether there is a draft layer; stream_kv: K and V stay in
    host memory, and the workspace holds one layer's while a chunk is read; lent: resources that the loan takes, with
    whatever depends on them."""

    shape: ModelShape = field(default_factory=ModelShape)
    context: int = 32_768
    kv: str = "q4_0"
    dense: int | None = None
    reserve_mib: int | None = None
    pinned: float = 1.0
    segment_mib: int = 64
    mtp: bool = True
    stream_kv: bool = False
    lent: tuple[str, ...] = ("V", "X", "D", "H")

    def __post_init__(self) -> None:
        if not 1 <= self.context <= MOST_CONTEXT:
            raise StrataError(f"context of {self.context} cells: expected 1 to {MOST_CONTEXT}")
        if not 0 <= self.pinned <= 1:
            raise StrataError(f"pinned share {self.pinned}: expected 0 to 1")
        segment_bytes(self.segment_mib, GRANULARITY)

    @property
    def workspace(self) -> ModelShape:
        """The shape that the workspace is counted with."""
        return replace(self.shape, kv_stage=self.shape.layer_kv_bytes(self.kv, self.context) if self.stream_kv else 0)


@dataclass(frozen=True)
class Term:
    """Bytes that something takes. estimate: not counted from arrays."""

    key: str
    title: str
    nbytes: int
    estimate: bool = False


@dataclass(frozen=True)
class Way:
    """A way to read a prompt. lendable: bytes, from where `note` says; plan: None when 256 tokens do not fit."""

    key: str
    title: str
    lendable: int
    plan: PromptPlan | None
    note: str


@dataclass(frozen=True)
class MemoryPlan:
    """terms: what is taken from the card's free memory, in order, but for cache and reserve; left: bytes beside the
    cache, the reserve among them; ways: how prompts are read, the first one without a loan."""

    card: Card
    asked: Asked
    terms: tuple[Term, ...]
    cache: CacheSize
    left: int
    ways: tuple[Way, ...]

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cache's slots map, whole granules."""
        return _mapped(self.asked, self.cache)

    @property
    def own_bytes(self) -> int:
        """Of `left`, the prompt path's own buffers; 0 where it borrows them."""
        way = self.ways[0]
        return way.plan.nbytes if way.key == "own" and way.plan is not None else 0

    @property
    def fits(self) -> bool:
        """Whether everything has its memory, the reserve too, there is a cache, and any prompt can be read without a
        loan."""
        enough = self.left - self.own_bytes >= self.cache.reserve_mib * MiB
        return enough and self.cache.slots > 0 and self.ways[0].plan is not None

    @cached_property
    def short(self) -> int:
        """Bytes that are missing; 0 when it fits. With so many more it does, with one less it does not."""
        if self.fits:
            return 0
        lacks, enough = 0, MiB
        while not self._with(enough).fits:
            lacks, enough = enough, 2 * enough
        while enough - lacks > 1:
            middle = (lacks + enough) // 2
            if self._with(middle).fits:
                enough = middle
            else:
                lacks = middle
        return enough

    def _with(self, more: int) -> MemoryPlan:
        """The plan of a card with so many more bytes."""
        return memory_plan(replace(self.card, total=self.card.total + more, free=self.card.free + more), self.asked)


def memory_plan(card: Card, asked: Asked) -> MemoryPlan:
    """The plan. Raises StrataError for a card with more free than it has."""
    if not 0 <= card.free <= card.total:
        raise StrataError(f"{card.free} bytes free of a card of {card.total}: expected 0 to all of them")
    blob, terms = asked.shape.max_blob, _terms(asked)
    nbytes = {term.key: term.nbytes for term in terms}
    later = sum(nbytes.get(key, 0) for key in AFTER_CACHE)
    room = card.free - sum(nbytes.values()) + later

    def size(prompt_slots: int, prompt_bytes: int) -> CacheSize:
        return cache_size(
            max(0, room),
            max_blob=blob,
            rows=asked.shape.rows,
            later=later,
            reserve_mib=asked.reserve_mib,
            prompt_slots=prompt_slots,
            prompt_bytes=prompt_bytes,
            granularity=GRANULARITY,
        )

    prompt_slots = -(-bytes_needed(GRID, LEAST_RING, asked.workspace) // blob)
    cache = size(prompt_slots, 0)
    first = _tail(asked, cache)
    beside = _beside(asked, cache, room - later - _mapped(asked, cache))
    if beside.plan is not None and first.plan is not None and beside.plan.chunk >= first.plan.chunk:
        first = beside
    elif first.plan is None:
        # Nothing can be lent: the cache leaves room for buffers of the prompt path's own, if there is any.
        cache = size(0, coarse_bytes(OWN_CHUNK))
        first = _own(asked, room - later - _mapped(asked, cache), cache.reserve_mib * MiB)
    left = room - later - _mapped(asked, cache)
    ways = (first, _loan(asked, cache, nbytes), _alias(asked, cache, nbytes))
    return MemoryPlan(card, asked, terms, cache, left, ways)


def _terms(asked: Asked) -> tuple[Term, ...]:
    shape = asked.shape
    dense = DENSE * shape.layers * shape.hidden**2 // (ModelShape.layers * ModelShape.hidden**2)
    rows, of = DRAFT_ROWS
    kv = 0 if asked.stream_kv else shape.kv_bytes(asked.kv, asked.context)
    found = [
        Term("dense", "dense weights", dense if asked.dense is None else asked.dense, asked.dense is None),
        Term("kv", f"K and V of {asked.context:,} cells, {asked.kv}", kv),
        Term("H", f"H: output head, {shape.vocab:,} rows of {shape.head}", shape.head_bytes),
    ]
    if asked.mtp:
        found += [
            Term("X", f"X: {shape.experts} draft experts, {'/'.join(shape.mtp)}", shape.experts * shape.mtp_blob),
            Term("D", "D: draft head", shape.head_bytes * rows // of, True),
        ]
    found.append(Term("V", "V: verifier", VERIFIER, True))
    more = sum(-term.nbytes % GRANULARITY for term in found if term.key in MAPPED)
    return (*found, Term("rounding", f"their rounding up to {GRANULARITY // MiB} MiB each", more))


def _mapped(asked: Asked, cache: CacheSize) -> int:
    return roundup(cache.slots * asked.shape.max_blob, GRANULARITY)


def _way(asked: Asked, key: str, title: str, lendable: int, note: str) -> Way:
    most = max(GRID, min(MOST_CHUNK, roundup(asked.context, GRID)))
    return Way(key, title, lendable, prompt_plan(lendable, asked.workspace, most_chunk=most), note)


def _tail(asked: Asked, cache: CacheSize) -> Way:
    """Slots of the tail, behind those that stay, and no more than the share that is sensible to refill."""
    percent = lend_percent(asked.pinned)
    slots = max(0, min(cache.slots - KEEP_SLOTS, percent * cache.slots // 100))
    note = f"{slots:,} slots: {KEEP_SLOTS} stay, {percent} % at most"
    return _way(asked, "tail", "in the tail of the cache", slots * asked.shape.max_blob, note)


def _beside(asked: Asked, cache: CacheSize, left: int) -> Way:
    """Buffers of the prompt path's own beside a cache that has a slot for every expert: borrowing would only evict."""
    lendable = left - max(cache.reserve_mib * MiB, OWN_MARGIN) if cache.slots == asked.shape.rows else 0
    return _way(asked, "own", "in buffers of its own", max(0, lendable), "every expert has a slot beside them")


def _own(asked: Asked, left: int, reserve: int) -> Way:
    """Buffers of the prompt path's own, in what is left, of which the reserve must stay, and no less than 512 MiB."""
    free = left - max(0, reserve - OWN_MARGIN)
    chunk = own_chunk(OWN_CHUNK, free, lambda tokens: bytes_needed(tokens, LEAST_RING, asked.workspace))
    plan = prompt_plan(free, asked.workspace, most_chunk=chunk, most_ring=LEAST_RING) if chunk else None
    lendable = max(0, left - max(reserve, OWN_MARGIN))
    return Way("own", "in buffers of its own", lendable, plan, "the cache is too small to lend")


def _loan(asked: Asked, cache: CacheSize, nbytes: dict[str, int]) -> Way:
    """All slots, down to the first, and what decoding alone needs, in whole segments.

    The loan's cache has segments both while it decodes and while it reads: what the last slots have beyond a boundary
    is free while decoding, and counts again when the cache grows.
    """
    rejections = loan_rejections(Setup(mtp=asked.mtp))
    if rejections:
        return Way("loan", "with the loan", 0, None, rejections[0].sentence)
    piece = segment_bytes(asked.segment_mib, GRANULARITY)
    gone = closure(asked.lent, DEPENDENCIES)
    lent = [key for key in nbytes if key in gone]
    cached = cache.slots * asked.shape.max_blob
    decode = cached // piece * piece
    if decode < asked.shape.max_blob:
        note = f"{cache.slots} slots do not fill a segment of {piece // MiB} MiB"
        return Way("loan", "with the loan", 0, None, note)
    given = sum(nbytes[key] for key in lent)
    lendable = (cached + given) // piece * piece
    slots = decode // asked.shape.max_blob
    note = (
        f"all slots, and what {' '.join(lent)} take: whole segments of {piece // MiB} MiB in "
        f"{cached / MiB:,.1f} + {given / MiB:,.1f}; {slots:,} slots while decoding"
    )
    return _way(asked, "loan", "with the loan", lendable, note)


def _alias(asked: Asked, cache: CacheSize, nbytes: dict[str, int]) -> Way:
    """Whole pieces of the tail, and the head's."""
    rejections = alias_rejections(Setup(mtp=asked.mtp))
    if rejections:
        return Way("alias", "with the head alias", 0, None, rejections[0].sentence)
    if not cache.slots:
        return Way("alias", "with the head alias", 0, None, "there is no cache")
    keep = KEEP_SLOTS * asked.shape.max_blob
    piece = segment_bytes(asked.segment_mib, GRANULARITY)
    sizes = cut(cache.slots * asked.shape.max_blob, piece, GRANULARITY)
    whole = sum(size for k, size in enumerate(sizes) if sum(sizes[:k]) >= keep)
    note = f"whole pieces of {piece // MiB} MiB behind {KEEP_SLOTS} slots, and what H takes"
    return _way(asked, "alias", "with the head alias", whole + roundup(nbytes["H"], GRANULARITY), note)
