"""The checker itself: one lie of each kind, told by going around the cache, and nothing said about the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.invariants import violations
from strata.memory.cache.pattern import patterned
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake import FakeDriver
from strata.memory.driver.fault_plan import Fail
from tests.strata.memory.cache.caches import GEOMETRY, PAGE, PROFILE, SOURCE, peek, slots, small_cache

Lie = Callable[[ExpertCache, FakeDriver], object]


def flip(cache: ExpertCache, driver: FakeDriver) -> None:
    there = SOURCE.blob(PROFILE[9])[-1:] ^ np.uint8(0x80)
    driver.copy_in(cache.base + int(cache.slots.off[9]) + SOURCE.blob(PROFILE[9]).size - 1, there)


def swap(cache: ExpertCache, driver: FakeDriver) -> None:
    """Two rows of one layer name each other's slots, on both sides and in the index."""
    first, second = [pair for pair in cache.residency.resident() if GEOMETRY.expert(pair[0])[0] == 1][:2]
    for row, _ in (first, second):
        cache.residency.demote(row)
    cache.residency.promote(first[0], second[1])
    cache.residency.promote(second[0], first[1])
    cache.residency.upload()


def wrong_layer(cache: ExpertCache, driver: FakeDriver) -> None:
    """An expert in a slot that is too small for it."""
    row, slot = next(pair for pair in cache.residency.resident() if GEOMETRY.expert(pair[0])[0] == 1)
    cache.residency.demote(row)
    cache.residency.promote(next(row for row in range(60, 90) if cache.residency.slot(row) < 0), slot)


def old_table(cache: ExpertCache, driver: FakeDriver) -> None:
    cache.residency.demote(PROFILE[5])
    cache.residency.stale = False


def device_only(cache: ExpertCache, driver: FakeDriver) -> None:
    """The host demoted a row before its slot was unmapped; the upload was forgotten."""
    for row, _ in cache.residency.resident(40):
        cache.residency.demote(row)
    cache.arena.shrink(int(cache.slots.off[40]))


def absent(cache: ExpertCache, driver: FakeDriver) -> None:
    source = patterned(GEOMETRY, absent=frozenset((PROFILE[41],)))
    cache.take(cache.loan_book("x"), 40)
    cache.source = source


def moved(cache: ExpertCache, driver: FakeDriver) -> None:
    cache.arena.base += PAGE


def recut(cache: ExpertCache, driver: FakeDriver) -> None:
    cache.slots = slots("uniform", len(cache.slots))


LIES: list[tuple[str, Lie]] = [
    ("I1", flip),
    ("I1", swap),
    ("I1", wrong_layer),
    ("I2", old_table),
    ("I2", lambda cache, driver: driver.copy_in(cache.residency.address + 4, np.array([9, 9, 9, 0], np.uint8))),
    ("I3", lambda cache, driver: cache.residency._slot.__setitem__(PROFILE[3], 4)),
    ("I3", lambda cache, driver: cache.residency._row.__setitem__(3, PROFILE[4])),
    ("I4", lambda cache, driver: cache.arena.shrink(int(cache.slots.off[40]))),
    ("I4", device_only),
    ("I5", absent),
    ("I6", moved),
    ("I6", recut),
    ("I7", lambda cache, driver: cache.pending.update({2: PROFILE[2]})),
    ("I7", lambda cache, driver: cache.loan_book("x").add([(PROFILE[2], 2)])),
]


@pytest.mark.parametrize(("number", "lie"), LIES)
def test_each_kind_of_lie_is_seen(number: str, lie: Lie) -> None:
    cache, driver = small_cache()
    assert violations(cache, read=peek(driver)) == []
    lie(cache, driver)
    assert number in {line[:2] for line in violations(cache, read=peek(driver))}


def test_without_contents_bytes_are_not_read() -> None:
    cache, driver = small_cache()
    flip(cache, driver)
    driver.log.clear()
    assert violations(cache, contents=False) == []
    assert [(call.name, call.args[1]) for call in driver.log] == [("copy_out", 4 * GEOMETRY.rows)]


def test_after_a_fatal_end_the_devices_table_is_not_asked() -> None:
    cache, driver = small_cache()
    driver.plan.next("copy_in", Fail(after=False))
    with pytest.raises(Fatal):
        cache.take(cache.loan_book("x"), 40)
    assert violations(cache, read=peek(driver)) == []
