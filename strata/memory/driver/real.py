"""The card: the CUDA driver's virtual memory calls, copies on streams of its own, views as CuPy arrays.

Handles are kept, so that a release after an unmap is the call that frees. Blocking calls use a stream of this
driver's own and wait for that: a copy from pageable memory may otherwise return before the last byte has landed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from strata.memory.driver.bindings import Bindings
from strata.memory.driver.driver import Compared, DriverError, Event, Stream, host_address
from strata.memory.driver.real_compare import Comparer
from strata.memory.driver.real_host import PageLocked
from strata.memory.driver.unreleased_handles import UnreleasedHandles
from strata.memory.driver.views import MappedView, Mappings


class RealDriver:
    """A card through the CUDA driver's virtual memory calls; see `driver.Driver` for its methods.

    Parameters
    ----------
    device
        The number of the card, counted from 0.
    bindings
        What to call in place of the device's own, for a test.

    Raises
    ------
    ExecutorUnavailable
        When this machine cannot provide it; the message tells what to do.

    References
    ----------
    NVIDIA, CUDA Driver API, "Virtual Memory Management".
    """

    def __init__(self, device: int = 0, bindings: Bindings | None = None) -> None:
        self.bindings = Bindings(device) if bindings is None else bindings
        self.mappings = Mappings()
        self.unreleased = UnreleasedHandles()
        self._cuda = cuda = self.bindings.cuda
        self._call = self.bindings.call
        self._supported = bool(
            self.bindings.attribute(cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
        )
        self._prop = cuda.CUmemAllocationProp()
        self._prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self._prop.location.id = self.bindings.device
        self._access = cuda.CUmemAccessDesc()
        self._access.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self._access.location.id = self.bindings.device
        self._access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._host = PageLocked(self.bindings)
        self._streams: dict[Stream, deque[tuple[int, np.ndarray]]] = {}  # what queued copies still read
        self._events: dict[Event, tuple[Stream, int]] = {}
        self._queued = 0
        self._own = self._new_stream("open")
        self._comparer = Comparer(self.bindings, self._host.holds)

    def supported(self) -> bool:
        return self._supported

    def granularity(self) -> int:
        minimum = self._cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        return int(self._call("granularity", self._cuda.cuMemGetAllocationGranularity, self._prop, minimum))

    def mem_info(self) -> tuple[int, int]:
        free, total = self._call("mem_info", self._cuda.cuMemGetInfo)
        return int(free), int(total)

    def reserve(self, size: int, align: int = 0) -> int:
        return int(self._call("reserve", self._cuda.cuMemAddressReserve, size, align, 0, 0))

    def address_free(self, va: int, size: int) -> None:
        self._call("address_free", self._cuda.cuMemAddressFree, va, size)
        self.mappings.forget(va, size)

    def create(self, size: int) -> int:
        handle = int(self._call("create", self._cuda.cuMemCreate, size, self._prop, 0))
        self.unreleased.strike(handle)
        return handle

    def release(self, handle: int) -> None:
        self._call("release", self._cuda.cuMemRelease, handle)

    def map(self, va: int, size: int, handle: int) -> None:
        self._call("map", self._cuda.cuMemMap, va, size, 0, handle, 0)
        self.mappings.add(va, size, handle)

    def unmap(self, va: int, size: int) -> None:
        self._call("unmap", self._cuda.cuMemUnmap, va, size)
        if self.mappings.starting(va) is not None:
            self.mappings.remove(va)

    def set_access(self, va: int, size: int) -> None:
        self._call("set_access", self._cuda.cuMemSetAccess, va, size, [self._access], 1)
        for mapping in self.mappings.touching(va, size):
            mapping.access = True

    def synchronize(self) -> None:
        self._call("synchronize", self._cuda.cuCtxSynchronize)
        for kept in self._streams.values():
            kept.clear()

    def copy_in(self, va: int, host: np.ndarray, stream: Stream | None = None) -> None:
        address = host_address("copy_in", host)
        if host.nbytes == 0:
            return
        on = self._own if stream is None else stream
        self._call("copy_in", self._cuda.cuMemcpyHtoDAsync, va, address, host.nbytes, on)
        if stream is None:
            self._call("copy_in", self._cuda.cuStreamSynchronize, on)
        else:
            self._queued += 1
            self._streams[stream].append((self._queued, host))

    def copy_in_all(self, ranges: Iterable[tuple[int, np.ndarray]], stream: Stream) -> None:
        kept, call, copy = self._streams[stream], self.bindings.call_current, self._cuda.cuMemcpyHtoDAsync
        with self.bindings.current("copy_in"):
            for va, host in ranges:
                if host.nbytes:
                    self._queued += 1
                    kept.append((self._queued, host))
                    call("copy_in", copy, va, host_address("copy_in", host), host.nbytes, stream)

    def copy_out(self, va: int, n: int) -> np.ndarray:
        out = np.empty(n, np.uint8)
        if n:
            self._call("copy_out", self._cuda.cuMemcpyDtoHAsync, out.ctypes.data, va, n, self._own)
            self._call("copy_out", self._cuda.cuStreamSynchronize, self._own)
        return out

    def fill(self, va: int, byte: int, n: int) -> None:
        if n:
            self._call("fill", self._cuda.cuMemsetD8Async, va, byte, n, self._own)
            self._call("fill", self._cuda.cuStreamSynchronize, self._own)

    def compare(self, va: int, host: np.ndarray) -> Compared:
        return self._comparer.compare([(va, host)])

    def compare_all(self, ranges: Sequence[tuple[int, np.ndarray]]) -> Compared:
        return self._comparer.compare(ranges)

    def stream(self) -> Stream:
        made = self._new_stream("stream")
        self._streams[made] = deque()
        return made

    def record(self, stream: Stream) -> Event:
        plain = self._cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = int(self._call("record", self._cuda.cuEventCreate, int(plain)))
        try:
            self._call("record", self._cuda.cuEventRecord, event, stream)
        except DriverError:
            self._cuda.cuEventDestroy(event)
            raise
        self._events[event] = (stream, self._queued)
        return event

    def reached(self, event: Event) -> bool:
        try:
            self._call("reached", self._cuda.cuEventQuery, event)
        except DriverError as error:
            if error.code != int(self._cuda.CUresult.CUDA_ERROR_NOT_READY):
                raise
            return False
        return True

    def wait(self, event: Event) -> None:
        self._call("wait", self._cuda.cuEventSynchronize, event)
        stream, upto = self._events[event]
        kept = self._streams[stream]
        while kept and kept[0][0] <= upto:
            kept.popleft()

    def wait_stream(self, stream: Stream) -> None:
        self._call("wait_stream", self._cuda.cuStreamSynchronize, stream)
        self._streams[stream].clear()

    def page_locked(self, n: int) -> np.ndarray:
        return self._host.array(n)

    def is_page_locked(self, address: int, n: int) -> bool:
        """Whether host memory is part of what `page_locked` gave.

        Parameters
        ----------
        address, n
            The first address, and how many bytes.
        """
        return self._host.holds(address, n)

    def view(self, va: int, n: int) -> MappedView:
        return MappedView(self.mappings, va, n, self._array)

    def capture(self, ranges: Sequence[tuple[int, int]]) -> RealGraph:
        """Captured work that reads ranges (address, bytes) with a kernel."""
        return RealGraph(self, ranges)

    def close(self) -> None:
        """Raises DriverError when page-locked memory that nobody uses any more could not be freed, at its last try."""
        with self.bindings.current("close"):
            self._comparer.close()
            for event in self._events:
                self._cuda.cuEventDestroy(event)
            for stream in (*self._streams, self._own):
                self._cuda.cuStreamDestroy(stream)
            self._events.clear()
            self._streams.clear()
            self._host.close()
        self.bindings.close()

    def _new_stream(self, name: str) -> Stream:
        alone = self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self._call(name, self._cuda.cuStreamCreate, int(alone)))

    def _array(self, va: int, n: int) -> Any:
        """A CuPy array over the bytes. The device is named, so that CuPy asks the driver nothing about them."""
        cuda = self.bindings.cupy.cuda
        memory = cuda.UnownedMemory(va, n, self, self.bindings.device)
        return self.bindings.cupy.ndarray((n,), self.bindings.cupy.uint8, memptr=cuda.MemoryPointer(memory, 0))


class RealGraph:
    """Captured launches of a kernel that reads ranges; the graph keeps their addresses.

    Parameters
    ----------
    driver
        What runs it.
    ranges
        (address, bytes) of each.
    """

    def __init__(self, driver: RealDriver, ranges: Sequence[tuple[int, int]]) -> None:
        self._driver = driver
        self._cuda = cuda = driver.bindings.cuda
        self._call = call = driver.bindings.call
        self._n = sum(n for _, n in ranges)
        self._stream = driver.stream()
        self._out = int(call("capture", cuda.cuMemAlloc, max(self._n, 1)))
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call("capture", cuda.cuStreamBeginCapture, self._stream, mode)
        at = 0
        for va, n in ranges:
            driver._comparer.launch_copy(va, self._out, at, n, self._stream)
            at += n
        graph = call("capture", cuda.cuStreamEndCapture, self._stream)
        self._graph = call("capture", cuda.cuGraphInstantiate, graph, 0)
        call("capture", cuda.cuGraphDestroy, graph)

    def launch(self) -> np.ndarray:
        """See `driver.Graph`."""
        self._call("launch", self._cuda.cuGraphLaunch, self._graph, self._stream)
        self._call("launch", self._cuda.cuStreamSynchronize, self._stream)
        return self._driver.copy_out(self._out, self._n)

    def close(self) -> None:
        """Free the graph and its output."""
        self._call("close", self._cuda.cuGraphExecDestroy, self._graph)
        self._call("close", self._cuda.cuMemFree, self._out)
