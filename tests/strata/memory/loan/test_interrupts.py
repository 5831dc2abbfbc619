"""What is not the driver's answer, an interrupt or want of host memory, at every call of every change of a cache.

The change is half made then, and which half nobody knows: the cache ends, says so, and gives back what it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.cache_resize import Resizing
from strata.memory.cache.residency import MISS
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake import FakeDriver
from strata.memory.driver.fault_plan import Interrupt
from strata.memory.loan.lending import Lending
from strata.memory.loan.lines import LendingLines
from tests.strata.memory.cache.caches import (
    GEOMETRY,
    assert_nothing_left,
    assert_sound,
    small_cache,
)


@dataclass
class Engine:
    cache: ExpertCache
    driver: FakeDriver
    lending: Lending
    tier: AdaptiveTier
    resizing: Resizing


def engine() -> Engine:
    cache, driver = small_cache("uniform")
    tier = AdaptiveTier(cache, Pace(every=1, swaps=5))
    tier.count([row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS for _ in range(4)])
    return Engine(cache, driver, Lending(cache, verify_all=True), tier, Resizing(cache, tier.hottest_miss))


def nothing(one: Engine) -> None:
    """Nothing comes before."""


def lend(one: Engine) -> None:
    one.lending.lend(1)


def reclaim(one: Engine) -> None:
    one.lending.reclaim()


def swap(one: Engine) -> None:
    one.tier.end_window()


def land(one: Engine) -> None:
    one.cache.begin_window()


def shrink(one: Engine) -> None:
    one.resizing.shrink(one.cache.arena.total // 2)


def grow(one: Engine) -> None:
    one.resizing.grow(one.cache.arena.total)


CHANGES: list[tuple[Callable[[Engine], None], Callable[[Engine], None]]] = [
    (nothing, lend),
    (lend, reclaim),
    (nothing, swap),
    (swap, land),
    (swap, lend),
    (nothing, shrink),
    (shrink, grow),
]


@pytest.mark.parametrize(("before", "change"), CHANGES, ids=lambda step: step.__name__)
@pytest.mark.parametrize(
    ("after", "error"), [(False, MemoryError("none left")), (True, KeyboardInterrupt("now"))], ids=["before", "after"]
)
def test_an_interrupt_of_a_change_ends_the_cache(
    before: Callable[[Engine], None], change: Callable[[Engine], None], after: bool, error: BaseException
) -> None:
    one = engine()
    before(one)
    calls = len(one.driver.log)
    change(one)
    count = len(one.driver.log) - calls
    assert count > 1
    for number in range(1, count + 1):
        one = engine()
        before(one)
        one.driver.plan.at(len(one.driver.log) + number, Interrupt(error, after))
        with pytest.raises(type(error)) as caught:
            change(one)
        assert caught.value is error
        assert one.cache.fatal is not None
        assert str(error) in str(one.cache.fatal)
        assert_sound(one.cache, one.driver)
        assert set(one.driver.live_handles()) <= one.cache.arena.held | one.cache.residency.held
        for onward in (lend, reclaim, land, swap):
            with pytest.raises(Fatal, match=str(error)):
                onward(one)
        lines = LendingLines(one.lending)
        assert (lines.status, lines.info()) == (1, "lendable=0")
        assert lines.handle("RECLAIM").startswith("ERR ")
        one.cache.close()
        assert_nothing_left(one.driver)
        assert one.driver.misuse == []


def test_a_swap_that_was_not_queued_never_lands() -> None:
    """The expert that no copy brought must not be promoted by whoever lands next."""
    one = engine()
    seen = one.cache.source.blob

    def blob(row: int) -> object:
        raise MemoryError("in the source")

    one.cache.source.blob = blob  # type: ignore[method-assign,assignment]
    with pytest.raises(MemoryError):
        swap(one)
    one.cache.source.blob = seen  # type: ignore[method-assign]
    assert one.tier.pending == []
    assert one.cache.fatal is not None
    assert_sound(one.cache, one.driver)
