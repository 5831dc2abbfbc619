"""The real driver's own code over a stand-in for cuda-bindings, and that every name it uses exists there."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from strata.executors.base import ContextLostError, StrataError
from strata.memory.arena.arena import open_arena
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.invariants import violations
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.slots import uniform_slots
from strata.memory.driver import real_compare
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.real import RealDriver
from strata.memory.driver.views import StaleView
from strata.memory.loan import lending
from tests.strata.memory.driver.stub_cuda import CONTEXT, CUresult, StubBindings, StubCuda
from tests.strata.test_forks import child_says

GRANULARITY = 4096


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> RealDriver:
    monkeypatch.setattr(real_compare, "_image", lambda kernel, bindings: b"image")
    return RealDriver(bindings=StubBindings(GRANULARITY))


def test_the_names_used_exist_in_cuda_bindings() -> None:
    """Nothing is offered to the real driver that cuda-bindings lacks."""
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    offered = [name for name in vars(StubCuda) if name.startswith(("cu", "CU"))]
    assert len(offered) > 30
    for name in offered:
        assert hasattr(real, name), name
        mine = vars(StubCuda)[name]
        for member, value in vars(mine).items() if hasattr(mine, "__dict__") else ():
            if member.startswith("CU_"):
                assert int(getattr(getattr(real, name), member)) == value
            elif member.startswith("CUDA_"):
                assert int(getattr(real.CUresult, member)) == int(value)


def test_structs_of_cuda_bindings_take_what_is_put_there() -> None:
    real: Any = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    prop, access = real.CUmemAllocationProp(), real.CUmemAccessDesc()
    prop.location.id = access.location.id = 3
    prop.type = real.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    access.flags = real.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    assert (int(prop.location.id), int(access.location.id)) == (3, 3)
    assert int(prop.requestedHandleTypes) == 0


def test_page_locked_memory_is_freed_with_its_last_array(stubbed: RealDriver) -> None:
    hosts = stubbed.bindings.cuda.hosts
    before = len(hosts)
    host = stubbed.page_locked(100)
    part = host[10:20]
    first = part.ctypes.data
    assert stubbed.is_page_locked(first, 10)
    assert stubbed.is_page_locked(first - 10, 100)
    assert not stubbed.is_page_locked(first, 91)
    assert not stubbed.is_page_locked(np.zeros(4, np.uint8).ctypes.data, 4)
    del host
    gc.collect()
    assert len(hosts) == before + 1
    del part
    gc.collect()
    assert len(hosts) == before
    assert not stubbed.is_page_locked(first, 10)


def test_a_queued_copy_keeps_its_source(stubbed: RealDriver) -> None:
    va, size = stubbed.reserve(GRANULARITY), GRANULARITY
    stubbed.map(va, size, stubbed.create(size))
    stubbed.set_access(va, size)
    stream = stubbed.stream()
    stubbed.copy_in(va, np.full(64, 9, np.uint8), stream)
    gc.collect()
    np.full(64, 1, np.uint8)  # would take the memory that was free
    first = stubbed.record(stream)
    hosts = [np.full(64, 7, np.uint8) for _ in range(2)]
    alive = [weakref.ref(host) for host in hosts]
    stubbed.copy_in(va + 64, hosts[0], stream)
    second = stubbed.record(stream)
    stubbed.copy_in(va + 128, hosts[1], stream)
    del hosts
    stubbed.wait(first)
    gc.collect()
    assert (stubbed.copy_out(va, 64) == 9).all()
    assert all(host() is not None for host in alive)
    stubbed.wait(second)
    gc.collect()
    assert alive[0]() is None  # what has landed is let go
    assert alive[1]() is not None
    stubbed.wait_stream(stream)
    gc.collect()
    assert alive[1]() is None
    assert (stubbed.copy_out(va + 64, 128) == 7).all()


def test_a_forked_child_is_told_at_once_that_the_card_is_not_its_own(stubbed: RealDriver) -> None:
    bindings = stubbed.bindings

    def refused() -> bool:
        with pytest.raises(ContextLostError, match=r"^memory: .*forked.*spawn"):
            bindings.call("memory", bindings.cuda.cuMemGetInfo)
        with pytest.raises(ContextLostError, match=r"^many: .*forked.*spawn"), bindings.current("many"):
            pass
        return True

    assert child_says(refused)
    assert bindings.call("memory", bindings.cuda.cuMemGetInfo)


def test_closing_gives_everything_back(stubbed: RealDriver) -> None:
    card, cuda = stubbed.bindings.cuda.memory.card, stubbed.bindings.cuda
    stubbed.stream()
    assert card.used > 0
    stubbed.close()
    assert (card.used, cuda.plain, cuda.hosts) == (0, {}, {})


def test_the_drivers_code_comes_out_as_an_error(stubbed: RealDriver) -> None:
    stubbed.bindings.cuda.memory.lost = "a fault"
    with pytest.raises(DriverError) as caught:
        stubbed.synchronize()
    assert (caught.value.call, caught.value.code, caught.value.sticky) == ("synchronize", Code.ILLEGAL_ADDRESS, True)


@pytest.mark.parametrize("other", [[], [CONTEXT, 7]], ids=["none", "of another device"])
def test_every_call_is_made_in_the_devices_context(stubbed: RealDriver, other: list[int]) -> None:
    """A context is current for each thread by itself, and CuPy makes another one current when it changes device.

    The thread has its own context back afterwards: CuPy would use the wrong device.
    """
    cuda = stubbed.bindings.cuda
    for _ in range(2):  # also after calls in the right one
        cuda.contexts = [CONTEXT]
        stubbed.synchronize()
        cuda.contexts = list(other)
        va, size = stubbed.reserve(GRANULARITY), GRANULARITY
        stubbed.map(va, size, stubbed.create(size))
        stubbed.set_access(va, size)
        stream = stubbed.stream()
        stubbed.copy_in(va, np.full(64, 9, np.uint8), stream)
        event = stubbed.record(stream)
        while not stubbed.reached(event):
            assert cuda.contexts == other
        stubbed.wait(event)
        stubbed.wait_stream(stream)
        assert stubbed.compare(va, np.full(64, 9, np.uint8)).equal
        stubbed.fill(va, 3, 64)
        assert (stubbed.copy_out(va, 64) == 3).all()
        host = stubbed.page_locked(10)
        del host
        gc.collect()
        assert cuda.contexts == other
    assert cuda.memory.misuse == []
    stubbed.close()
    assert cuda.contexts == other
    assert (cuda.memory.misuse, cuda.hosts) == ([], {})


def test_page_locked_memory_whose_free_is_refused_is_freed_at_the_end(stubbed: RealDriver) -> None:
    cuda = stubbed.bindings.cuda
    free, answers = cuda.cuMemFreeHost, [(CUresult.CUDA_ERROR_INVALID_VALUE,)]
    cuda.cuMemFreeHost = lambda address: answers.pop() if answers else free(address)
    host = stubbed.page_locked(100)
    first = host.ctypes.data
    del host
    gc.collect()
    assert first in cuda.hosts
    assert not stubbed.is_page_locked(first, 100)
    stubbed.close()
    assert cuda.hosts == {}


def test_an_unmap_that_reports_a_failure_after_its_effect_leaves_one_mapping(stubbed: RealDriver) -> None:
    cuda = stubbed.bindings.cuda
    arena = open_arena(stubbed, 4 * GRANULARITY, GRANULARITY)
    unmap, late = cuda.cuMemUnmap, [True]

    def reports_a_failure(va: int, size: int) -> Any:
        answer = unmap(va, size)
        return (CUresult.CUDA_ERROR_OUT_OF_MEMORY,) if late and late.pop() else answer

    cuda.cuMemUnmap = reports_a_failure
    view = arena.view(3 * GRANULARITY, 100)
    with pytest.raises(DriverError):
        arena.shrink(GRANULARITY)
    assert [mapping.va for mapping in stubbed.mappings] == [arena.address(k * GRANULARITY) for k in range(4)]
    with pytest.raises(StaleView):
        view.array()
    arena.shrink(GRANULARITY)
    assert [mapping.va for mapping in stubbed.mappings] == [arena.base]
    arena.grow(4 * GRANULARITY)
    assert arena.view(0, 4 * GRANULARITY).address == arena.base
    arena.close()
    assert len(stubbed.mappings) == 0


#: The calls that LEND and RECLAIM make of the module.
CALLS = ("cuMemUnmap", "cuMemMap", "cuMemSetAccess", "cuMemCreate", "cuMemRelease", "cuMemcpyHtoDAsync")
WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuMemGetInfo", "cuLaunchKernel", "cuMemsetD8Async")


@pytest.mark.parametrize("name", CALLS + WAITS)
@pytest.mark.parametrize("after", [False, True])
def test_every_call_of_a_loan_may_fail(name: str, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but an answer or a fatal end comes out, and until one does every row tells the truth."""
    monkeypatch.setattr(real_compare, "_image", lambda kernel, bindings: b"image")
    monkeypatch.setattr(lending, "SPARE_BYTES", 0)
    geometry = ExpertGeometry(2, 16, (70_001, 91_000))
    source = patterned(geometry)
    for number in range(1, 100):
        stubbed = RealDriver(bindings=StubBindings(1 << 16))
        cuda = stubbed.bindings.cuda
        cache = open_cache(stubbed, source, uniform_slots(geometry, 20), list(range(32)), 1 << 19)
        loans = lending.Lending(cache, verify_all=True)
        call, made = getattr(cuda, name), count(1)

        def fails(*args: Any, call: Any = call, made: Any = made, number: int = number) -> Any:
            now = next(made) == number
            late = after and name != "cuMemCreate"  # one that fails tells no handle, so it can have made none
            answer = (CUresult.CUDA_ERROR_OUT_OF_MEMORY,) if now and not late else call(*args)
            return (CUresult.CUDA_ERROR_OUT_OF_MEMORY,) if now else answer

        setattr(cuda, name, fails)
        lend: Callable[[], object] = partial(loans.lend, 1)
        for act in (lend, loans.reclaim, loans.reclaim, lend, loans.reclaim):
            with suppress(StrataError):
                act()
            if cache.fatal is None:
                assert violations(cache, read=partial(cuda.memory.read, "peek")) == [], number
        met = next(made) > number
        setattr(cuda, name, call)
        if cache.fatal is None:
            loans.reclaim()
            assert loans.loan is None
            assert len(cache.residency.resident()) == 20
        cache.close()
        assert [mapping.va for mapping in stubbed.mappings] == []
        stubbed.close()
        assert cuda.memory.card.used == 0
        if not met:
            assert number > 1
            return
    raise AssertionError(f"{name} is called more than {number} times")
