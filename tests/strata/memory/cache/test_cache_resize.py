"""A cache that is made smaller and larger."""

from __future__ import annotations

import numpy as np
import pytest

from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.cache.cache_resize import Resizing
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.residency import MISS
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.driver.fault_plan import Fail
from strata.memory.loan.lending import Lending
from tests.strata.memory.cache.caches import (
    GEOMETRY,
    PIECE,
    PROFILE,
    SOURCE,
    assert_nothing_left,
    assert_sound,
    fake,
    slots,
    small_cache,
    watch,
)


def test_a_cache_shrinks_and_grows_back_to_what_it_was(kind: str) -> None:
    cache, driver = small_cache(kind)
    lies = watch(driver, cache)
    table, full = cache.residency.host.copy(), len(cache.slots)
    resizing = Resizing(cache)
    small = resizing.shrink(5 * PIECE + 1)
    assert small.mapped == cache.arena.mapped_bytes == 6 * PIECE
    assert small.slots == cache.slots.within(6 * PIECE) == full - small.experts
    assert_sound(cache, driver)
    middle = resizing.grow(9 * PIECE - 1)
    assert middle.mapped == 8 * PIECE
    assert middle.experts == middle.slots - small.slots
    assert_sound(cache, driver)
    assert resizing.grow(1 << 40) == (full, cache.arena.reserved, full - middle.slots)
    assert np.array_equal(cache.residency.host, table)
    assert_sound(cache, driver)
    assert lies == []
    assert driver.misuse == []


def test_growth_stops_where_the_card_refuses_and_fills_what_was_mapped() -> None:
    cache, driver = small_cache()
    resizing = Resizing(cache)
    small = resizing.shrink(PIECE)
    driver.card.take("other", driver.card.reported_free - 3 * PIECE - 100)
    grown = resizing.grow(1 << 40)
    assert grown.mapped == 4 * PIECE
    assert grown.slots == cache.slots.within(4 * PIECE) == small.slots + grown.experts
    assert_sound(cache, driver)
    driver.card.leave("other")
    resizing.grow(1 << 40)
    assert len(resizing.book) == 0
    assert_sound(cache, driver)


def test_a_returning_slot_whose_expert_is_elsewhere_gets_the_hottest_miss_of_its_layer() -> None:
    cache, driver = small_cache("uniform")
    tier = AdaptiveTier(cache, Pace(every=1))
    resizing = Resizing(cache, tier.hottest_miss)
    resizing.shrink(6 * PIECE)
    evicted = dict(iter(resizing.book))
    hot = next(iter(evicted))
    layer = GEOMETRY.expert(hot)[0]
    tier.count([hot] * 9)
    assert [swap.incoming for swap in tier.end_window()] == [hot]
    cache.begin_window()
    assert cache.residency.slot(hot) < cache.usable_slots()
    never = [
        row for row in range(30 * layer, 30 * layer + 30) if cache.residency.slot(row) == MISS and row not in evicted
    ]
    tier.count([never[1]] * 5)
    resizing.grow(1 << 40)
    assert cache.residency.row(evicted[hot]) == never[1]
    assert len(resizing.book) == 0
    assert_sound(cache, driver)


def test_without_a_replacement_such_a_slot_stays_empty_and_admits() -> None:
    cache, driver = small_cache("uniform")
    tier = AdaptiveTier(cache, Pace(every=1))
    resizing = Resizing(cache)
    resizing.shrink(6 * PIECE)
    hot, slot = next(iter(resizing.book))
    tier.count([hot] * 9)
    tier.end_window()
    resizing.grow(1 << 40)
    assert cache.residency.row(slot) == MISS
    other = next(row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS)
    assert cache.admit(other) == slot
    assert_sound(cache, driver)


def test_a_row_that_was_evicted_twice_comes_back_once() -> None:
    cache, driver = small_cache("uniform")
    tier = AdaptiveTier(cache, Pace(every=1))
    resizing = Resizing(cache, tier.hottest_miss)
    resizing.shrink(8 * PIECE)
    hot, slot = next(iter(resizing.book))
    # The least used of its layer, so the slot that it takes, is the last one of those that stayed.
    same = [(row, there) for row, there in cache.residency.resident() if row // 30 == hot // 30]
    tier.count([row for row, _ in same[:-1] for _ in range(9)] + [hot] * 9)
    assert [swap.outgoing for swap in tier.end_window()] == [same[-1][0]]
    resizing.shrink(PIECE)
    assert [pair for pair in resizing.book if pair[0] == hot] == [(hot, same[-1][1]), (hot, slot)]
    resizing.grow(1 << 40)
    assert cache.residency.slot(hot) == same[-1][1]
    assert cache.residency.row(slot) not in (hot, MISS)  # the most used miss of the layer
    assert len(resizing.book) == 0
    assert_sound(cache, driver)


def test_emptied_slots_are_not_filled_again_while_the_cache_is_small() -> None:
    cache, driver = small_cache("uniform")
    resizing = Resizing(cache)
    resizing.shrink(6 * PIECE)
    assert [cache.admit(row) for row, _ in resizing.book] == [MISS] * len(resizing.book)
    assert_sound(cache, driver)


def test_empty_slots_that_are_not_mapped_are_not_admitted_to() -> None:
    driver = fake()
    cache = open_cache(driver, SOURCE, slots("uniform"), PROFILE[:2], PIECE)
    resizing = Resizing(cache)
    usable = resizing.shrink(PIECE).slots
    assert [cache.admit(row) for row in PROFILE[2:]] == [*range(2, usable), *[MISS] * (GEOMETRY.rows - usable)]
    assert_sound(cache, driver)
    resizing.grow(1 << 40)
    assert cache.admit(PROFILE[-1]) == usable
    assert_sound(cache, driver)


@pytest.mark.parametrize("after", [False, True])
def test_a_refused_unmap_leaves_every_mapped_slot_full(after: bool) -> None:
    cache, driver = small_cache()
    resizing = Resizing(cache)
    driver.plan.nth("unmap", 3, Fail(after=after))
    with pytest.raises(Refused, match=r"shrink: unmap: .*; \d+ slots stay"):
        resizing.shrink(PIECE)
    stay = cache.usable_slots()
    assert stay == cache.slots.within(cache.arena.starts[-2])
    assert [slot for _, slot in cache.residency.resident()] == list(range(stay))
    assert_sound(cache, driver)
    resizing.grow(1 << 40)
    assert_sound(cache, driver)
    cache.close()
    assert_nothing_left(driver)


@pytest.mark.parametrize("call", ["copy_in", "synchronize"])
def test_shrinking_is_fatal_when_the_table_or_the_card_is_unknown(call: str) -> None:
    cache, driver = small_cache()
    resizing = Resizing(cache)
    driver.plan.next(call, Fail())
    with pytest.raises(Fatal):
        resizing.shrink(PIECE)
    assert_sound(cache, driver)


def test_what_is_refused() -> None:
    cache, driver = small_cache()
    resizing, lending = Resizing(cache), Lending(cache)
    driver.log.clear()
    for keep in (0, -1):
        with pytest.raises(Refused, match=f"shrink: {keep} bytes hold no slot"):
            resizing.shrink(keep)
    cache.source, source = patterned(GEOMETRY, absent=frozenset((PROFILE[len(cache.slots) - 1],))), cache.source
    with pytest.raises(Refused, match="host memory does not hold expert"):
        resizing.shrink(PIECE)
    assert driver.log == []
    cache.source = source
    lending.lend(1)
    for change in (resizing.shrink, resizing.grow):
        with pytest.raises(Refused, match="the loan 'LEND' is still out"):
            change(PIECE)
    lending.reclaim()
    resizing.shrink(PIECE)
    with pytest.raises(Refused, match="the loan 'resize' is still out"):
        lending.lend(1)
    cache.arena.elastic = False
    for change in (resizing.shrink, resizing.grow):
        with pytest.raises(Refused, match="the cache is not made of pieces"):
            change(PIECE)


def test_a_cache_that_keeps_everything_gives_nothing() -> None:
    cache, driver = small_cache()
    assert Resizing(cache).shrink(1 << 40) == (len(cache.slots), cache.arena.reserved, 0)
    assert "unmap" not in [call.name for call in driver.log]
    assert_sound(cache, driver)
