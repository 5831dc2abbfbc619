"""What the fake driver does besides the contract: faults, other processes, WDDM, queued work, the end of a process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from strata.memory.driver.driver import STICKY, Code, Compared, DriverError
from strata.memory.driver.fake import POISON, FakeCard, FakeDriver
from strata.memory.driver.fault_plan import Call, Corrupt, Elsewhere, Fail, Meanwhile, Report

G = 4096


def opened(pieces: int = 2, card: FakeCard | None = None) -> tuple[FakeDriver, int, int]:
    """A driver with one mapping of some granules: driver, address, handle."""
    driver = FakeDriver(card or FakeCard(64 * G), G)
    va, handle = driver.reserve(4 * G), driver.create(pieces * G)
    driver.map(va, pieces * G, handle)
    driver.set_access(va, pieces * G)
    return driver, va, handle


def test_new_memory_is_poison_again_after_every_create() -> None:
    driver, va, handle = opened()
    assert (driver.copy_out(va, 2 * G) == POISON).all()
    driver.fill(va, 1, 2 * G)
    driver.unmap(va, 2 * G)
    driver.release(handle)
    driver.map(va, 2 * G, driver.create(2 * G))
    driver.set_access(va, 2 * G)
    assert (driver.copy_out(va, 2 * G) == POISON).all()


@pytest.mark.parametrize("where", ["unmapped", "no access", "beyond"])
def test_an_access_outside_loses_the_context(where: str) -> None:
    driver, va, _ = opened()
    if where == "unmapped":
        driver.unmap(va, 2 * G)
    elif where == "no access":
        other = driver.create(G)
        driver.map(va + 2 * G, G, other)
    at = va + 2 * G - 1 if where != "unmapped" else va
    for _ in range(2):
        with pytest.raises(DriverError) as caught:
            driver.copy_out(at, 2)
        assert caught.value.code == Code.ILLEGAL_ADDRESS
    with pytest.raises(DriverError):
        driver.synchronize()
    assert driver.lost
    assert len(driver.misuse) == 1


def test_unmapping_below_queued_work_loses_the_context() -> None:
    """The unmap itself answers success, as on a card; the work faults."""
    driver, va, _ = opened()
    stream = driver.stream()
    driver.kernel([(va + 2 * G - 1, 1)], [], stream)
    driver.unmap(va, 2 * G)
    with pytest.raises(DriverError):
        driver.wait_stream(stream)
    driver, va, _ = opened()
    stream = driver.stream()
    driver.kernel([(va, 1)], [], stream)
    driver.synchronize()
    driver.unmap(va, 2 * G)
    assert not driver.lost


def test_queued_copies_read_the_host_when_they_land() -> None:
    driver, va, _ = opened()
    stream, host = driver.stream(), np.full(8, 1, np.uint8)
    driver.copy_in(va, host, stream)
    assert driver.compare(va, host) == Compared(8, 0, 0, 1, POISON)
    host[:] = 2
    driver.progress(stream)
    assert (driver.copy_out(va, 8) == 2).all()


def test_kernels_write_in_the_order_of_their_stream() -> None:
    driver, va, _ = opened()
    stream = driver.stream()
    driver.copy_in(va, np.array([1, 2], np.uint8), stream)
    driver.kernel([], [(va, 1)], stream)
    driver.wait_stream(stream)
    assert driver.copy_out(va, 2).tolist() == [254, 2]


@pytest.mark.parametrize("after", [False, True])
def test_a_call_fails_before_or_after_its_effect(after: bool) -> None:
    driver, va, handle = opened()
    used = driver.card.used
    driver.plan.next("unmap", Fail(Code.UNKNOWN, after))
    with pytest.raises(DriverError) as caught:
        driver.unmap(va, 2 * G)
    assert caught.value.code == Code.UNKNOWN
    assert (va in driver.mapped) == (not after)
    driver.plan.next("release", Fail(Code.NOT_PERMITTED, after))
    if after:
        with pytest.raises(DriverError):
            driver.release(handle)
        assert driver.card.used == 0
        with pytest.raises(DriverError) as again:
            driver.release(handle)
        assert again.value.code == Code.INVALID_VALUE
        assert not driver.misuse  # nobody can know that the first release had happened
    assert driver.card.used == (0 if after else used)


def test_a_call_that_returns_something_keeps_nothing_when_it_fails() -> None:
    driver = FakeDriver(FakeCard(8 * G), G)
    for name in ("create", "reserve"):
        driver.plan.next(name, Fail(Code.OUT_OF_MEMORY, after=True))
        with pytest.raises(DriverError):
            getattr(driver, name)(G)
    assert (driver.card.used, driver.live_handles(), driver.reservations) == (0, {}, {})


@pytest.mark.parametrize("code", sorted(STICKY))
def test_a_sticky_code_is_the_end_of_the_context(code: int) -> None:
    driver, _, _ = opened()
    driver.plan.next("mem_info", Fail(code))
    with pytest.raises(DriverError) as caught:
        driver.mem_info()
    assert caught.value.sticky
    with pytest.raises(DriverError):
        driver.mem_info()


def test_rules_by_number_by_occurrence_and_by_predicate() -> None:
    driver, va, _ = opened()
    count = len(driver.log)
    driver.plan.at(count + 2, Fail(Code.UNKNOWN))
    driver.plan.nth("mem_info", 3, Report(0), times=2)
    driver.plan.when(lambda call: call.name == "fill" and call.args[1] == 9, Fail(Code.INVALID_VALUE))
    driver.fill(va, 1, 1)
    with pytest.raises(DriverError):
        driver.fill(va, 2, 1)
    assert [driver.mem_info()[0] == 0 for _ in range(6)] == [False, False, True, True, False, False]
    with pytest.raises(DriverError):
        driver.fill(va, 9, 1)
    driver.fill(va, 9, 1)
    assert driver.log[count] == Call(count + 1, "fill", (va, 1, 1))
    assert [call.error for call in driver.log[count:]] == [0, 999, *6 * [0], 1, 0]


def test_one_byte_of_a_copy_is_changed() -> None:
    driver, va, _ = opened()
    host = np.zeros(100, np.uint8)
    driver.plan.next("copy_in", Corrupt(offset=40, flip=8))
    driver.copy_in(va, host)
    assert driver.compare(va, host) == Compared(100, 0, 40, 0, 8)


def test_another_process_takes_memory_between_two_calls() -> None:
    card = FakeCard(4 * G)
    driver = FakeDriver(card, G)
    driver.plan.next("create", Meanwhile(lambda: card.take("browser", 3 * G)))
    with pytest.raises(DriverError) as caught:
        driver.create(2 * G)
    assert caught.value.code == Code.OUT_OF_MEMORY
    assert not card.take("another", 2 * G)
    assert card.leave("browser") == 3 * G
    driver.create(2 * G)
    assert driver.mem_info() == (2 * G, 4 * G)


def test_a_range_can_be_elsewhere() -> None:
    first = FakeDriver(FakeCard(G), G)
    here = first.reserve(2 * G)
    moved = FakeDriver(FakeCard(G), G)
    moved.plan.next("reserve", Elsewhere())
    there = moved.reserve(2 * G)
    assert there != here
    moved.address_free(there, 2 * G)


def test_wddm_pages_and_is_optimistic_until_memory_is_written() -> None:
    card = FakeCard(10 * G, wddm=True, optimism=3 * G)
    driver, va, _ = opened(pieces=4, card=card)
    assert driver.mem_info()[0] == 6 * G + 3 * G
    driver.fill(va, 0, 4 * G)
    assert driver.mem_info()[0] == 6 * G
    assert card.ever_paged == 0
    driver.create(8 * G)
    assert card.ever_paged == 2 * G
    assert driver.mem_info()[0] == 3 * G


def test_a_killed_process_leaves_nothing() -> None:
    card = FakeCard(16 * G)
    driver, va, handle = opened(card=card)
    there = driver.reserve(2 * G)
    driver.map(there, 2 * G, handle)
    driver.create(G)
    other = FakeDriver(card, G)
    other.create(G)
    driver.kill()
    assert card.used == G
    with pytest.raises(DriverError):
        driver.copy_out(va, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda driver, va, handle: driver.reserve(G + 1),
        lambda driver, va, handle: driver.reserve(G, 3),
        lambda driver, va, handle: driver.create(0),
        lambda driver, va, handle: driver.create(G - 1),
        lambda driver, va, handle: driver.map(va + 2 * G, G, handle),
        lambda driver, va, handle: driver.map(va + 3 * G, 2 * G, handle),
        lambda driver, va, handle: driver.map(va + G, 2 * G, handle),
        lambda driver, va, handle: driver.unmap(va, G),
        lambda driver, va, handle: driver.unmap(va + 2 * G, G),
        lambda driver, va, handle: driver.set_access(va, 3 * G),
        lambda driver, va, handle: driver.set_access(va, G),
        lambda driver, va, handle: driver.address_free(va, 4 * G),
        lambda driver, va, handle: driver.address_free(va, G),
        lambda driver, va, handle: driver.release(handle + 1),
    ],
)
def test_broken_rules_are_refused_and_remembered(call: Callable[[FakeDriver, int, int], object]) -> None:
    driver, va, handle = opened()
    state = (driver.mapped, driver.reservations, driver.live_handles())
    with pytest.raises(DriverError) as caught:
        call(driver, va, handle)
    assert caught.value.code == Code.INVALID_VALUE
    assert len(driver.misuse) == 1
    assert not driver.lost
    assert state == (driver.mapped, driver.reservations, driver.live_handles())


@pytest.mark.parametrize("write", ["copy_in", "queued copy_in", "fill", "kernel"])
@pytest.mark.parametrize("order", ["on its own stream", "on another", "after a wait"])
def test_a_write_below_queued_work_of_another_stream_is_misuse(write: str, order: str) -> None:
    driver = FakeDriver(granularity=G)
    va = driver.reserve(2 * G)
    driver.map(va, 2 * G, driver.create(2 * G))
    driver.set_access(va, 2 * G)
    reader, other = driver.stream(), driver.stream()
    driver.kernel([(va + 100, 50)], [], reader)
    if order == "after a wait":
        driver.wait_stream(reader)
    stream = reader if order == "on its own stream" else other
    writes: dict[str, Callable[[int, int], None]] = {
        "copy_in": lambda at, n: driver.copy_in(at, np.zeros(n, np.uint8)),
        "queued copy_in": lambda at, n: driver.copy_in(at, np.zeros(n, np.uint8), stream),
        "fill": lambda at, n: driver.fill(at, 0, n),
        "kernel": lambda at, n: driver.kernel([], [(at, n)], stream),
    }
    writes[write](va, 100)
    writes[write](va + 150, G)
    assert driver.misuse == []
    writes[write](va + 149, 1)
    allowed = order == "after a wait" or (order == "on its own stream" and write in ("queued copy_in", "kernel"))
    assert driver.misuse == (
        [] if allowed else [f"{write.split()[-1]}: queued work of another stream meets {va + 149:#x}, 1 bytes"]
    )


def test_a_kernel_must_not_be_queued_to_read_what_another_stream_has_yet_to_write() -> None:
    driver = FakeDriver(granularity=G)
    va = driver.reserve(G)
    driver.map(va, G, driver.create(G))
    driver.set_access(va, G)
    writer, reader = driver.stream(), driver.stream()
    driver.copy_in(va, np.zeros(64, np.uint8), writer)
    driver.kernel([(va + 64, 64)], [], reader)
    assert driver.misuse == []
    driver.kernel([(va + 63, 1)], [], reader)
    assert driver.misuse == [f"kernel: queued work of another stream meets {va + 63:#x}, 1 bytes"]


@pytest.mark.parametrize("nbytes", [2 * G, G])
def test_a_first_write_of_all_bytes_or_of_some(nbytes: int) -> None:
    """What is not written keeps the poison; host bytes that change later change nothing on the card."""
    driver, va, _ = opened()
    host = np.arange(nbytes, dtype=np.uint64).astype(np.uint8)
    expected = np.full(2 * G, POISON, np.uint8)
    expected[:nbytes] = host
    driver.copy_in(va, host)
    host[:] = 0
    assert np.array_equal(driver.copy_out(va, 2 * G), expected)


def test_a_card_is_as_new_when_all_was_given_back_once() -> None:
    card = FakeCard(4 * G)
    driver = FakeDriver(card, G)
    assert card.as_new
    handle = driver.create(G)
    assert not card.as_new
    driver.release(handle)
    assert card.as_new
    card.take("another", G)
    assert not card.as_new
    card.leave("another")
    assert card.as_new
    card._freed.append(handle)  # freed twice: two handles would have one number
    assert not card.as_new
    card._freed.pop()
    card.ever_paged = 1
    assert not card.as_new
