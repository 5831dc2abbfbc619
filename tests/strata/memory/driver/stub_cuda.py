"""A stand-in for `cuda.bindings.driver` over the fake's memory: the real driver's own code runs without a card.

It proves addresses, sizes, orders and how errors come out, and nothing about CUDA. Every name that it offers is
checked against the real module by `test_the_names_used_exist_in_cuda_bindings`. Kernels are run by Python: it knows
the two of compare_bytes.cu.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

from strata.forks import Home
from strata.memory.driver.bindings import Bindings
from strata.memory.driver.driver import DriverError
from strata.memory.driver.fake_card import FakeCard
from strata.memory.driver.fake_memory import FakeMemory
from strata.memory.driver.fake_queues import FakeQueues, Work

Answer = tuple[Any, ...]
#: The context of the device.
CONTEXT = 1


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


def _answers(function: Callable[..., Any]) -> Callable[..., Answer]:
    """Turn a DriverError into the tuple that the module would return."""

    def call(self: StubCuda, *args: Any) -> Answer:
        if self.contexts[-1:] != [CONTEXT] and not function.__name__.startswith(("cuCtx", "cuDevice")):
            self.memory.misuse.append(f"{function.__name__} in context {self.contexts[-1:]}")
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if self.memory.lost:
            return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
        try:
            value = function(self, *args)
        except DriverError as error:
            return (CUresult(error.code),)
        if value is None:
            return (CUresult.CUDA_SUCCESS,)
        return (CUresult.CUDA_SUCCESS, *(value if isinstance(value, tuple) else (value,)))

    return call


class StubCuda:
    """The module. memory: of the card; plain allocations are handles of their own range."""

    CUresult = CUresult
    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED=102)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, granularity: int) -> None:
        self.queues = FakeQueues()
        self.memory = FakeMemory(FakeCard(1 << 30), granularity, self.queues.touches)
        self.hosts: dict[int, np.ndarray] = {}
        self.contexts = [CONTEXT]  # of the one thread that tests use
        self.plain: dict[int, tuple[int, int]] = {}
        self.captures: dict[int, list[Work]] = {}
        self.graphs: dict[int, list[Work]] = {}
        self._numbers = count(1)

    def CUmemAllocationProp(self) -> Any:  # noqa: N802
        return SimpleNamespace(location=SimpleNamespace())

    CUmemAccessDesc = CUmemAllocationProp

    @_answers
    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:  # noqa: N802
        return CONTEXT

    @_answers
    def cuDevicePrimaryCtxRelease(self, device: int) -> Any:  # noqa: N802
        return None

    @_answers
    def cuCtxGetCurrent(self) -> Any:  # noqa: N802
        return self.contexts[-1] if self.contexts else 0

    @_answers
    def cuCtxPushCurrent(self, context: int) -> Any:  # noqa: N802
        self.contexts.append(context)

    @_answers
    def cuCtxPopCurrent(self) -> Any:  # noqa: N802
        return self.contexts.pop()

    @_answers
    def cuDeviceGetAttribute(self, attribute: int, device: int) -> Any:  # noqa: N802
        return int(attribute == 102)

    @_answers
    def cuMemGetAllocationGranularity(self, prop: Any, option: int) -> Any:  # noqa: N802
        assert (prop.type, prop.location.type, option) == (1, 1, 0)
        return self.memory.granularity

    @_answers
    def cuMemGetInfo(self) -> Any:  # noqa: N802
        return self.memory.card.reported_free, self.memory.card.total

    @_answers
    def cuMemAddressReserve(self, size: int, alignment: int, addr: int, flags: int) -> Any:  # noqa: N802
        assert (addr, flags) == (0, 0)
        return self.memory.reserve(size, alignment)

    @_answers
    def cuMemAddressFree(self, ptr: int, size: int) -> Any:  # noqa: N802
        self.memory.address_free(ptr, size)

    @_answers
    def cuMemCreate(self, size: int, prop: Any, flags: int) -> Any:  # noqa: N802
        return self.memory.create(size)

    @_answers
    def cuMemRelease(self, handle: int) -> Any:  # noqa: N802
        self.memory.release(handle)

    @_answers
    def cuMemMap(self, ptr: int, size: int, offset: int, handle: int, flags: int) -> Any:  # noqa: N802
        assert (offset, flags) == (0, 0)
        self.memory.map(ptr, size, handle)

    @_answers
    def cuMemUnmap(self, ptr: int, size: int) -> Any:  # noqa: N802
        self.memory.unmap(ptr, size)

    @_answers
    def cuMemSetAccess(self, ptr: int, size: int, desc: list[Any], n: int) -> Any:  # noqa: N802
        assert len(desc) == n == 1
        assert desc[0].flags == 3
        self.memory.set_access(ptr, size)

    @_answers
    def cuMemAlloc(self, n: int) -> Any:  # noqa: N802
        size = -(-n // self.memory.granularity) * self.memory.granularity
        va, handle = self.memory.reserve(size, 0), self.memory.create(size)
        self.memory.map(va, size, handle)
        self.memory.set_access(va, size)
        self.plain[va] = (size, handle)
        return va

    @_answers
    def cuMemFree(self, va: int) -> Any:  # noqa: N802
        size, handle = self.plain.pop(va)
        self.memory.unmap(va, size)
        self.memory.release(handle)
        self.memory.address_free(va, size)

    @_answers
    def cuMemHostAlloc(self, n: int, flags: int) -> Any:  # noqa: N802
        host = np.full(n, 0x5C, np.uint8)
        self.hosts[host.ctypes.data] = host
        return host.ctypes.data

    @_answers
    def cuMemFreeHost(self, address: int) -> Any:  # noqa: N802
        del self.hosts[address]

    @_answers
    def cuStreamCreate(self, flags: int) -> Any:  # noqa: N802
        assert flags == 1
        return self.queues.stream()

    @_answers
    def cuStreamDestroy(self, stream: int) -> Any:  # noqa: N802
        return None

    @_answers
    def cuStreamSynchronize(self, stream: int) -> Any:  # noqa: N802
        self.queues.wait_stream(stream)

    @_answers
    def cuCtxSynchronize(self) -> Any:  # noqa: N802
        self.queues.wait_all()

    @_answers
    def cuEventCreate(self, flags: int) -> Any:  # noqa: N802
        return 10_000 + next(self._numbers)

    @_answers
    def cuEventRecord(self, event: int, stream: int) -> Any:  # noqa: N802
        self.queues._events[event] = self.queues._events[self.queues.record(stream)]

    @_answers
    def cuEventSynchronize(self, event: int) -> Any:  # noqa: N802
        self.queues.wait(event)

    @_answers
    def cuEventQuery(self, event: int) -> Any:  # noqa: N802
        if not self.queues.reached(event):
            raise DriverError("query", CUresult.CUDA_ERROR_NOT_READY)

    @_answers
    def cuEventDestroy(self, event: int) -> Any:  # noqa: N802
        return None

    @_answers
    def cuMemcpyHtoDAsync(self, va: int, address: int, n: int, stream: int) -> Any:  # noqa: N802
        self._enqueue(stream, [(va, n)], lambda: self.memory.write("copy", va, _host(address, n).copy()))

    @_answers
    def cuMemcpyDtoHAsync(self, address: int, va: int, n: int, stream: int) -> Any:  # noqa: N802
        self._enqueue(stream, [(va, n)], lambda: _put(_host(address, n), self.memory.read("copy", va, n)))

    @_answers
    def cuMemcpyDtoH(self, address: int, va: int, n: int) -> Any:  # noqa: N802
        _put(_host(address, n), self.memory.read("copy", va, n))

    @_answers
    def cuMemsetD8Async(self, va: int, byte: int, n: int, stream: int) -> Any:  # noqa: N802
        self._enqueue(stream, [(va, n)], lambda: self.memory.write("fill", va, np.full(n, byte, np.uint8)))

    @_answers
    def cuModuleLoadData(self, image: bytes) -> Any:  # noqa: N802
        assert image
        return next(self._numbers)

    @_answers
    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:  # noqa: N802
        return name.decode()

    @_answers
    def cuModuleUnload(self, module: int) -> Any:  # noqa: N802
        return None

    @_answers
    def cuLaunchKernel(self, function: str, *words: int) -> Any:  # noqa: N802
        grid, block, (shared, stream, table, extra) = words[:3], words[3:6], words[6:]
        assert grid[0] >= 1
        assert (*grid[1:], *block[1:], extra) == (1, 1, 1, 1, 0)
        count = {"compare_bytes": 6, "copy_bytes": 5}[function]
        pointers = (ctypes.c_uint64 * count).from_address(table)
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        if function == "copy_bytes":
            va, at, out, out_at, n = values
            run = lambda: self.memory.write("kernel", out + out_at, self.memory.read("kernel", va + at, n))  # noqa: E731
            self._enqueue(stream, [(va + at, n), (out + out_at, n)], run)
        else:
            va, at, want, want_at, n, result = values
            assert shared == block[0] * 8
            self._enqueue(
                stream,
                [(va + at, n), (want + want_at, n), (result, 16)],
                lambda: self._compare(va + at, want + want_at, n, result),
            )

    @_answers
    def cuStreamBeginCapture(self, stream: int, mode: int) -> Any:  # noqa: N802
        self.captures[stream] = []

    @_answers
    def cuStreamEndCapture(self, stream: int) -> Any:  # noqa: N802
        graph = next(self._numbers)
        self.graphs[graph] = self.captures.pop(stream)
        return graph

    @_answers
    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:  # noqa: N802
        made = next(self._numbers)
        self.graphs[made] = self.graphs[graph]
        return made

    @_answers
    def cuGraphDestroy(self, graph: int) -> Any:  # noqa: N802
        del self.graphs[graph]

    cuGraphExecDestroy = cuGraphDestroy  # noqa: N815

    @_answers
    def cuGraphLaunch(self, graph: int, stream: int) -> Any:  # noqa: N802
        for work in self.graphs[graph]:
            self.queues.enqueue(stream, work)

    def _enqueue(self, stream: int, ranges: list[tuple[int, int]], run: Callable[[], None]) -> None:
        work = Work(tuple(ranges), run)
        if stream in self.captures:
            self.captures[stream].append(work)
        else:
            self.queues.enqueue(stream, work)

    def _compare(self, va: int, want: int, n: int, result: int) -> None:
        got, expected = self.memory.read("kernel", va, n), self.memory.read("kernel", want, n)
        words = self.memory.read("kernel", result, 16).view(np.uint64).copy()
        if not np.array_equal(got, expected):
            i = int(np.argmax(got != expected))
            key = i << 16 | int(expected[i]) << 8 | int(got[i])
            words[0] = max(int(words[0]), ~key & (1 << 64) - 1)
        words[1] += np.uint64(n)
        self.memory.write("kernel", result, words.view(np.uint8))


class StubBindings(Bindings):
    """The bindings over `StubCuda`."""

    def __init__(self, granularity: int) -> None:
        self.cuda: Any = StubCuda(granularity)
        self.device = 0
        self._home = Home()
        self.extra = "cuda13x"
        self._context = CONTEXT
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                UnownedMemory=lambda va, n, owner, device: (va, n),
                MemoryPointer=lambda memory, offset: (memory[0] + offset, memory[1]),
            ),
            uint8="uint8",
            ndarray=lambda shape, dtype, memptr: self.cuda.memory.array(memptr[0], shape[0]),
        )


def _host(address: int, n: int) -> np.ndarray:
    return np.frombuffer(memoryview((ctypes.c_uint8 * n).from_address(address)), np.uint8)


def _put(to: np.ndarray, what: np.ndarray) -> None:
    to[:] = what
