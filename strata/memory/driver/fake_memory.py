"""Addresses, handles and mappings of one fake process, over bytes in host memory.

A broken rule raises DriverError as the CUDA driver would and is remembered in `misuse`; an access to memory that is
not mapped or has no access sets `lost`, the reason why the context answers nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.fake_card import FakeCard, Physical
from strata.memory.driver.views import Mappings

_FIRST_ADDRESS = 0x7F00_0000_0000


class FakeMemory:
    """What one process has of a card: address ranges, handles, mappings, and the rules that it must keep.

    Methods that share a name with one of `driver.Driver` are its effect.

    Parameters
    ----------
    card
        Where the bytes are.
    granularity
        A power of two, in bytes.
    in_use
        Whether queued work touches (address, size).
    """

    def __init__(self, card: FakeCard, granularity: int, in_use: Callable[[int, int], bool]) -> None:
        self.card = card
        self.misuse: list[str] = []
        self.lost = ""
        self.mappings = Mappings()
        self.reservations: dict[int, int] = {}
        self.handles: set[int] = set()
        self.granularity = granularity
        #: Addresses and handles of calls that were made to fail: nobody can know whether they had their effect, so
        #: that one call to find out breaks no rule.
        self.doubtful: set[int] = set()
        self._in_use = in_use
        self._next_address = _FIRST_ADDRESS

    def misused(self, name: str, what: str, subject: int = 0) -> DriverError:
        """The error for a broken rule.

        Parameters
        ----------
        name
            The name of the driver's method.
        what
            The rule, and what broke it.
        subject
            The address or handle, which may be doubtful until now.
        """
        if subject in self.doubtful:
            self.doubtful.discard(subject)
        else:
            self.misuse.append(f"{name}: {what}")
        return DriverError(name, Code.INVALID_VALUE, what)

    def lose(self, name: str, what: str) -> DriverError:
        """The error for what loses the context.

        Parameters
        ----------
        name
            The name of the driver's method.
        what
            What was done.
        """
        self.lost = f"{name}: {what}"
        self.misuse.append(self.lost)
        return DriverError(name, Code.ILLEGAL_ADDRESS, what)

    def reserve(self, size: int, align: int) -> int:
        if size <= 0 or align & (align - 1):
            raise self.misused("reserve", f"size {size}, alignment {align}: expected above 0 and a power of two or 0")
        self._whole("reserve", size)
        step = max(align, self.granularity)
        va = -(-self._next_address // step) * step
        self._next_address = va + size + self.granularity  # a gap, so that an overrun is seen
        self.reservations[va] = size
        return va

    def moved(self, va: int) -> int:
        """Put a fresh reservation at another address and return that."""
        size = self.reservations.pop(va)
        return self.reserve(size, 0)

    def address_free(self, va: int, size: int) -> None:
        if self.reservations.get(va) != size:
            raise self.misused("address_free", f"{va:#x}, {size} bytes were not reserved so", va)
        if self.mappings.touching(va, size):
            raise self.misused("address_free", f"{va:#x} still has mappings")
        del self.reservations[va]

    def create(self, size: int) -> int:
        if size <= 0:
            raise self.misused("create", f"size {size}")
        self._whole("create", size)
        handle = self.card.create(size)
        if handle is None:
            free = self.card.total - self.card.used
            raise DriverError("create", Code.OUT_OF_MEMORY, f"{size} bytes, {free} are free")
        self.handles.add(handle)
        self.doubtful.discard(handle)
        return handle

    def release(self, handle: int) -> None:
        memory = self._own(handle)
        if memory is None or memory.references <= 0:
            raise self.misused("release", f"handle {handle} does not exist", handle)
        memory.references -= 1
        self.doubtful.discard(handle)
        self._settle(handle)

    def map(self, va: int, size: int, handle: int) -> None:
        self._whole("map", va, size)
        memory = self._own(handle)
        if memory is None or memory.references <= 0 or memory.size != size:
            raise self.misused("map", f"handle {handle} of {memory.size if memory else 0} bytes for {size} bytes")
        if not any(first <= va and va + size <= first + n for first, n in self.reservations.items()):
            raise self.misused("map", f"{va:#x} to {va + size:#x} is not reserved")
        if self.mappings.touching(va, size):
            raise self.misused("map", f"{va:#x} to {va + size:#x} is mapped already", va)
        memory.maps += 1
        self.doubtful.discard(va)
        self.mappings.add(va, size, handle)

    def unmap(self, va: int, size: int) -> None:
        mapping = self.mappings.starting(va)
        if mapping is None or mapping.size != size:
            raise self.misused("unmap", f"{va:#x}, {size} bytes is not one whole mapping", va)
        if self._in_use(va, size):
            self.lose("unmap", f"queued work still uses {va:#x}")  # the call succeeds, the work faults
        self.mappings.remove(va)
        self.doubtful.discard(va)
        self.card.physical[mapping.handle].maps -= 1
        self._settle(mapping.handle)

    def set_access(self, va: int, size: int) -> None:
        below = self.mappings.covering(va, size)
        if not below or below[0].va != va or below[-1].va + below[-1].size != va + size:
            raise self.misused("set_access", f"{va:#x}, {size} bytes is not wholly mapped", va)
        for mapping in below:
            mapping.access = True
        self.doubtful.discard(va)

    def read(self, name: str, va: int, n: int) -> np.ndarray:
        """A copy of bytes. Raises DriverError, and loses the context, where they are not mapped with access."""
        out = np.empty(n, np.uint8)
        for memory, inside, there in self.spans(name, va, n):
            out[there] = memory.data[inside]
        return out

    def write(self, name: str, va: int, host: np.ndarray) -> None:
        """Write bytes. Raises DriverError, and loses the context, where they are not mapped with access."""
        for memory, inside, there in self.spans(name, va, host.nbytes):
            memory.store(inside, host[there])

    def array(self, va: int, n: int, name: str = "view") -> np.ndarray:
        """The bytes themselves; a copy when they lie in two mappings, which no NumPy array can span.

        Parameters
        ----------
        va, n
            The first address, and how many bytes.
        name
            The name of the driver's method, for messages.

        Raises
        ------
        DriverError
            Where they are not mapped with access; the context is lost then.
        """
        below = self.mappings.covering(va, n)
        if below is None or len(below) > 1 or not below[0].access:
            return self.read(name, va, n)
        first = va - below[0].va
        return self.card.physical[below[0].handle].data[first : first + n]

    def spans(self, name: str, va: int, n: int) -> Iterator[tuple[Physical, slice, slice]]:
        """Where addresses lie.

        Parameters
        ----------
        name
            The name of the driver's method, for messages.
        va, n
            The first address, and how many bytes.

        Yields
        ------
        (Physical, slice, slice)
            Memory, the slice of it, and the slice of the n bytes.

        Raises
        ------
        DriverError
            Where they are not mapped with access; the context is lost then.
        """
        below = self.mappings.covering(va, n)
        if below is None or not all(mapping.access for mapping in below):
            raise self.lose(name, f"{va:#x} to {va + n:#x} is not mapped with access")
        for mapping in below:
            first, last = max(va, mapping.va), min(va + n, mapping.va + mapping.size)
            memory = self.card.physical[mapping.handle]
            yield memory, slice(first - mapping.va, last - mapping.va), slice(first - va, last - va)

    def _whole(self, name: str, *numbers: int) -> None:
        for number in numbers:
            if number % self.granularity:
                raise self.misused(name, f"{number:#x} is no multiple of {self.granularity:#x}")

    def _own(self, handle: int) -> Physical | None:
        return self.card.physical.get(handle) if handle in self.handles else None

    def _settle(self, handle: int) -> None:
        self.card.settle(handle)
        if handle not in self.card.physical:
            self.handles.discard(handle)
