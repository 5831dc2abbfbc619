"""The memory of a whole engine on a card, planned without the card: cache, reserve, and the prompt's chunk and ring.

Everything is sized for decoding with the output head in, so what is free while decoding is the reserve. A prompt then
is read in the tail of the cache, or also in what only decoding needs (the loan), or also in the head's memory (the
alias).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from strata.executors.base import StrataError
from strata.memory.cache.cache_size import CacheSize, cache_size
from strata.memory.loan.chunks import OWN_CHUNK
from strata.memory.loan.workspace_layout import GRID, LEAST_RING, bytes_needed, coarse_bytes, roundup
from strata.memory.plan import ways
from strata.memory.plan.plan_request import GRANULARITY, Asked, Card
from strata.memory.plan.shapes import MiB
from strata.memory.plan.terms import Term, terms
from strata.memory.plan.ways import Way

#: What system and desktop hold when nobody says what is free, bytes.
SYSTEM = 512 * MiB
#: Keys of what is allocated after the cache.
AFTER_CACHE = ("D", "V")
#: What nobody has measured, and the reserve has to hold.
UNCOUNTED = (
    "the CUDA context and its modules",
    "dense weights of the draft layer, unless --weights holds them",
    "scratch of the head",
)


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
    blob, taken = asked.shape.max_blob, terms(asked)
    nbytes = {term.key: term.nbytes for term in taken}
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
    first = ways.tail(asked, cache)
    beside = ways.beside(asked, cache, room - later - _mapped(asked, cache))
    if beside.plan is not None and first.plan is not None and beside.plan.chunk >= first.plan.chunk:
        first = beside
    elif first.plan is None:
        # Nothing can be lent: the cache leaves room for buffers of the prompt path's own, if there is any.
        cache = size(0, coarse_bytes(OWN_CHUNK))
        first = ways.own(asked, room - later - _mapped(asked, cache), cache.reserve_mib * MiB)
    left = room - later - _mapped(asked, cache)
    found = (first, ways.loan(asked, cache, nbytes), ways.alias(asked, cache, nbytes))
    return MemoryPlan(card, asked, taken, cache, left, found)


def _mapped(asked: Asked, cache: CacheSize) -> int:
    return roundup(cache.slots * asked.shape.max_blob, GRANULARITY)
