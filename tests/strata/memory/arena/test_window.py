"""Memory of others mapped for a while: all of it or none, and nothing lost by a call that fails."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.memory.arena.window import Piece, Window
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.fault_plan import Fail, Interrupt
from tests.strata.memory.cache.caches import assert_nothing_left

PAGE = 4096
SIZES = (2 * PAGE, PAGE, 3 * PAGE)


def made() -> tuple[Window, list[Piece], FakeDriver]:
    driver = FakeDriver(FakeCard(1 << 20), PAGE)
    return Window(driver, 8 * PAGE), [Piece(driver.create(size), size) for size in SIZES], driver


def test_pieces_lie_one_after_another() -> None:
    window, pieces, driver = made()
    window.fill(pieces[:2])
    window.fill(pieces[2:])
    assert driver.mapped == {
        window.address: 2 * PAGE,
        window.address + 2 * PAGE: PAGE,
        window.address + 3 * PAGE: 3 * PAGE,
    }
    driver.fill(window.address, 7, 6 * PAGE)
    window.clear(1)
    assert (window.pieces, window.mapped_bytes) == (pieces[:1], 2 * PAGE)
    assert driver.mapped == {window.address: 2 * PAGE}
    window.close()
    for piece in pieces:
        driver.release(piece.handle)
    assert_nothing_left(driver)
    assert driver.misuse == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["map", "set_access"])
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_refused_map_maps_nothing(name: str, after: bool, occurrence: int) -> None:
    window, pieces, driver = made()
    driver.plan.nth(name, occurrence, Fail(Code.OUT_OF_MEMORY, after))
    with pytest.raises(DriverError, match=name):
        window.fill(pieces)
    assert (window.pieces, driver.mapped) == ([], {})
    window.fill(pieces)
    assert window.mapped_bytes == 6 * PAGE


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_refused_unmap_leaves_the_rest_mapped(after: bool, occurrence: int) -> None:
    window, pieces, driver = made()
    window.fill(pieces)
    driver.plan.nth("unmap", occurrence, Fail(Code.UNKNOWN, after))
    with pytest.raises(DriverError, match="unmap"):
        window.clear()
    assert window.pieces == pieces[: 4 - occurrence]
    assert sum(driver.mapped.values()) == window.mapped_bytes
    driver.copy_out(window.address, window.mapped_bytes)
    window.clear()
    assert driver.mapped == {}


def test_too_much_for_the_window() -> None:
    window, pieces, driver = made()
    window.fill(pieces)
    with pytest.raises(StrataError, match=f"window of {8 * PAGE} bytes: {9 * PAGE} to be mapped"):
        window.fill([Piece(driver.create(3 * PAGE), 3 * PAGE)])
    assert window.pieces == pieces


@pytest.mark.parametrize("after", [False, True])
def test_closed_although_calls_fail(after: bool) -> None:
    """Each call of closing fails once, before and after its effect: tried again, and nothing is left."""
    for number in range(1, 12):
        window, pieces, driver = made()
        window.fill(pieces)
        driver.plan.at(len(driver.log) + number, Fail(Code.UNKNOWN, after))
        window.close(pieces)
        assert_nothing_left(driver)


def test_what_cannot_be_given_back_is_said() -> None:
    window, pieces, driver = made()
    window.fill(pieces)
    driver.plan.next("release", Fail(Code.UNKNOWN), 2)
    with pytest.raises(StrataError, match="window: closed, but release: UNKNOWN"):
        window.close(pieces)
    assert list(driver.live_handles()) == [pieces[0].handle]
    assert (driver.mapped, driver.reservations) == ({}, {})


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 7))
def test_closed_after_an_interrupt(number: int, after: bool) -> None:
    """Whether the piece was mapped when it came is unknown."""
    window, pieces, driver = made()
    driver.plan.at(len(driver.log) + number, Interrupt(KeyboardInterrupt(), after))
    with pytest.raises(KeyboardInterrupt):
        window.fill(pieces)
    window.close(pieces)
    assert_nothing_left(driver)
