"""A driver without a card: the rules of `driver.py` enforced over bytes in host memory, with faults on demand.

What it does at its worst, so that tests need no luck: queued copies land only when somebody waits for them, and read
the host's bytes only then; new memory holds 0xA5; a blocking call waits for no stream; an access to memory that is not
mapped or has no access, and an unmap below queued work, lose the context, which then answers ILLEGAL_ADDRESS for good.
`misuse` lists every rule that a caller broke, also when it took the error and went on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import numpy as np

from strata.memory.driver import STICKY, Code, Compared, DriverError, Event, Stream
from strata.memory.fake_card import POISON, FakeCard, Physical
from strata.memory.fault_plan import Call, Corrupt, Elsewhere, Fail, FaultPlan, Happening, Meanwhile, Report
from strata.memory.views import MappedView, Mappings

__all__ = ["POISON", "FakeCard", "FakeDriver", "FakeGraph", "FaultPlan"]

T = TypeVar("T")
_FIRST_ADDRESS = 0x7F00_0000_0000
#: Calls that return something; when they fail after their effect, the effect is taken back.
_MAKERS = ("reserve", "create", "stream", "record", "page_locked")


@dataclass
class _Work:
    """Queued work. ranges: the addresses it touches; run: does it."""

    ranges: tuple[tuple[int, int], ...]
    run: Callable[[], None]


@dataclass
class _Queue:
    waiting: deque[_Work] = field(default_factory=deque)
    queued: int = 0
    done: int = 0


class FakeDriver:
    """One process on a FakeCard.

    card: its memory, shared with other drivers and tenants; granularity: a power of two; vmm: what `supported` says;
    plan: what goes wrong. log: every call so far, which a test may clear.
    """

    def __init__(
        self,
        card: FakeCard | None = None,
        granularity: int = 2 << 20,
        *,
        vmm: bool = True,
        plan: FaultPlan | None = None,
    ) -> None:
        self.card = FakeCard(8 << 30) if card is None else card
        self.plan = FaultPlan() if plan is None else plan
        self.log: list[Call] = []
        self.misuse: list[str] = []
        self.lost = ""  # why the context answers nothing any more
        self.mappings = Mappings()
        self.reservations: dict[int, int] = {}
        self._granularity = granularity
        self._vmm = vmm
        self._next_address = _FIRST_ADDRESS
        self._handles: set[int] = set()
        self._released_anyway: set[int] = set()
        self._queues: dict[Stream, _Queue] = {}
        self._events: dict[Event, tuple[Stream, int]] = {}
        self._numbers = count(1)
        self._calls = count(1)

    # The protocol.

    def supported(self) -> bool:
        return self._vmm

    def granularity(self) -> int:
        return self._call("granularity", (), lambda: self._granularity)

    def mem_info(self) -> tuple[int, int]:
        return self._call("mem_info", (), lambda: (self.card.reported_free, self.card.total))

    def reserve(self, size: int, align: int = 0) -> int:
        return self._call("reserve", (size, align), lambda: self._reserve(size, align))

    def address_free(self, va: int, size: int) -> None:
        self._call("address_free", (va, size), lambda: self._address_free(va, size))

    def create(self, size: int) -> int:
        return self._call("create", (size,), lambda: self._create(size))

    def release(self, handle: int) -> None:
        self._call("release", (handle,), lambda: self._release(handle))

    def map(self, va: int, size: int, handle: int) -> None:
        self._call("map", (va, size, handle), lambda: self._map(va, size, handle))

    def unmap(self, va: int, size: int) -> None:
        self._call("unmap", (va, size), lambda: self._unmap(va, size))

    def set_access(self, va: int, size: int) -> None:
        self._call("set_access", (va, size), lambda: self._set_access(va, size))

    def synchronize(self) -> None:
        self._call("synchronize", (), self._finish_all)

    def copy_in(self, va: int, host: np.ndarray, stream: Stream | None = None) -> None:
        self._bytes("copy_in", host)
        self._call("copy_in", (va, host.nbytes, -1 if stream is None else stream), lambda: None, (va, host, stream))

    def copy_out(self, va: int, n: int) -> np.ndarray:
        return self._call("copy_out", (va, n), lambda: self._read("copy_out", va, n))

    def fill(self, va: int, byte: int, n: int) -> None:
        self._call("fill", (va, byte, n), lambda: self._write("fill", va, np.full(n, byte, np.uint8)))

    def compare(self, va: int, host: np.ndarray) -> Compared:
        self._bytes("compare", host)
        return self._call("compare", (va, host.nbytes), lambda: self._compare([(va, host)]))

    def compare_all(self, ranges: list[tuple[int, np.ndarray]]) -> Compared:
        for _, host in ranges:
            self._bytes("compare_all", host)
        args = (len(ranges), sum(host.nbytes for _, host in ranges))
        return self._call("compare_all", args, lambda: self._compare(ranges))

    def stream(self) -> Stream:
        return self._call("stream", (), self._stream)

    def record(self, stream: Stream) -> Event:
        return self._call("record", (stream,), lambda: self._record(stream))

    def reached(self, event: Event) -> bool:
        """One piece of queued work is done by asking, so that whoever polls comes to an end."""
        return self._call("reached", (event,), lambda: self._reached(event))

    def wait(self, event: Event) -> None:
        self._call("wait", (event,), lambda: self._finish(*self._events[event]))

    def wait_stream(self, stream: Stream) -> None:
        self._call("wait_stream", (stream,), lambda: self._finish(stream, self._queues[stream].queued))

    def page_locked(self, n: int) -> np.ndarray:
        return self._call("page_locked", (n,), lambda: np.zeros(n, np.uint8))

    def view(self, va: int, n: int) -> MappedView:
        return MappedView(self.mappings, va, n, self._array)

    def close(self) -> None:
        self._queues.clear()
        self._events.clear()

    # What tests do besides.

    def kernel(self, reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]], stream: Stream) -> None:
        """Queue a kernel that reads and writes ranges (address, bytes); it stores the complement of what is there."""

        def run() -> None:
            for va, n in reads:
                self._read("kernel", va, n)
            for va, n in writes:
                self._write("kernel", va, ~self._read("kernel", va, n))

        self._enqueue(stream, _Work((*reads, *writes), run))

    def capture(self, ranges: Sequence[tuple[int, int]]) -> FakeGraph:
        """Captured work that reads ranges (address, bytes)."""
        return FakeGraph(self, tuple(ranges))

    def progress(self, stream: Stream, works: int = 1) -> None:
        """Let that many queued pieces of work of a stream be done."""
        queue = self._queues[stream]
        self._finish(stream, queue.done + works)

    def live_handles(self) -> dict[int, int]:
        """Bytes of every handle of this process that still takes memory, by handle."""
        return {handle: self.card.physical[handle].size for handle in sorted(self._handles)}

    def kill(self) -> None:
        """The process ends without a word; the system gives everything back."""
        for handle in self._handles:
            self.card.physical.pop(handle, None)
        self._handles.clear()
        self.lost = "the process was killed"

    # One call.

    def _call(
        self,
        name: str,
        args: tuple[int, ...],
        effect: Callable[[], T],
        copy: tuple[int, np.ndarray, Stream | None] | None = None,
    ) -> T:
        call = Call(next(self._calls), name, args)
        happenings: list[Happening] = self.plan.meet(call)
        for happening in happenings:
            if isinstance(happening, Meanwhile):
                happening.act()
        fail = next((happening for happening in happenings if isinstance(happening, Fail)), None)
        try:
            if self.lost:
                raise DriverError(name, Code.ILLEGAL_ADDRESS, self.lost)
            if fail and (not fail.after or name in _MAKERS):
                raise self._refusal(name, fail)
            if copy is not None:
                self._copy_in(*copy, [happening for happening in happenings if isinstance(happening, Corrupt)])
            result = self._altered(effect(), happenings)
            if fail:
                raise self._refusal(name, fail)
        except DriverError as error:
            self.log.append(call._replace(error=error.code))
            if fail and fail.after and name == "release" and not self.lost:
                self._released_anyway.add(args[0])
            raise
        self.log.append(call)
        return result

    def _altered(self, result: Any, happenings: list[Happening]) -> Any:
        for happening in happenings:
            if isinstance(happening, Report):
                result = (happening.free, result[1])
            elif isinstance(happening, Elsewhere):
                size = self.reservations.pop(result)
                result += self._granularity
                self.reservations[result] = size
                self._next_address += self._granularity
        return result

    def _refusal(self, name: str, fail: Fail) -> DriverError:
        if fail.code in STICKY:
            self.lost = f"{name} was made to fail"
        return DriverError(name, fail.code)

    def _misused(self, name: str, what: str) -> DriverError:
        self.misuse.append(f"{name}: {what}")
        return DriverError(name, Code.INVALID_VALUE, what)

    def _lose(self, name: str, what: str) -> DriverError:
        self.lost = f"{name}: {what}"
        self.misuse.append(self.lost)
        return DriverError(name, Code.ILLEGAL_ADDRESS, what)

    def _bytes(self, name: str, host: np.ndarray) -> None:
        if host.dtype != np.uint8 or host.ndim != 1 or not host.flags.c_contiguous:
            raise TypeError(f"{name}: {host.dtype} {host.shape}, expected contiguous uint8 of one dimension")

    # Addresses and physical memory.

    def _whole(self, name: str, *numbers: int) -> None:
        for number in numbers:
            if number % self._granularity:
                raise self._misused(name, f"{number:#x} is no multiple of {self._granularity:#x}")

    def _reserve(self, size: int, align: int) -> int:
        if size <= 0 or align & (align - 1):
            raise self._misused("reserve", f"size {size}, alignment {align}: expected above 0 and a power of two or 0")
        self._whole("reserve", size)
        step = max(align, self._granularity)
        va = -(-self._next_address // step) * step
        self._next_address = va + size + self._granularity  # a gap, so that an overrun is seen
        self.reservations[va] = size
        return va

    def _address_free(self, va: int, size: int) -> None:
        if self.reservations.get(va) != size:
            raise self._misused("address_free", f"{va:#x}, {size} bytes were not reserved so")
        if self.mappings.touching(va, size):
            raise self._misused("address_free", f"{va:#x} still has mappings")
        del self.reservations[va]

    def _create(self, size: int) -> int:
        if size <= 0:
            raise self._misused("create", f"size {size}")
        self._whole("create", size)
        handle = self.card.create(size)
        if handle is None:
            raise DriverError(
                "create", Code.OUT_OF_MEMORY, f"{size} bytes, {self.card.total - self.card.used} are free"
            )
        self._handles.add(handle)
        return handle

    def _release(self, handle: int) -> None:
        memory = self._own("release", handle)
        if memory is None or memory.references <= 0:
            if handle in self._released_anyway:
                raise DriverError("release", Code.INVALID_VALUE, "it was released by a call that reported a failure")
            raise self._misused("release", f"handle {handle} does not exist")
        memory.references -= 1
        self._settle(handle)

    def _map(self, va: int, size: int, handle: int) -> None:
        self._whole("map", va, size)
        memory = self._own("map", handle)
        if memory is None or memory.references <= 0 or memory.size != size:
            raise self._misused("map", f"handle {handle} of {memory.size if memory else 0} bytes for {size} bytes")
        if not any(first <= va and va + size <= first + n for first, n in self.reservations.items()):
            raise self._misused("map", f"{va:#x} to {va + size:#x} is not reserved")
        if self.mappings.touching(va, size):
            raise self._misused("map", f"{va:#x} to {va + size:#x} is mapped already")
        memory.maps += 1
        self.mappings.add(va, size, handle)

    def _unmap(self, va: int, size: int) -> None:
        mapping = self.mappings.starting(va)
        if mapping is None or mapping.size != size:
            raise self._misused("unmap", f"{va:#x}, {size} bytes is not one whole mapping")
        for queue in self._queues.values():
            for work in queue.waiting:
                if any(first < va + size and va < first + n for first, n in work.ranges):
                    self._lose("unmap", f"queued work still uses {va:#x}")
        self.mappings.remove(va)
        self.card.physical[mapping.handle].maps -= 1
        self._settle(mapping.handle)

    def _set_access(self, va: int, size: int) -> None:
        below = self.mappings.covering(va, size)
        if not below or below[0].va != va or below[-1].va + below[-1].size != va + size:
            raise self._misused("set_access", f"{va:#x}, {size} bytes is not wholly mapped")
        for mapping in below:
            mapping.access = True

    def _own(self, name: str, handle: int) -> Physical | None:
        return self.card.physical.get(handle) if handle in self._handles else None

    def _settle(self, handle: int) -> None:
        self.card.settle(handle)
        if handle not in self.card.physical:
            self._handles.discard(handle)

    # Bytes.

    def _spans(self, name: str, va: int, n: int) -> Iterator[tuple[Physical, slice, slice]]:
        """Where addresses lie: memory, the slice of it, and the slice of the n bytes."""
        below = self.mappings.covering(va, n)
        if below is None or not all(mapping.access for mapping in below):
            raise self._lose(name, f"{va:#x} to {va + n:#x} is not mapped with access")
        for mapping in below:
            first, last = max(va, mapping.va), min(va + n, mapping.va + mapping.size)
            memory = self.card.physical[mapping.handle]
            yield memory, slice(first - mapping.va, last - mapping.va), slice(first - va, last - va)

    def _read(self, name: str, va: int, n: int) -> np.ndarray:
        out = np.empty(n, np.uint8)
        for memory, inside, there in self._spans(name, va, n):
            out[there] = memory.data[inside]
        return out

    def _write(self, name: str, va: int, host: np.ndarray) -> None:
        for memory, inside, there in self._spans(name, va, host.nbytes):
            memory.data[inside] = host[there]
            memory.touched = True

    def _array(self, va: int, n: int) -> np.ndarray:
        spans = list(self._spans("view", va, n))
        if len(spans) == 1:
            return spans[0][0].data[spans[0][1]]
        return self._read("view", va, n)  # a view over two mappings: a copy, NumPy has no such array

    def _copy_in(self, va: int, host: np.ndarray, stream: Stream | None, corrupt: list[Corrupt]) -> None:
        def land() -> None:
            arrived = host.copy()
            for fault in corrupt:
                arrived[fault.offset % max(arrived.size, 1)] ^= fault.flip
            self._write("copy_in", va, arrived)

        if stream is None:
            land()
        else:
            list(self._spans("copy_in", va, host.nbytes))
            self._enqueue(stream, _Work(((va, host.nbytes),), land))

    def _compare(self, ranges: list[tuple[int, np.ndarray]]) -> Compared:
        compared, first = 0, Compared(0)
        for index, (va, host) in enumerate(ranges):
            there = self._read("compare", va, host.nbytes)
            compared += host.nbytes
            differs = np.flatnonzero(there != host)
            if differs.size and first.index is None:
                offset = int(differs[0])
                first = Compared(0, index, offset, int(host[offset]), int(there[offset]))
        return first._replace(compared=compared)

    # Streams.

    def _stream(self) -> Stream:
        stream = next(self._numbers)
        self._queues[stream] = _Queue()
        return stream

    def _record(self, stream: Stream) -> Event:
        event = next(self._numbers)
        self._events[event] = (stream, self._queues[stream].queued)
        return event

    def _reached(self, event: Event) -> bool:
        stream, upto = self._events[event]
        if self._queues[stream].done >= upto:
            return True
        self._finish(stream, self._queues[stream].done + 1)
        return False

    def _enqueue(self, stream: Stream, work: _Work) -> None:
        queue = self._queues[stream]
        queue.waiting.append(work)
        queue.queued += 1

    def _finish(self, stream: Stream, upto: int) -> None:
        queue = self._queues[stream]
        while queue.done < upto and queue.waiting:
            queue.done += 1
            queue.waiting.popleft().run()

    def _finish_all(self) -> None:
        for stream, queue in self._queues.items():
            self._finish(stream, queue.queued)


@dataclass(frozen=True)
class FakeGraph:
    """Captured reads; see `driver.Graph`."""

    driver: FakeDriver
    ranges: tuple[tuple[int, int], ...]

    def launch(self) -> np.ndarray:
        def run() -> np.ndarray:
            return np.concatenate([self.driver._read("launch", va, n) for va, n in self.ranges])

        return self.driver._call("launch", (len(self.ranges),), run)
