"""Which addresses are mapped, and views that raise in Python once their mapping has ended.

On the card a stale address is an illegal access, which loses the context; so whoever hands an address to a kernel
takes it from a view, and a view compares the generation of its mappings first.

An array that a view has given knows nothing of this: NumPy and CuPy keep its address. It is for use at once, before the
next call that may unmap or write slots (a window's end, LEND, a prompt); whoever needs the bytes later asks the view
again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from strata.executors.base import StrataError


class StaleView(StrataError):  # noqa: N818 - a state of the view
    """A view whose memory is unmapped, or was and now has other memory behind it."""


@dataclass
class Mapping:
    """Addresses va .. va + size - 1 that have memory.

    Parameters
    ----------
    va, size
        The first address, and how many.
    handle
        The handle of the memory.
    generation
        A number that is different for every mapping ever made.
    access
        Whether it may be read and written.
    """

    va: int
    size: int
    handle: int
    generation: int
    access: bool = False


class Mappings:
    """The mappings of one driver by address. It follows what the driver did; it refuses nothing by itself."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._by_start: dict[int, Mapping] = {}
        self._generations = count(1)

    def __iter__(self) -> Any:
        return (self._by_start[va] for va in self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, va: int, size: int, handle: int) -> Mapping:
        """Note a mapping that has been made, still without access.

        Whatever was thought to be mapped there is not: its unmap reported a failure and had its effect.

        Parameters
        ----------
        va, size
            The first address, and how many.
        handle
            The handle of the memory.
        """
        self.forget(va, size)
        made = Mapping(va, size, handle, next(self._generations))
        self._starts.insert(bisect_right(self._starts, va), va)
        self._by_start[va] = made
        return made

    def remove(self, va: int) -> Mapping:
        """A mapping that has ended. Raises KeyError when none begins there."""
        gone = self._by_start.pop(va)
        self._starts.remove(va)
        return gone

    def forget(self, va: int, n: int) -> None:
        """Note that nothing is mapped at some addresses any more.

        Parameters
        ----------
        va, n
            The first, and how many.
        """
        for gone in self.touching(va, n):
            self.remove(gone.va)

    def starting(self, va: int) -> Mapping | None:
        """The mapping that begins at an address."""
        return self._by_start.get(va)

    def covering(self, va: int, n: int) -> list[Mapping] | None:
        """The mappings below some addresses, in order.

        Parameters
        ----------
        va, n
            The first, and how many.

        Returns
        -------
        list of Mapping or None
            None when one of these addresses is not mapped.
        """
        found: list[Mapping] = []
        at = bisect_right(self._starts, va) - 1
        need = va
        while need < va + n or not found:
            if at < 0 or at >= len(self._starts):
                return None
            mapping = self._by_start[self._starts[at]]
            if not mapping.va <= need < mapping.va + mapping.size:
                return None
            found.append(mapping)
            need = mapping.va + mapping.size
            at += 1
        return found

    def touching(self, va: int, n: int) -> list[Mapping]:
        """Every mapping that has one of some addresses.

        Parameters
        ----------
        va, n
            The first, and how many.
        """
        return [mapping for mapping in self if mapping.va < va + n and va < mapping.va + mapping.size]


class MappedView:
    """A view of mapped bytes; see `driver.View`.

    Parameters
    ----------
    mappings
        The mappings of the driver.
    va, n
        The first address, and how many bytes.
    make
        What makes the array of (address, bytes).

    Raises
    ------
    StaleView
        When they are not all mapped and accessible.
    """

    def __init__(self, mappings: Mappings, va: int, n: int, make: Callable[[int, int], Any]) -> None:
        self._mappings = mappings
        self._address = va
        self.nbytes = n
        self._make = make
        self._stamps = self._now()
        if not self._stamps:
            raise StaleView(f"addresses {va:#x} to {va + n:#x} are not all mapped and accessible")

    def _now(self) -> tuple[int, ...]:
        below = self._mappings.covering(self._address, self.nbytes)
        if not below or not all(mapping.access for mapping in below):
            return ()
        return tuple(mapping.generation for mapping in below)

    @property
    def address(self) -> int:
        """The first address. Raises StaleView as `array` does."""
        if self._now() != self._stamps:
            raise StaleView(f"the memory at {self._address:#x} was unmapped after this view of it was made")
        return self._address

    def array(self) -> Any:
        """The bytes as an array of the driver's kind, for use at once. Raises StaleView once a mapping has ended."""
        return self._make(self.address, self.nbytes)
