"""How an expert cache begins: its memory taken and zeroed, filled from a profile, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from strata.executors.base import StrataError
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.cache_size import correction, next_opening
from strata.memory.cache.slots import Slots
from strata.memory.cache.source import ExpertSource
from strata.memory.driver.driver import Driver, DriverError


def open_cache(
    driver: Driver,
    source: ExpertSource,
    slots: Slots,
    profile: Sequence[int],
    piece: int,
    per_layer: bool = False,
) -> ExpertCache:
    """A cache that is filled with a profile's rows, slots in their order. Rows that the host does not hold are left
    out.

    The memory is zeroed first: a read before a fill is the same every time, and under WDDM it is the card's only then.

    Parameters
    ----------
    driver
        Whose memory it is.
    source
        Every expert's bytes.
    slots
        The slots of the cache.
    profile
        Rows, hottest first.
    piece
        Bytes that memory is mapped in, a multiple of the granularity. An engine's option goes through
        `pieces.segment_bytes`, which refuses less than 64 MiB; smaller ones serve small cards in tests.
    per_layer
        Whether each layer has slots of its own, see `Admission`.

    Raises
    ------
    DriverError, StrataError
        When the card refuses or sizes do not fit, with nothing left on the card.
    Fatal
        When what the card or the table holds is unknown.
    """
    return _filled(_zeroed(driver, source, slots, piece, per_layer), profile)


def open_largest_cache(
    driver: Driver,
    source: ExpertSource,
    slots_of: Callable[[int], Slots | None],
    nbytes: int,
    reserve: int,
    profile: Sequence[int],
    piece: int,
) -> ExpertCache:
    """As `open_cache`, of as many bytes as leave a reserve free, before it is filled.

    An opening that fails is tried again with 3/4 of its bytes; one that leaves too little, now that all of it has been
    written, is given back and made smaller (`cache_size.next_opening`, `correction`).

    Parameters
    ----------
    driver
        Whose memory it is.
    source
        Every expert's bytes.
    slots_of
        The slots that fit into so many bytes, None when not one does.
    nbytes
        Bytes of the cache at most.
    reserve
        Bytes that stay free.
    profile
        Rows, hottest first.
    piece
        Bytes that memory is mapped in, a multiple of the granularity.

    Raises
    ------
    StrataError
        When no size will do, and as `open_cache`, with nothing left on the card.
    DriverError
        When the last try is refused, with nothing left on the card.
    Fatal
        As `open_cache`.
    """
    failures = corrections = 0
    while True:
        slots = slots_of(nbytes) if nbytes > 0 else None
        if slots is None:
            raise StrataError(f"expert cache: no slot fits into {max(nbytes, 0)} bytes beside a reserve of {reserve}")
        try:
            cache = _zeroed(driver, source, slots, piece)
        except DriverError as error:
            if error.sticky:
                raise
            failures += 1
            nbytes = next_opening(nbytes, failures)
            if nbytes == 0:
                raise
            continue
        with _closed_on_failure(cache):
            kept = correction(nbytes, driver.mem_info()[0], reserve, corrections)
        if kept is None:
            return _filled(cache, profile)
        with _closed_on_failure(cache):
            cache.close()
        corrections += 1
        nbytes = kept


def _zeroed(driver: Driver, source: ExpertSource, slots: Slots, piece: int, per_layer: bool = False) -> ExpertCache:
    cache = ExpertCache(driver, source, slots, piece, per_layer)
    with _closed_on_failure(cache):
        driver.fill(cache.base, 0, cache.arena.mapped_bytes)
        cache.residency.upload()
    return cache


def _filled(cache: ExpertCache, profile: Sequence[int]) -> ExpertCache:
    with _closed_on_failure(cache):
        rows = [row for row in dict.fromkeys(profile) if cache.source.has(row)]
        pairs = cache.admission.assign(rows, cache.free_slots())
        cache.install(pairs, cache.sample(sorted(pairs, key=lambda pair: pair[1])))
    return cache


@contextmanager
def _closed_on_failure(cache: ExpertCache) -> Iterator[None]:
    """Whatever is raised inside, an interrupt too, leaves nothing of the cache on the card."""
    try:
        yield
    except BaseException:
        cache.close()
        raise
