"""Streams and events of a fake driver: work is done in its order, and only when somebody waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from strata.memory.driver.driver import Event, Stream

Ranges = Sequence[tuple[int, int]]


def _meet(mine: Ranges, others: Ranges) -> tuple[int, int] | None:
    """The first of my (address, bytes) that has an address in common with another's."""
    for va, size in mine:
        if any(first < va + size and va < first + n for first, n in others):
            return va, size
    return None


@dataclass
class Work:
    """Queued work.

    Parameters
    ----------
    ranges
        (address, bytes) that it touches.
    run
        What does it.
    writes
        Those of the ranges that it writes to.
    """

    ranges: tuple[tuple[int, int], ...]
    run: Callable[[], None]
    writes: tuple[tuple[int, int], ...] = ()


@dataclass
class _Queue:
    waiting: deque[Work] = field(default_factory=deque)
    queued: int = 0
    done: int = 0


class FakeQueues:
    """The streams of one driver."""

    def __init__(self) -> None:
        self._queues: dict[Stream, _Queue] = {}
        self._events: dict[Event, tuple[Stream, int]] = {}
        self._numbers = count(1)

    def stream(self) -> Stream:
        stream = next(self._numbers)
        self._queues[stream] = _Queue()
        return stream

    def record(self, stream: Stream) -> Event:
        event = next(self._numbers)
        self._events[event] = (stream, self._queues[stream].queued)
        return event

    def enqueue(self, stream: Stream, work: Work) -> None:
        queue = self._queues[stream]
        queue.waiting.append(work)
        queue.queued += 1

    def progress(self, stream: Stream, works: int) -> None:
        """Do the next pieces of work of a stream.

        Parameters
        ----------
        stream
            The stream.
        works
            How many pieces.
        """
        self._finish(stream, self._queues[stream].done + works)

    def reached(self, event: Event) -> bool:
        """Whether the event has been reached; one piece of work before it is done by asking."""
        stream, upto = self._events[event]
        if self._queues[stream].done >= upto:
            return True
        self.progress(stream, 1)
        return False

    def wait(self, event: Event) -> None:
        self._finish(*self._events[event])

    def wait_stream(self, stream: Stream) -> None:
        self._finish(stream, self._queues[stream].queued)

    def wait_all(self) -> None:
        for stream in self._queues:
            self.wait_stream(stream)

    def touches(self, va: int, size: int) -> bool:
        """Whether work that has not been done touches some addresses.

        Parameters
        ----------
        va, size
            The first, and how many.
        """
        return any(_meet([(va, size)], work.ranges) for queue in self._queues.values() for work in queue.waiting)

    def race(self, stream: Stream | None, reads: Ranges, writes: Ranges) -> tuple[int, int] | None:
        """Where work of another stream, still queued, meets a range that is written now, or writes one that is read.

        Nothing says which of the two comes first.

        Parameters
        ----------
        stream
            Of the new work; None for a blocking call, which waits for no stream.
        reads, writes
            Ranges (address, bytes) of the new work.

        Returns
        -------
        (int, int) or None
            The first range of the new work, as (address, bytes), that meets the other's; None where none does.
        """
        for other, queue in self._queues.items():
            for work in queue.waiting if other != stream else ():
                found = _meet(writes, work.ranges) or _meet(reads, work.writes)
                if found:
                    return found
        return None

    def clear(self) -> None:
        self._queues.clear()
        self._events.clear()

    def _finish(self, stream: Stream, upto: int) -> None:
        queue = self._queues[stream]
        while queue.done < upto and queue.waiting:
            queue.done += 1
            queue.waiting.popleft().run()
