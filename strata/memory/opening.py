"""How an expert cache begins: its memory taken and zeroed, filled from a profile, and read back."""

from __future__ import annotations

from collections.abc import Sequence

from strata.executors.base import StrataError
from strata.memory.cache import ExpertCache
from strata.memory.driver import Driver, DriverError
from strata.memory.slots import Slots
from strata.memory.source import ExpertSource


def open_cache(
    driver: Driver,
    source: ExpertSource,
    slots: Slots,
    profile: Sequence[int],
    piece: int,
    per_layer: bool = False,
) -> ExpertCache:
    """A cache of `slots`, filled with the profile's rows (hottest first, slots in their order).

    piece: bytes that memory is mapped in, a multiple of the granularity. The memory is zeroed first: a read before a
    fill is the same every time, and under WDDM it is the card's only then. Rows that the host does not hold are left
    out. Raises DriverError or StrataError, with nothing left on the card, or Fatal.
    """
    cache = ExpertCache(driver, source, slots, piece, per_layer)
    try:
        driver.fill(cache.base, 0, cache.arena.mapped_bytes)
        cache.residency.upload()
        rows = [row for row in dict.fromkeys(profile) if source.has(row)]
        pairs = cache.admission.assign(rows, cache.free_slots())
        cache.install(pairs, cache.sample(sorted(pairs, key=lambda pair: pair[1])))
    except (DriverError, StrataError):
        cache.close()
        raise
    return cache
