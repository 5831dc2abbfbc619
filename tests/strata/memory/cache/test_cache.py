"""The expert cache: what it fills, finds, admits, takes and gives back, and in which order it calls the driver."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.residency import MISS
from strata.memory.cache.slots import uniform_slots
from strata.memory.cache.verification import WrongBytes
from strata.memory.driver.driver import Code
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fault_plan import Corrupt, Fail
from strata.memory.driver.views import StaleView
from tests.strata.memory.cache.caches import (
    GEOMETRY,
    PIECE,
    PROFILE,
    SOURCE,
    assert_nothing_left,
    assert_sound,
    fake,
    names,
    small_cache,
    watch,
)


def experts() -> list[tuple[int, int]]:
    return [GEOMETRY.expert(row) for row in range(GEOMETRY.rows)]


def test_a_cache_is_filled_hottest_first(kind: str) -> None:
    cache, driver = small_cache(kind)
    assert cache.residency.resident() == [(PROFILE[slot], slot) for slot in range(len(cache.slots))]
    inside = [boundary for boundary in cache.boundaries() if boundary not in cache.slots.off]
    assert len(inside) > 5  # slots that lie in two pieces are the rule here
    assert_sound(cache, driver)
    cache.close()
    assert_nothing_left(driver)
    assert driver.misuse == []


def test_the_opening_zeroes_fills_verifies_and_promotes_in_this_order() -> None:
    _, driver = small_cache()
    log = [call.name for call in driver.log]
    fill, upload = log.index("fill"), log.index("copy_in")
    assert driver.log[upload].args[1] == 4 * GEOMETRY.rows
    wait, compare = log.index("wait_stream"), log.index("compare_all")
    assert fill < upload < wait < compare < len(log) - 1
    assert (log[-1], driver.log[-1].args[1]) == ("copy_in", 4 * GEOMETRY.rows)
    assert log.count("wait_stream") == 1
    assert driver.log[compare].args[0] > 10  # both ends and the slots at the boundaries


def test_a_layer_whose_slots_are_full_does_not_stop_the_others() -> None:
    """With slots per layer the profile may begin with many experts of one layer."""
    driver = fake()
    profile = list(range(GEOMETRY.rows))
    cache = open_cache(driver, SOURCE, uniform_slots(GEOMETRY, 20), profile, PIECE, per_layer=True)
    found = [GEOMETRY.expert(row)[0] for row, _ in cache.residency.resident()]
    assert found == [0] * 6 + [1] * 6 + [2] * 8
    assert_sound(cache, driver)


def test_an_expert_the_host_does_not_hold_is_not_filled() -> None:
    source = patterned(GEOMETRY, absent=frozenset(PROFILE[:2]))
    cache, driver = small_cache("uniform", source=source)
    assert cache.residency.row(0) == PROFILE[2]
    assert_sound(cache, driver)


def test_every_expert_reads_the_same_resident_or_not(kind: str) -> None:
    cache, _ = small_cache(kind)
    hits = 0
    for layer, expert in experts():
        blob = SOURCE.blob(GEOMETRY.row(layer, expert))
        slot, view = cache.find(layer, expert), cache.view(layer, expert)
        assert (slot == MISS) == (view is None)
        assert np.array_equal(cache.read(layer, expert), blob)
        if view is not None:
            hits += 1
            assert view.address == cache.base + int(cache.slots.off[slot])
            assert np.array_equal(view.array(), blob)
    assert hits == len(cache.slots)


def test_a_view_ends_when_its_slot_has_another_expert() -> None:
    cache, _ = small_cache("uniform")
    row = cache.residency.row(5)
    view = cache.view(*GEOMETRY.expert(row))
    assert view is not None
    other = next(row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS)
    cache.residency.demote(row)
    with pytest.raises(StaleView, match=f"slot 5 was taken from row {row}"):
        view.array()
    cache.install([(other, 5)])
    cache.residency.demote(other)
    cache.install([(row, 5)])
    with pytest.raises(StaleView):  # the same expert again, but it was written again
        _ = view.address


def test_finding_makes_no_driver_call() -> None:
    """What a window asks for while the card is busy must not wait for the card."""
    cache, driver = small_cache()
    driver.log.clear()
    for layer, expert in experts():
        cache.find(layer, expert)
    cache.begin_window()
    assert driver.log == []


def test_admission_takes_a_free_slot_and_never_evicts(kind: str) -> None:
    cache, driver = small_cache(kind)
    missing = [row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS]
    assert [cache.admit(row) for row in missing] == [MISS] * len(missing)
    leaving = cache.residency.row(7)
    layer = GEOMETRY.expert(leaving)[0]
    entering = next(row for row in missing if GEOMETRY.expert(row)[0] == layer)
    cache.residency.demote(leaving)
    cache.residency.upload()
    driver.log.clear()
    assert cache.admit(entering) == 7
    assert names(driver.log) == ["synchronize", "copy_in", "wait_stream", "copy_in"]
    assert cache.admit(entering) == MISS
    assert_sound(cache, driver)


def test_the_order_of_taking_and_giving_back() -> None:
    cache, driver = small_cache()
    found = watch(driver, cache)
    book = cache.loan_book("prompt")
    driver.log.clear()
    taken = cache.take(book, 40)
    assert taken == len(book) == len(cache.slots) - 40
    assert names(driver.log) == ["synchronize", "copy_in"]
    assert all(cache.find(*GEOMETRY.expert(row)) == MISS and cache.owned(row) for row, _ in book)
    driver.fill(cache.base + int(cache.slots.off[40]), 0xEE, int(cache.slots.off[-1] - cache.slots.off[40]))
    assert_sound(cache, driver)
    assert [cache.admit(row) for row, _ in book] == [MISS] * taken
    driver.log.clear()
    verified = cache.give_back(book)
    assert names(driver.log) == ["synchronize", "copy_in", "wait_stream", "compare_all", "copy_in"]
    assert verified == (taken, taken, sum(SOURCE.blob(row).size for row, _ in cache.residency.resident(40)))
    assert len(book) == 0
    assert_sound(cache, driver)
    assert found == []


def test_giving_one_loan_back_does_not_touch_the_others() -> None:
    cache, driver = small_cache()
    mine, yours = cache.loan_book("mine"), cache.loan_book("yours")
    cache.take(mine, 45)
    cache.take(yours, 30, 45)
    driver.fill(cache.base + int(cache.slots.off[30]), 0xEE, 1000)
    assert cache.out(but=mine) == "yours"
    cache.give_back(mine)
    assert len(yours) == 15
    assert all(cache.residency.slot(row) == MISS for row, _ in yours)
    assert not np.any(cache.free_slots())
    assert_sound(cache, driver)
    cache.give_back(yours)
    assert cache.out() == ""
    assert_sound(cache, driver)


def test_slots_that_are_named_unmapped_or_too_small_are_not_written() -> None:
    cache, driver = small_cache("sized")
    missing = next(row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS)
    driver.log.clear()
    with pytest.raises(StrataError, match="slot 3: expected a free one"):
        cache.write([(missing, 3)])
    layer = GEOMETRY.expert(missing)[0]
    row, slot = next(pair for pair in cache.residency.resident() if GEOMETRY.expert(pair[0])[0] != layer)
    cache.residency.demote(row)
    with pytest.raises(StrataError, match=f"slot {slot} of {cache.slots.size(slot)} bytes does not take expert"):
        cache.write([(missing, slot)])
    cache.take(cache.loan_book("x"), 40)
    cache.arena.shrink(int(cache.slots.off[41]))
    with pytest.raises(StrataError, match="that are mapped"):
        cache.write([(PROFILE[-1], len(cache.slots) - 1)])
    copies = [call.args[1] for call in driver.log if call.name == "copy_in"]
    assert copies == [4 * GEOMETRY.rows]  # the table, once


def test_a_window_does_not_begin_on_an_old_table() -> None:
    cache, _ = small_cache()
    cache.begin_window()
    cache.residency.demote(cache.residency.row(0))
    with pytest.raises(StrataError, match="the residency table has changed since its last upload"):
        cache.begin_window()


@pytest.mark.parametrize("call", ["copy_in", "wait_stream", "compare_all"])
def test_a_failure_while_giving_back_is_fatal_and_no_row_lies(call: str) -> None:
    cache, driver = small_cache()
    book = cache.loan_book("prompt")
    cache.take(book, 40)
    driver.fill(cache.base + int(cache.slots.off[40]), 0xEE, 1000)
    rows = [row for row, _ in book]
    driver.plan.next(call, Fail(Code.UNKNOWN))
    with pytest.raises(Fatal):
        cache.give_back(book)
    assert all(cache.residency.slot(row) == MISS for row in rows)
    assert_sound(cache, driver)
    for attempt in (lambda: cache.give_back(book), cache.begin_window, lambda: cache.admit(rows[0])):
        with pytest.raises(Fatal, match="the cache has ended"):
            attempt()
    cache.close()
    assert_nothing_left(driver)


def test_a_failed_upload_after_a_promotion_takes_the_promotion_back() -> None:
    cache, driver = small_cache()
    book = cache.loan_book("prompt")
    cache.take(book, 40)
    rows = [row for row, _ in book]
    driver.plan.when(lambda call: call.name == "copy_in" and call.args[0] == cache.residency.address, Fail())
    with pytest.raises(Fatal, match="upload of the residency table"):
        cache.give_back(book)
    assert all(cache.residency.slot(row) == MISS for row in rows)
    assert_sound(cache, driver)


def test_after_a_lost_context_closing_calls_nothing() -> None:
    """Unwinding through a lost context hangs; the process ends instead."""
    cache, driver = small_cache()
    driver.plan.next("copy_in", Fail(Code.ILLEGAL_ADDRESS))
    with pytest.raises(Fatal) as caught:
        cache.take(cache.loan_book("x"), 40)
    assert caught.value.lost
    assert caught.value.status == 1
    driver.log.clear()
    cache.close()
    assert driver.log == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["reserve", "create", "map", "set_access", "fill", "stream", "copy_in", "compare_all"])
def test_an_opening_that_fails_leaves_nothing(call: str, after: bool) -> None:
    occurrences = [one.name for one in small_cache()[1].log].count(call)
    for occurrence in {1, 2, occurrences} if occurrences > 1 else {1}:
        driver = fake()
        driver.plan.nth(call, occurrence, Fail(Code.UNKNOWN, after))
        with pytest.raises(StrataError, match=call):
            small_cache(driver=driver)
        assert_nothing_left(driver)


def test_a_byte_that_arrives_wrong_in_the_first_slot_stops_the_opening() -> None:
    driver = fake()
    driver.plan.nth("copy_in", 2, Corrupt(70_001, 0x40))
    with pytest.raises(WrongBytes, match="in slot 0: byte "):
        small_cache("uniform", driver=driver)
    assert_nothing_left(driver)
