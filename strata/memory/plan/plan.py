"""The memory of a whole engine on a card, planned without the card: cache, reserve, and the prompt's chunk and ring.

Everything is sized for decoding with the output head in, so what is free while decoding is the reserve. A prompt then
is read in the tail of the cache, or also in what only decoding needs (the loan), or also in the head's memory (the
alias).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB, round_up
from strata.memory.cache.cache_size import CacheSize, cache_size
from strata.memory.loan.chunks import OWN_CHUNK
from strata.memory.loan.workspace_layout import GRID, LEAST_RING, bytes_needed, coarse_bytes
from strata.memory.plan import ways
from strata.memory.plan.plan_request import GRANULARITY, Card, PlanRequest
from strata.memory.plan.shapes import ModelShape
from strata.memory.plan.ways import Way

#: What system and desktop hold when nobody says what is free, bytes.
SYSTEM = 512 * MiB
#: Keys of what is allocated after the cache.
AFTER_CACHE = ("D", "V")
#: Estimates, of the reference model: dense weights with recurrent state, verifier (window graphs and buffers), bytes;
#: the part of the head's rows that the draft head repeats.
DENSE, VERIFIER = 2400 * MiB, 40 * MiB
DRAFT_ROWS = (2, 5)
#: Keys of what is mapped by itself, each in whole granules.
MAPPED = ("H", "X", "D", "V")
#: What nobody has measured, and the reserve has to hold.
UNCOUNTED = (
    "the CUDA context and its modules",
    "dense weights of the draft layer, unless --weights holds them",
    "scratch of the head",
)


@dataclass(frozen=True)
class Term:
    """Bytes that something takes.

    Parameters
    ----------
    key
        A letter or word, for programs.
    title
        For people.
    nbytes
        How many bytes.
    estimate
        Whether they were not counted from arrays.
    """

    key: str
    title: str
    nbytes: int
    estimate: bool = False


@dataclass(frozen=True)
class MemoryPlan:
    """What a card's memory holds, and how prompts are read in it.

    Parameters
    ----------
    card
        The card.
    request
        What was planned for.
    terms
        What is taken from the card's free memory, in order, but for cache and reserve.
    cache
        How large the cache is.
    left
        Bytes beside the cache, the reserve among them.
    ways
        How prompts are read, the first one without a loan.
    """

    card: Card
    request: PlanRequest
    terms: tuple[Term, ...]
    cache: CacheSize
    left: int
    ways: tuple[Way, ...]

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cache's slots map, whole granules."""
        return _mapped(self.request, self.cache)

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
        return memory_plan(replace(self.card, total=self.card.total + more, free=self.card.free + more), self.request)


def memory_plan(card: Card, request: PlanRequest) -> MemoryPlan:
    """The plan of a card for a model.

    Parameters
    ----------
    card
        The card.
    request
        What to plan for.

    Raises
    ------
    StrataError
        For a card with more free than it has, and for sizes that cannot be.
    """
    if not 0 <= card.free <= card.total:
        raise StrataError(f"{card.free} bytes free of a card of {card.total}: expected 0 to all of them")
    blob, taken = request.shape.max_blob, terms(request)
    nbytes = {term.key: term.nbytes for term in taken}
    later = sum(nbytes.get(key, 0) for key in AFTER_CACHE)
    room = card.free - sum(nbytes.values()) + later

    def size(prompt_slots: int, prompt_bytes: int) -> CacheSize:
        return cache_size(
            max(0, room),
            max_blob=blob,
            rows=request.shape.rows,
            later=later,
            reserve_mib=request.reserve_mib,
            prompt_slots=prompt_slots,
            prompt_bytes=prompt_bytes,
            granularity=GRANULARITY,
        )

    prompt_slots = -(-bytes_needed(GRID, LEAST_RING, request.workspace) // blob)
    cache = size(prompt_slots, 0)
    first = ways.tail(request, cache)
    beside = ways.beside(request, cache, room - later - _mapped(request, cache))
    if beside.plan is not None and first.plan is not None and beside.plan.chunk >= first.plan.chunk:
        first = beside
    elif first.plan is None:
        # Nothing can be lent: the cache leaves room for buffers of the prompt path's own, if there is any.
        cache = size(0, coarse_bytes(OWN_CHUNK))
        first = ways.own(request, room - later - _mapped(request, cache), cache.reserve_mib * MiB)
    left = room - later - _mapped(request, cache)
    found = (first, ways.loan(request, cache, nbytes), ways.alias(request, cache, nbytes))
    return MemoryPlan(card, request, taken, cache, left, found)


def _mapped(request: PlanRequest, cache: CacheSize) -> int:
    return round_up(cache.slots * request.shape.max_blob, GRANULARITY)


def terms(request: PlanRequest) -> tuple[Term, ...]:
    """In the order in which they are taken; the last one is the rounding of those that are mapped by themselves."""
    shape = request.shape
    dense = DENSE * shape.layers * shape.hidden**2 // (ModelShape.layers * ModelShape.hidden**2)
    rows, of = DRAFT_ROWS
    kv = 0 if request.stream_kv else shape.kv_bytes(request.kv, request.context)
    found = [
        Term("dense", "dense weights", dense if request.dense is None else request.dense, request.dense is None),
        Term("kv", f"K and V of {request.context:,} cells, {request.kv}", kv),
        Term("H", f"H: output head, {shape.vocab:,} rows of {shape.head}", shape.head_bytes),
    ]
    if request.mtp:
        found += [
            Term("X", f"X: {shape.experts} draft experts, {'/'.join(shape.mtp)}", shape.experts * shape.mtp_blob),
            Term("D", "D: draft head", shape.head_bytes * rows // of, True),
        ]
    found.append(Term("V", "V: verifier", VERIFIER, True))
    more = sum(-term.nbytes % GRANULARITY for term in found if term.key in MAPPED)
    return (*found, Term("rounding", f"their rounding up to {GRANULARITY // MiB} MiB each", more))
