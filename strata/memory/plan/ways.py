"""The ways in which a prompt may be read, each with the bytes that it can lend and the plan that fits them.

In the tail of the cache, in buffers of its own, in the tail and what only decoding needs (the loan), in the tail and
the head's memory (the alias).
"""

from __future__ import annotations

from dataclasses import dataclass

from strata.memory.arena.pieces import MiB, round_up, segment_bytes
from strata.memory.cache.cache_size import KEEP_SLOTS, CacheSize
from strata.memory.loan.chunks import OWN_CHUNK, OWN_MARGIN, lend_percent, own_chunk
from strata.memory.loan.prompt_plan import MOST_CHUNK, PromptPlan, prompt_plan
from strata.memory.loan.rejections import EngineSetup, alias_rejections, loan_rejections
from strata.memory.loan.resources import DEPENDENCIES, closure
from strata.memory.loan.workspace_layout import GRID, LEAST_RING, bytes_needed
from strata.memory.plan.plan_request import GRANULARITY, PlanRequest


@dataclass(frozen=True)
class Way:
    """A way to read a prompt.

    Parameters
    ----------
    key
        A word, for programs.
    title
        For people.
    lendable
        Bytes, from where `note` says.
    plan
        None when 256 tokens do not fit.
    note
        Where the bytes come from, or why there are none.
    """

    key: str
    title: str
    lendable: int
    plan: PromptPlan | None
    note: str


def _way(request: PlanRequest, key: str, title: str, lendable: int, note: str) -> Way:
    plan = prompt_plan(lendable, request.workspace, most_chunk=_most(request, MOST_CHUNK))
    return Way(key, title, lendable, plan, note)


def _most(request: PlanRequest, chunk: int) -> int:
    """The largest chunk up to `chunk`: no more of the grid than the longest prompt fills."""
    return max(GRID, min(chunk, round_up(request.context, GRID)))


def tail(request: PlanRequest, cache: CacheSize) -> Way:
    """In slots of the tail, behind those that stay, and no more than the share that is sensible to refill.

    Parameters
    ----------
    request
        What is planned for.
    cache
        How large the cache is.
    """
    percent = lend_percent(request.pinned)
    slots = max(0, min(cache.slots - KEEP_SLOTS, percent * cache.slots // 100))
    note = f"{slots:,} slots: {KEEP_SLOTS} stay, {percent} % at most"
    return _way(request, "tail", "in the tail of the cache", slots * request.shape.max_blob, note)


def beside(request: PlanRequest, cache: CacheSize, left: int) -> Way:
    """In buffers of the prompt path's own beside a cache that has a slot for every expert: borrowing would only evict.

    Parameters
    ----------
    request
        What is planned for.
    cache
        How large the cache is.
    left
        Bytes beside the cache.
    """
    lendable = left - max(cache.reserve_mib * MiB, OWN_MARGIN) if cache.slots == request.shape.rows else 0
    return _way(request, "own", "in buffers of its own", max(0, lendable), "every expert has a slot beside them")


def own(request: PlanRequest, left: int, reserve: int) -> Way:
    """In buffers of the prompt path's own, in what is left, of which the reserve must stay, and no less than 512 MiB.

    Parameters
    ----------
    request
        What is planned for.
    left
        Bytes beside the cache.
    reserve
        Bytes that stay free.
    """
    free = left - max(0, reserve - OWN_MARGIN)
    asked = _most(request, OWN_CHUNK)
    chunk = own_chunk(asked, free, lambda tokens: bytes_needed(tokens, LEAST_RING, request.workspace))
    plan = prompt_plan(free, request.workspace, most_chunk=chunk, most_ring=LEAST_RING) if chunk else None
    lendable = max(0, left - max(reserve, OWN_MARGIN))
    return Way("own", "in buffers of its own", lendable, plan, "the cache is too small to lend")


def loan(request: PlanRequest, cache: CacheSize, nbytes: dict[str, int]) -> Way:
    """In all slots, down to the first, and what decoding alone needs, in whole segments.

    The loan's cache has segments both while it decodes and while it reads: what the last slots have beyond a boundary
    is free while decoding, and counts again when the cache grows.

    Parameters
    ----------
    request
        What is planned for.
    cache
        How large the cache is.
    nbytes
        Bytes of each term, by its key.
    """
    rejections = loan_rejections(EngineSetup(mtp=request.mtp))
    if rejections:
        return Way("loan", "with the loan", 0, None, rejections[0].sentence)
    piece = segment_bytes(request.segment_mib, GRANULARITY)
    gone = closure(request.lent, DEPENDENCIES)
    lent = [key for key in nbytes if key in gone]
    cached = cache.slots * request.shape.max_blob
    decode = cached // piece * piece
    if decode < request.shape.max_blob:
        note = f"{cache.slots} slots do not fill a segment of {piece // MiB} MiB"
        return Way("loan", "with the loan", 0, None, note)
    given = sum(nbytes[key] for key in lent)
    lendable = (cached + given) // piece * piece
    slots = decode // request.shape.max_blob
    note = (
        f"all slots, and what {' '.join(lent)} take: whole segments of {piece // MiB} MiB in "
        f"{cached / MiB:,.1f} + {given / MiB:,.1f}; {slots:,} slots while decoding"
    )
    return _way(request, "loan", "with the loan", lendable, note)


def alias(request: PlanRequest, cache: CacheSize, nbytes: dict[str, int]) -> Way:
    """In whole pieces of the tail, and the head's.

    Parameters
    ----------
    request
        What is planned for.
    cache
        How large the cache is.
    nbytes
        Bytes of each term, by its key.
    """
    rejections = alias_rejections(EngineSetup(mtp=request.mtp))
    if rejections:
        return Way("alias", "with the head alias", 0, None, rejections[0].sentence)
    if not cache.slots:
        return Way("alias", "with the head alias", 0, None, "there is no cache")
    keep = KEEP_SLOTS * request.shape.max_blob
    piece = segment_bytes(request.segment_mib, GRANULARITY)
    # Pieces begin at multiples of their size, so the first behind `keep` bytes begins where these are rounded up.
    whole = max(0, round_up(cache.slots * request.shape.max_blob, GRANULARITY) - round_up(keep, piece))
    note = f"whole pieces of {piece // MiB} MiB behind {KEEP_SLOTS} slots, and what H takes"
    return _way(request, "alias", "with the head alias", whole + round_up(nbytes["H"], GRANULARITY), note)
