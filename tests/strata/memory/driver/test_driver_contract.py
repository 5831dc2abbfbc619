"""What every driver does, by the same tests on the fake, on the real driver's code and on a card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from strata.memory.driver.driver import STICKY, Code, Compared, DriverError
from strata.memory.driver.views import StaleView
from validation.core.random_streams import Stream


def octets(n: int, *names: str | int) -> np.ndarray:
    return Stream.of(1, "driver", *names).octets(n)


@contextmanager
def mapped(driver: Any, pieces: int = 2, each: int = 1) -> Iterator[tuple[int, int, list[int]]]:
    """A range of that many mappings: first address, bytes of a mapping, handles."""
    size = each * driver.granularity()
    va = driver.reserve(pieces * size)
    handles = []
    for k in range(pieces):
        handles.append(driver.create(size))
        driver.map(va + k * size, size, handles[k])
    driver.set_access(va, pieces * size)
    yield va, size, handles
    driver.synchronize()
    for k, handle in enumerate(handles):
        driver.unmap(va + k * size, size)
        driver.release(handle)
    driver.address_free(va, pieces * size)


def test_memory_is_taken_and_given_back(driver: Any) -> None:
    """The free figure moves by exactly the memory created, and by nothing else."""
    assert driver.supported()
    size = driver.granularity()
    assert size > 0
    assert size & (size - 1) == 0
    before, total = driver.mem_info()
    assert 0 < before <= total
    va = driver.reserve(4 * size)
    assert va % size == 0
    assert driver.mem_info()[0] == before
    handle = driver.create(2 * size)
    driver.map(va + size, 2 * size, handle)
    driver.set_access(va + size, 2 * size)
    assert driver.mem_info()[0] == before - 2 * size
    driver.release(handle)  # the mapping keeps the memory
    assert driver.mem_info()[0] == before - 2 * size
    driver.copy_in(va + size, octets(2 * size))
    driver.synchronize()
    driver.unmap(va + size, 2 * size)
    assert driver.mem_info()[0] == before
    driver.address_free(va, 4 * size)


def test_an_alignment_is_kept(driver: Any) -> None:
    size = driver.granularity()
    va = driver.reserve(size, 8 * size)
    assert va % (8 * size) == 0
    driver.address_free(va, size)


def test_bytes_across_mappings(driver: Any) -> None:
    with mapped(driver) as (va, size, _):
        driver.fill(va, 0x11, 2 * size)
        host = octets(101)
        driver.copy_in(va + size - 50, host)  # straddles two mappings
        got = driver.copy_out(va + size - 60, 121)
        assert np.array_equal(got[10:111], host)
        assert (got[:10] == 0x11).all()
        assert (got[111:] == 0x11).all()
        driver.fill(va + size - 1, 0x22, 2)
        assert driver.copy_out(va + size - 2, 4).tolist() == [host[48], 0x22, 0x22, host[51]]


def test_part_of_a_mapping_is_not_unmapped(driver: Any) -> None:
    with mapped(driver, pieces=1, each=2) as (va, size, _):
        driver.fill(va, 7, size)
        with pytest.raises(DriverError) as caught:
            driver.unmap(va, size // 2)
        assert (caught.value.call, caught.value.code, caught.value.sticky) == ("unmap", Code.INVALID_VALUE, False)
        assert (driver.copy_out(va, size) == 7).all()


def test_a_mapped_range_is_not_mapped_again(driver: Any) -> None:
    with mapped(driver, pieces=1) as (va, size, _):
        other = driver.create(size)
        with pytest.raises(DriverError):
            driver.map(va, size, other)
        driver.release(other)


def test_one_handle_at_two_addresses(driver: Any) -> None:
    with mapped(driver, pieces=1) as (va, size, handles):
        there = driver.reserve(size)
        driver.map(there, size, handles[0])
        driver.set_access(there, size)
        host = octets(size)
        driver.copy_in(va, host)
        assert driver.compare(there, host) == Compared(size)
        driver.synchronize()
        driver.unmap(there, size)
        driver.address_free(there, size)


def test_more_than_the_card_has_is_refused(driver: Any) -> None:
    size = driver.granularity()
    free, _ = driver.mem_info()
    with pytest.raises(DriverError) as caught:
        driver.create((free // size + 1024) * size)
    assert caught.value.code == Code.OUT_OF_MEMORY
    assert driver.mem_info()[0] == free


@pytest.mark.parametrize("how", ["event", "poll", "stream", "card"])
def test_queued_copies_land_in_order(driver: Any, how: str) -> None:
    """The last copy into the same bytes wins, and everything before an event has landed when it is reached."""
    with mapped(driver) as (va, size, _):
        stream = driver.stream()
        host = driver.page_locked(size)
        host[:] = octets(size, 1)
        driver.copy_in(va, host, stream)
        over = octets(10, 2)
        driver.copy_in(va + 5, over, stream)
        event = driver.record(stream)
        if how == "event":
            driver.wait(event)
        elif how == "poll":
            while not driver.reached(event):
                pass
        elif how == "stream":
            driver.wait_stream(stream)
        else:
            driver.synchronize()
        want = host.copy()
        want[5:15] = over
        assert np.array_equal(driver.copy_out(va, size), want)
        assert driver.reached(event)


@pytest.mark.parametrize("locked", [False, True])
def test_compare_finds_the_lowest_difference_and_counts(driver: Any, locked: bool) -> None:
    with mapped(driver, pieces=3, each=2) as (va, size, _):
        n = 3 * size - 20
        host = driver.page_locked(n) if locked else np.empty(n, np.uint8)
        host[:] = octets(n)
        driver.copy_in(va + 3, host)
        assert driver.compare(va + 3, host) == Compared(n)
        for at in (n - 1, size, 17, 0):  # each lower than the one before it
            byte = int(host[at]) ^ 0x40
            driver.fill(va + 3 + at, byte, 1)
            assert driver.compare(va + 3, host) == Compared(n, 0, at, int(host[at]), byte)


def test_compare_all_names_the_first_range_and_compares_all(driver: Any) -> None:
    with mapped(driver) as (va, _size, _):
        ranges = [(va + 1 + i * 300, octets(100 + i, i)) for i in range(7)]
        for at, host in ranges:
            driver.copy_in(at, host)
        everything = sum(host.nbytes for _, host in ranges)
        assert driver.compare_all(ranges) == Compared(everything)
        assert driver.compare_all([]) == Compared(0)
        driver.fill(ranges[5][0], int(ranges[5][1][0]) ^ 1, 1)
        driver.fill(ranges[2][0] + 99, int(ranges[2][1][99]) ^ 1, 1)
        found = driver.compare_all(ranges)
        assert found == Compared(everything, 2, 99, int(ranges[2][1][99]), int(ranges[2][1][99]) ^ 1)
        assert not found.equal


def test_a_view_ends_with_its_mapping(driver: Any) -> None:
    with mapped(driver) as (va, size, handles):
        driver.copy_in(va, octets(8))
        view = driver.view(va, 8)
        assert (view.address, view.nbytes) == (va, 8)
        assert [int(x) for x in view.array()] == octets(8).tolist()
        later = driver.view(va + size, 8)
        driver.synchronize()
        driver.unmap(va, size)
        with pytest.raises(StaleView):
            view.array()
        with pytest.raises(StaleView):
            driver.view(va, 8)
        driver.map(va, size, handles[0])
        with pytest.raises(StaleView):  # mapped again, without access
            driver.view(va, 8)
        driver.set_access(va, size)
        with pytest.raises(StaleView):  # the same address and the same memory, another mapping
            _ = view.address
        assert driver.view(va, 8).array().shape == (8,)
        assert later.array().shape == (8,)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_graph_reads_what_is_mapped_there_now(driver: Any, fresh: bool) -> None:
    """Captured before, launched after the range was unmapped and mapped again, with the same memory or other."""
    with mapped(driver) as (va, size, handles):
        one = octets(size + 40, 1)
        driver.copy_in(va, one)
        graph = driver.capture([(va + 1, 30), (va + size - 7, 20)])
        want = np.concatenate([one[1:31], one[size - 7 : size + 13]])
        assert np.array_equal(graph.launch(), want)
        driver.synchronize()
        driver.unmap(va, size)
        if fresh:
            driver.release(handles[0])
            handles[0] = driver.create(size)
        driver.map(va, size, handles[0])
        driver.set_access(va, size)
        if fresh:
            one[:size] = octets(size, 2)
            driver.copy_in(va, one[:size])
        want = np.concatenate([one[1:31], one[size - 7 : size + 13]])
        assert np.array_equal(graph.launch(), want)


@pytest.mark.parametrize("host", [np.zeros(4, np.int8), np.zeros((2, 2), np.uint8), np.zeros(8, np.uint8)[::2]])
def test_what_is_no_row_of_bytes_is_refused(driver: Any, host: np.ndarray) -> None:
    with mapped(driver) as (va, _, _):
        for call in (driver.copy_in, driver.compare):
            with pytest.raises(TypeError):
                call(va, host)


def test_the_codes_that_lose_the_context_are_those_the_drivers_text_names() -> None:
    """The text of a result says that the process must be ended and started again, or that the context is gone."""
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    texts = {int(member): " ".join((member.__doc__ or "").split()) for member in real.CUresult}
    if not any(texts.values()):
        pytest.skip("this version of cuda-bindings has no texts of results")
    ends = (
        "terminated and relaunched",
        "cannot be used anymore",
        "process of shutting down",
        "has been destroyed using",
    )
    named = {code for code, text in texts.items() if any(end in text for end in ends)}
    errors_of_memory = {Code.ECC_UNCORRECTABLE, Code.NVLINK_UNCORRECTABLE}
    assert named == {int(code) for code in STICKY - errors_of_memory if int(code) in texts}


def test_codes_have_the_drivers_names() -> None:
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    known = {int(member) for member in real.CUresult}
    for code in (code for code in Code if code in known):  # an older version has fewer
        assert int(getattr(real.CUresult, f"CUDA_ERROR_{code.name}")) == code


def test_many_copies_on_a_stream(driver: Any) -> None:
    """Each lands at its address, in order; nothing is left of the host's arrays once they have."""
    with mapped(driver) as (va, _, _):
        stream = driver.stream()
        parts = [octets(n, "many", n) for n in (100, 1, 57, 0)]
        starts = [va, va + 40, va + 41, va + 10]
        driver.copy_in_all(zip(starts, parts, strict=True), stream)
        driver.wait_stream(stream)
        expected = np.concatenate([parts[0][:40], parts[1], parts[2], parts[0][98:]])
        assert np.array_equal(driver.copy_out(va, 100), expected)
        with pytest.raises(TypeError, match="uint8"):
            driver.copy_in_all([(va, np.zeros(3, np.int32))], stream)
