"""A driver without a card: the rules of `driver.py` enforced over bytes in host memory, with faults on demand.

What it does at its worst, so that tests need no luck: queued copies land only when somebody waits for them, and read
the host's bytes only then; new memory holds 0xA5; a blocking call waits for no stream; an access to memory that is not
mapped or has no access, and an unmap below queued work, lose the context, which then answers ILLEGAL_ADDRESS for good.
`misuse` lists every rule that a caller broke, also when it took the error and went on. A write below queued work of
another stream, or a kernel queued to read what another stream has yet to write, is such a rule: the card says nothing
and may do either first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.memory.driver.driver import Compared, Event, Stream, host_address
from strata.memory.driver.fake_calls import FakeCalls
from strata.memory.driver.fake_card import POISON, FakeCard
from strata.memory.driver.fake_memory import FakeMemory
from strata.memory.driver.fake_queues import FakeQueues, Ranges, Work
from strata.memory.driver.fault_plan import Call, Corrupt, FaultPlan
from strata.memory.driver.unreleased_handles import UnreleasedHandles
from strata.memory.driver.views import MappedView

__all__ = ["POISON", "FakeCard", "FakeDriver", "FakeGraph", "FaultPlan"]


class FakeDriver:
    """One process on a FakeCard.

    Its methods are those of `driver.Driver`, and some by which a test looks in.

    Parameters
    ----------
    card
        Its memory, shared with other drivers and tenants; None for a card of 8 GiB.
    granularity
        A power of two, in bytes.
    vmm
        What `supported` says.
    plan
        What goes wrong; None for nothing.
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
        self.unreleased = UnreleasedHandles()
        self._vmm = vmm
        self._queues = FakeQueues()
        self._memory = FakeMemory(self.card, granularity, self._queues.touches)
        self._calls = FakeCalls(FaultPlan() if plan is None else plan, self._memory)
        self._call = self._calls.make

    @property
    def plan(self) -> FaultPlan:
        """What goes wrong."""
        return self._calls.plan

    @property
    def log(self) -> list[Call]:
        """Every call so far, which a test may clear."""
        return self._calls.log

    def supported(self) -> bool:
        return self._vmm

    def granularity(self) -> int:
        return self._call("granularity", (), lambda: self._memory.granularity)

    def mem_info(self) -> tuple[int, int]:
        return self._call("mem_info", (), lambda: (self.card.reported_free, self.card.total))

    def reserve(self, size: int, align: int = 0) -> int:
        return self._call("reserve", (size, align), lambda: self._memory.reserve(size, align))

    def address_free(self, va: int, size: int) -> None:
        self._call("address_free", (va, size), lambda: self._memory.address_free(va, size))

    def create(self, size: int) -> int:
        handle = self._call("create", (size,), lambda: self._memory.create(size))
        self.unreleased.strike(handle)
        return handle

    def release(self, handle: int) -> None:
        self._call("release", (handle,), lambda: self._memory.release(handle))

    def map(self, va: int, size: int, handle: int) -> None:
        self._call("map", (va, size, handle), lambda: self._memory.map(va, size, handle))

    def unmap(self, va: int, size: int) -> None:
        self._call("unmap", (va, size), lambda: self._memory.unmap(va, size))

    def set_access(self, va: int, size: int) -> None:
        self._call("set_access", (va, size), lambda: self._memory.set_access(va, size))

    def synchronize(self) -> None:
        self._call("synchronize", (), self._queues.wait_all)

    def copy_in(self, va: int, host: np.ndarray, stream: Stream | None = None) -> None:
        host_address("copy_in", host)
        flips: list[Corrupt] = []
        args = (va, host.nbytes, -1 if stream is None else stream)
        self._call("copy_in", args, lambda: self._copy_in(va, host, stream, flips), flips)

    def copy_in_all(self, ranges: Iterable[tuple[int, np.ndarray]], stream: Stream) -> None:
        for va, host in ranges:
            self.copy_in(va, host, stream)

    def copy_out(self, va: int, n: int) -> np.ndarray:
        return self._call("copy_out", (va, n), lambda: self._memory.read("copy_out", va, n))

    def fill(self, va: int, byte: int, n: int) -> None:
        self._call("fill", (va, byte, n), lambda: self._fill(va, byte, n))

    def compare(self, va: int, host: np.ndarray) -> Compared:
        host_address("compare", host)
        return self._call("compare", (va, host.nbytes), lambda: self._compare([(va, host)]))

    def compare_all(self, ranges: Sequence[tuple[int, np.ndarray]]) -> Compared:
        for _, host in ranges:
            host_address("compare_all", host)
        args = (len(ranges), sum(host.nbytes for _, host in ranges))
        return self._call("compare_all", args, lambda: self._compare(ranges))

    def stream(self) -> Stream:
        return self._call("stream", (), self._queues.stream)

    def record(self, stream: Stream) -> Event:
        return self._call("record", (stream,), lambda: self._queues.record(stream))

    def reached(self, event: Event) -> bool:
        """One piece of queued work is done by asking, so that whoever polls comes to an end."""
        return self._call("reached", (event,), lambda: self._queues.reached(event))

    def wait(self, event: Event) -> None:
        self._call("wait", (event,), lambda: self._queues.wait(event))

    def wait_stream(self, stream: Stream) -> None:
        self._call("wait_stream", (stream,), lambda: self._queues.wait_stream(stream))

    def page_locked(self, n: int) -> np.ndarray:
        return self._call("page_locked", (n,), lambda: np.zeros(n, np.uint8))

    def view(self, va: int, n: int) -> MappedView:
        return MappedView(self._memory.mappings, va, n, self._memory.array)

    def close(self) -> None:
        self._queues.clear()

    # What tests ask besides.

    @property
    def misuse(self) -> list[str]:
        """Every broken rule, also those whose error a caller took."""
        return self._memory.misuse

    @property
    def lost(self) -> str:
        """Why the context answers nothing any more; empty while it does."""
        return self._memory.lost

    @property
    def reservations(self) -> dict[int, int]:
        """Bytes of every reserved range by its first address."""
        return dict(self._memory.reservations)

    @property
    def mapped(self) -> dict[int, int]:
        """Bytes of every mapping by its first address."""
        return {mapping.va: mapping.size for mapping in self._memory.mappings}

    def live_handles(self) -> dict[int, int]:
        """Bytes of every handle of this process that still takes memory, by handle."""
        return {handle: self.card.physical[handle].size for handle in sorted(self._memory.handles)}

    def kernel(self, reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]], stream: Stream) -> None:
        """Queue a kernel that stores the complement of what is there.

        Parameters
        ----------
        reads
            Ranges (address, bytes) that it reads.
        writes
            Ranges that it writes.
        stream
            A stream of this driver.
        """

        def run() -> None:
            for va, n in reads:
                self._memory.read("kernel", va, n)
            for va, n in writes:
                self._memory.write("kernel", va, ~self._memory.read("kernel", va, n))

        self._no_race("kernel", stream, reads, writes)
        self._queues.enqueue(stream, Work((*reads, *writes), run, tuple(writes)))

    def capture(self, ranges: Sequence[tuple[int, int]]) -> FakeGraph:
        """Captured work that reads ranges (address, bytes)."""
        return FakeGraph(self, tuple(ranges))

    def launch(self, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
        """What a graph does when it is launched."""
        return self._call(
            "launch", (len(ranges),), lambda: np.concatenate([self._memory.read("launch", va, n) for va, n in ranges])
        )

    def _no_race(self, name: str, stream: Stream | None, reads: Ranges, writes: Ranges) -> None:
        met = self._queues.race(stream, reads, writes)
        if met is not None:
            self._memory.misuse.append(f"{name}: queued work of another stream meets {met[0]:#x}, {met[1]} bytes")

    def _fill(self, va: int, byte: int, n: int) -> None:
        self._no_race("fill", None, [], [(va, n)])
        self._memory.write("fill", va, np.broadcast_to(np.uint8(byte), n))

    def peek(self, va: int, n: int) -> np.ndarray:
        """Bytes at mapped addresses, without a call: also of a context that is lost.

        They are for use at once, as a view's are, and not to be written to.

        Parameters
        ----------
        va, n
            The first address, and how many bytes.
        """
        return self._memory.array(va, n, "peek")

    def progress(self, stream: Stream, works: int = 1) -> None:
        """Let queued pieces of work of a stream be done.

        Parameters
        ----------
        stream
            A stream of this driver.
        works
            How many pieces.
        """
        self._queues.progress(stream, works)

    def kill(self) -> None:
        """The process ends without a word; the system gives everything back."""
        for handle in self._memory.handles:
            self.card.physical.pop(handle, None)
        self._memory.handles.clear()
        self._memory.lost = "the process was killed"

    def _copy_in(self, va: int, host: np.ndarray, stream: Stream | None, flips: list[Corrupt]) -> None:
        def land() -> None:
            arrived = host.copy()
            for fault in flips:
                arrived[fault.offset % max(arrived.size, 1)] ^= fault.flip
            self._memory.write("copy_in", va, arrived)

        self._no_race("copy_in", stream, [], [(va, host.nbytes)])
        if stream is None:
            land()
        else:
            list(self._memory.spans("copy_in", va, host.nbytes))
            self._queues.enqueue(stream, Work(((va, host.nbytes),), land, ((va, host.nbytes),)))

    def _compare(self, ranges: Sequence[tuple[int, np.ndarray]]) -> Compared:
        compared, first = 0, Compared(0)
        for index, (va, host) in enumerate(ranges):
            there = self._memory.array(va, host.nbytes, "compare")
            compared += host.nbytes
            if first.equal and not np.array_equal(there, host):
                offset = int(np.argmax(there != host))
                first = Compared(0, index, offset, int(host[offset]), int(there[offset]))
        return replace(first, compared=compared)


@dataclass(frozen=True)
class FakeGraph:
    """Captured reads; see `driver.Graph`.

    Parameters
    ----------
    driver
        What runs them.
    ranges
        (address, bytes) of each.
    """

    driver: FakeDriver
    ranges: tuple[tuple[int, int], ...]

    def launch(self) -> np.ndarray:
        """Run the reads and return their bytes, uint8."""
        return self.driver.launch(self.ranges)
