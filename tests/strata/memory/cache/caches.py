"""Small caches over the fake driver, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strata.memory.arena.pieces import MiB
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.invariants import violations
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.slots import Slots, sized_slots, uniform_slots
from strata.memory.cache.source import HostArena
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.fake import FakeCard, FakeDriver, FaultPlan
from strata.memory.driver.fault_plan import Call, Report

PAGE = 4096
PIECE = 256 * 1024
#: Sizes that are no multiple of the page, of the piece or of the alignment of slots.
GEOMETRY = ExpertGeometry(3, 30, (70_002, 66_150, 81_234))
#: Hottest first: layers mixed, neither in the order of rows nor against it.
PROFILE = [row * 37 % GEOMETRY.rows for row in range(GEOMETRY.rows)]
SOURCE = patterned(GEOMETRY)


def slots(kind: str, count: int = 48) -> Slots:
    """About `count` slots, uniform or sized."""
    if kind == "uniform":
        return uniform_slots(GEOMETRY, count)
    return sized_slots(GEOMETRY, PROFILE, count * GEOMETRY.max_blob)


def fake(total: int = 512 * MiB, plan: FaultPlan | None = None) -> FakeDriver:
    """A fake driver of small pages on a card of its own."""
    return FakeDriver(FakeCard(total), PAGE, plan=plan)


def small_cache(
    kind: str = "sized", driver: FakeDriver | None = None, source: HostArena = SOURCE, per_layer: bool = False
) -> tuple[ExpertCache, FakeDriver]:
    """A cache of 48 uniform or about 53 sized slots, filled, in pieces of 256 KiB."""
    driver = fake() if driver is None else driver
    return open_cache(driver, source, slots(kind), PROFILE, PIECE, per_layer), driver


def peek(driver: FakeDriver) -> Callable[[int, int], np.ndarray]:
    """The device's memory without a call: DriverError when it is not mapped, and the context stays."""

    def read(va: int, n: int) -> np.ndarray:
        below = driver._memory.mappings.covering(va, n)
        if below is None or not all(mapping.access for mapping in below):
            raise DriverError("peek", Code.ILLEGAL_ADDRESS, f"{va:#x}, {n} bytes")
        return driver._memory.read("peek", va, n)

    return read


def assert_sound(cache: ExpertCache, driver: FakeDriver) -> None:
    """I1 to I7, every byte, and no rule of the driver broken that lost the context."""
    found = violations(cache, read=peek(driver))
    assert not found, found
    assert not driver.lost, driver.lost


def assert_nothing_left(driver: FakeDriver) -> None:
    """No handle, mapping or reservation of this process."""
    assert (driver.live_handles(), driver.mapped, driver.reservations) == ({}, {}, {})


def names(log: list[Call]) -> list[str]:
    """The calls of a log in order, equal neighbours once."""
    found: list[str] = []
    for call in log:
        if not found or found[-1] != call.name:
            found.append(call.name)
    return found


def watch(driver: FakeDriver, cache: ExpertCache) -> list[str]:
    """From now on I1 to I7 are asked before every driver call; what they answer is collected."""
    found: list[str] = []
    read = peek(driver)

    def asks(call: Call) -> bool:
        found.extend(f"before {call.name} {call.number}: {line}" for line in violations(cache, read=read))
        return False

    driver.plan.when(asks, Report(), times=1 << 30)
    return found
