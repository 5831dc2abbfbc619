"""How many expert slots fit beside everything else, before the cache is opened and after.

Everything that is allocated later comes out of the reserve, so what is known beforehand (`later`) is priced here. A
reading of free memory can be too high under WDDM, where memory counts once it is written: `correction` says what to
give back after the zeroed cache has been read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.executors.base import StrataError
from strata.memory.arena.pieces import GiB, MiB, round_up

#: Slots that a loan leaves outside.
KEEP_SLOTS = 128
#: Reserve where none was given, MiB, and the least to which a small card lowers it.
RESERVE_MIB = 700
LEAST_RESERVE_MIB = 300
#: What a reading after the cache is open may lack of the reserve, bytes.
SETTLED = 64 * MiB
#: A free figure below this says nothing about how much is missing.
BLIND = 16 * MiB
#: Openings that fail and are tried again with 3/4 of the bytes; corrections after an opening that did not fail.
OPEN_RETRIES = 8
CORRECTIONS = 6


@dataclass(frozen=True)
class CacheSize:
    """How large a cache is.

    Parameters
    ----------
    slots
        Slots of the cache.
    reserve_mib
        The reserve that was used, MiB.
    adapted
        Whether the reserve was lowered because the card is small.
    """

    slots: int
    reserve_mib: int
    adapted: bool


def cache_size(
    free: int,
    *,
    max_blob: int,
    rows: int,
    later: int = 0,
    reserve_mib: int | None = None,
    prompt_slots: int = 0,
    prompt_bytes: int = 0,
    granularity: int = 1,
) -> CacheSize:
    """How large a cache in some free memory is.

    Parameters
    ----------
    free
        Bytes that are free.
    max_blob
        Bytes of the largest expert.
    rows
        Experts of the profile; there are no more slots than that.
    later
        Bytes that are allocated after the cache (draft head, logits, verifier).
    reserve_mib
        MiB that stay free; None for the default, which alone a small card may lower.
    prompt_slots
        Slots that the smallest prompt chunk borrows, 0 when the prompt path owns `prompt_bytes`.
    prompt_bytes
        Bytes of the prompt path's own.
    granularity
        Bytes that memory is mapped in, so that the slots' rounding up does not come out of the reserve.

    Raises
    ------
    StrataError
        For negative sizes.
    """
    if min(free, later, rows, prompt_slots, prompt_bytes) < 0 or max_blob < 1 or (reserve_mib or 0) < 0:
        raise StrataError(
            f"cache in {free} bytes free, {later} allocated later, blobs of {max_blob}, reserve {reserve_mib} MiB: "
            "expected sizes that are not negative"
        )
    reserve = RESERVE_MIB if reserve_mib is None else reserve_mib

    def slots(mib: int) -> int:
        return max(0, min(rows, (free - mib * MiB - prompt_bytes - later) // granularity * granularity // max_blob))

    least = min(rows, prompt_slots + KEEP_SLOTS if prompt_slots else 1)
    if reserve_mib is None and slots(reserve) < least:
        left = (free - prompt_bytes - later - round_up(least * max_blob, granularity)) // MiB
        if LEAST_RESERVE_MIB <= left < reserve:
            return CacheSize(slots(left), left, True)
    return CacheSize(slots(reserve), reserve, False)


def sized_slots(blobs: Sequence[int], budget: int) -> int:
    """How many slots of a profile, each cut to its expert, lie in some bytes.

    Parameters
    ----------
    blobs
        Bytes of the profile's experts, hottest first.
    budget
        Bytes of all slots at most.
    """
    used = 0
    for slot, blob in enumerate(blobs):
        used += round_up(blob, 256)
        if used > budget:
            return slot
    return len(blobs)


def next_opening(nbytes: int, failures: int) -> int:
    """Bytes of the next opening after some that failed.

    Memory is charged to the system's commit limit, so an opening can fail while the card has room.

    Parameters
    ----------
    nbytes
        Bytes of the last opening.
    failures
        Openings that failed so far.

    Returns
    -------
    int
        3/4 of the last, 0 when there is no further try.
    """
    return 0 if failures > OPEN_RETRIES else nbytes * 3 // 4


def correction(nbytes: int, free: int, reserve: int, corrections: int) -> int | None:
    """Bytes that an automatic cache keeps once all its slots are written.

    A free figure below 16 MiB says only that too much was taken: then at least 1 GiB goes the first two times, later at
    least a quarter.

    Parameters
    ----------
    nbytes
        Bytes of the cache.
    free
        Bytes that are free, as the driver says.
    reserve
        Bytes that shall be free.
    corrections
        Corrections that were made before; after the sixth the cache stays.

    Returns
    -------
    int or None
        None when the cache stays as it is.
    """
    if free >= reserve - SETTLED or corrections >= CORRECTIONS or nbytes == 0:
        return None
    give = reserve - free + SETTLED
    if free < BLIND:
        give = max(give, GiB if corrections < 2 else nbytes // 4)
    return max(0, nbytes - give)
