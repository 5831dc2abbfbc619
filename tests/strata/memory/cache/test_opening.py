"""How large a cache becomes on a card that has less than it says."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB
from strata.memory.cache import opening
from strata.memory.cache.cache_size import CORRECTIONS, OPEN_RETRIES, SETTLED
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.opening import open_largest_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.slots import Slots, uniform_slots
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.fault_plan import Fail, Interrupt, Meanwhile, Report
from tests.strata.memory.cache.caches import assert_nothing_left, assert_sound

GEOMETRY = ExpertGeometry.uniform(2, 4, 2 * MiB - 6)
SOURCE = patterned(GEOMETRY)
PROFILE = list(range(8))


def slots_of(nbytes: int) -> Slots | None:
    count = nbytes // GEOMETRY.max_blob
    return uniform_slots(GEOMETRY, count) if count else None


def made(total: int, wddm: bool = False, optimism: int = 0) -> FakeDriver:
    return FakeDriver(FakeCard(total, wddm, optimism), 2 * MiB)


def test_a_cache_that_leaves_its_reserve_stays_as_it_is() -> None:
    driver = made(300 * MiB)
    cache = open_largest_cache(driver, SOURCE, slots_of, 70 * MiB, 150 * MiB, PROFILE, 64 * MiB)
    assert len(cache.slots) == 70 * MiB // GEOMETRY.max_blob
    assert [row for row, _ in cache.residency.resident()] == PROFILE
    assert_sound(cache, driver)


def test_under_wddm_the_reserve_is_free_once_everything_is_written() -> None:
    """Something else takes memory while the cache is opened. What was created counts only once it is written."""
    driver = made(300 * MiB, wddm=True, optimism=300 * MiB)
    reserve = 100 * MiB
    nbytes = driver.mem_info()[0] - reserve
    driver.plan.next("reserve", Meanwhile(lambda: driver.card.take("desktop", 70 * MiB) and None))
    driver.plan.next("fill", Meanwhile(lambda: figures.append(driver.card.reported_free)))
    figures: list[int] = []
    cache = open_largest_cache(driver, SOURCE, slots_of, nbytes, reserve, PROFILE, 64 * MiB)
    assert figures[0] >= reserve > driver.card.total - 70 * MiB - nbytes  # before the write all seemed well
    assert driver.mem_info()[0] >= reserve - SETTLED
    assert driver.card.ever_paged == 0
    assert_sound(cache, driver)
    cache.close()
    assert_nothing_left(driver)


def test_the_free_figure_is_read_after_the_memory_was_written() -> None:
    driver = made(400 * MiB)
    open_largest_cache(driver, SOURCE, slots_of, 100 * MiB, 150 * MiB, PROFILE, 64 * MiB)
    log = [call.name for call in driver.log]
    assert log.count("mem_info") == 1
    assert log.index("fill") < log.index("mem_info") < log.index("wait_stream")


@pytest.mark.parametrize("failures", [1, 3, OPEN_RETRIES])
def test_an_opening_that_fails_is_tried_again_with_three_quarters(failures: int) -> None:
    """A card can refuse though it has room: memory is charged to the system's commit limit too."""
    driver = made(400 * MiB)
    driver.plan.next("create", Fail(Code.OUT_OF_MEMORY), times=failures)
    cache = open_largest_cache(driver, SOURCE, slots_of, 100 * MiB, 100 * MiB, PROFILE, 64 * MiB)
    nbytes = 100 * MiB
    for _ in range(failures):
        nbytes = nbytes * 3 // 4
    assert len(cache.slots) == nbytes // GEOMETRY.max_blob
    assert_sound(cache, driver)


def test_after_eight_tries_more_the_failure_stands() -> None:
    driver = made(400 * MiB)
    driver.plan.next("create", Fail(Code.OUT_OF_MEMORY), times=1 << 30)
    with pytest.raises(DriverError, match="create: OUT_OF_MEMORY"):
        open_largest_cache(driver, SOURCE, slots_of, 200 * MiB, 100 * MiB, PROFILE, 64 * MiB)
    assert sum(call.name == "create" for call in driver.log) == 1 + OPEN_RETRIES
    assert_nothing_left(driver)


def test_corrections_end_after_the_sixth() -> None:
    """A figure that stays just below what is enough: the cache is made smaller six times, then it stays."""
    driver = made(1000 * MiB)
    driver.fill = lambda va, byte, n: None  # type: ignore[method-assign]  # hundreds of MiB that nobody looks at
    driver.plan.next("mem_info", Report(100 * MiB - SETTLED - 1), times=1 << 30)
    cache = open_largest_cache(driver, SOURCE, slots_of, 900 * MiB, 100 * MiB, PROFILE, 64 * MiB)
    assert sum(call.name == "mem_info" for call in driver.log) == 1 + CORRECTIONS
    assert_sound(cache, driver)


def test_a_full_card_is_a_readable_error() -> None:
    driver = made(100 * MiB)
    with pytest.raises(StrataError, match=r"expert cache: no slot fits into 0 bytes beside a reserve of \d+"):
        open_largest_cache(driver, SOURCE, slots_of, 60 * MiB, 200 * MiB, PROFILE, 64 * MiB)
    assert_nothing_left(driver)
    for nbytes in (0, -5 * MiB, MiB):
        with pytest.raises(StrataError, match="no slot fits"):
            open_largest_cache(driver, SOURCE, slots_of, nbytes, 0, PROFILE, 64 * MiB)


def test_free_memory_that_cannot_be_read_leaves_nothing_behind() -> None:
    driver = made(300 * MiB)
    driver.plan.next("mem_info", Fail(Code.NOT_PERMITTED))
    with pytest.raises(DriverError, match="mem_info"):
        open_largest_cache(driver, SOURCE, slots_of, 70 * MiB, 150 * MiB, PROFILE, 64 * MiB)
    assert_nothing_left(driver)
    assert driver.misuse == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("what", [Fail, Interrupt], ids=["refused", "interrupted"])
def test_whatever_call_of_an_opening_fails_nothing_is_left(
    what: type, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made smaller once, so that closing and opening again are among the calls."""
    monkeypatch.setattr(opening, "correction", lambda nbytes, free, reserve, before: None if before else nbytes // 2)
    number = 0
    while True:
        number += 1
        driver = made(100 * MiB)
        rule = Fail(Code.UNKNOWN, after) if what is Fail else Interrupt(KeyboardInterrupt(), after)
        driver.plan.at(number, rule)
        try:
            cache = open_largest_cache(driver, SOURCE, slots_of, 14 * MiB, 0, PROFILE, 4 * MiB)
        except (StrataError, KeyboardInterrupt):
            assert_nothing_left(driver)
            continue
        met = len(driver.log) >= number
        assert [call.name for call in driver.log].count("address_free") >= 2  # the first opening was given back
        driver.plan.clear()
        assert_sound(cache, driver)
        cache.close()
        assert_nothing_left(driver)
        if not met:
            break
