"""The real driver's own code over a stand-in for cuda-bindings, and that every name it uses exists there."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from strata.memory import real_compare
from strata.memory.driver import Code, DriverError
from strata.memory.real import RealDriver
from tests.strata.memory.stub_cuda import StubBindings, StubCuda

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


def test_another_thread_gets_the_context(stubbed: RealDriver) -> None:
    """A context is current for one thread; the first call of each makes it so."""
    seen: list[int] = []

    def current(context: int) -> tuple[int]:
        seen.append(context)
        return (0,)

    stubbed.bindings.cuda.cuCtxSetCurrent = current
    worker = threading.Thread(target=stubbed.synchronize)
    worker.start()
    worker.join()
    stubbed.synchronize()
    assert seen == [1]
