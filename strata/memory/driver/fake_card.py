"""A card that does not exist: its physical memory, who holds it, and what it claims to have free.

Several fake drivers (processes) may share one. `wddm` makes it behave as Windows drivers do: memory beyond the card
can be created, and is then paged, which `ever_paged` remembers; and the free figure is too high by up to `optimism`
bytes as long as memory that was created has not been written. The number of a handle that is gone is given out again,
the latest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np

#: What new memory holds. Never zero, so that a read before a write shows.
POISON = 0xA5


@dataclass
class Physical:
    """Memory of one handle.

    Parameters
    ----------
    size
        Its bytes.
    references
        Handles that have not been released.
    maps
        Mappings.
    touched
        Whether it was written.
    """

    size: int
    references: int = 1
    maps: int = 0
    touched: bool = False
    _bytes: np.ndarray | None = None

    @property
    def data(self) -> np.ndarray:
        """uint8 [size]; made when first asked for."""
        if self._bytes is None:
            self._bytes = np.full(self.size, POISON, np.uint8)
        return self._bytes

    def store(self, where: slice, host: np.ndarray) -> None:
        """Write bytes.

        The first write of all bytes makes them, since no poison would be left.

        Parameters
        ----------
        where
            The slice of this memory.
        host
            uint8, as many as the slice has.
        """
        if self._bytes is None and host.size == self.size:
            self._bytes = np.array(host, np.uint8)
        else:
            self.data[where] = host
        self.touched = True


@dataclass
class FakeCard:
    """The memory of a card that several drivers share.

    Whoever is not a driver of these tests is a tenant.

    Parameters
    ----------
    total
        Bytes of the card.
    wddm
        Whether memory beyond the card is paged, as Windows does it, so that taking never fails.
    optimism
        Bytes of memory that nobody has written which are reported as free under WDDM.
    physical
        Memory by handle.
    tenants
        Bytes by the name of the tenant.
    ever_paged
        The most bytes that lay beyond the card at any time.
    """

    total: int
    wddm: bool = False
    optimism: int = 0
    physical: dict[int, Physical] = field(default_factory=dict)
    tenants: dict[str, int] = field(default_factory=dict)
    ever_paged: int = 0
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _freed: list[int] = field(default_factory=list)

    @property
    def used(self) -> int:
        """Bytes that are taken, by anybody."""
        return sum(memory.size for memory in self.physical.values()) + sum(self.tenants.values())

    @property
    def reported_free(self) -> int:
        """The figure a driver gives; never below 0."""
        free = max(self.total - self.used, 0)
        if self.wddm:
            free += min(self.optimism, sum(memory.size for memory in self.physical.values() if not memory.touched))
        return min(free, self.total)

    def create(self, size: int) -> int | None:
        """A new handle, None when the card has no room."""
        if self.used + size > self.total and not self.wddm:
            return None
        handle = self._freed.pop() if self._freed else next(self._numbers)
        self.physical[handle] = Physical(size)
        self.ever_paged = max(self.ever_paged, self.used - self.total)
        return handle

    @property
    def as_new(self) -> bool:
        """Whether nothing distinguishes the card from a new one of its kind but which of its free numbers come next."""
        freed = set(self._freed)
        return not (self.physical or self.tenants or self.ever_paged) and len(freed) == len(self._freed)

    def settle(self, handle: int) -> None:
        """Free a handle's memory when nothing refers to it."""
        memory = self.physical[handle]
        if memory.references <= 0 and memory.maps <= 0:
            del self.physical[handle]
            self._freed.append(handle)

    def take(self, tenant: str, size: int) -> bool:
        """Another process takes memory.

        Parameters
        ----------
        tenant
            Its name.
        size
            How many bytes.

        Returns
        -------
        bool
            False when the card has no room for them.
        """
        if self.used + size > self.total and not self.wddm:
            return False
        self.tenants[tenant] = self.tenants.get(tenant, 0) + size
        self.ever_paged = max(self.ever_paged, self.used - self.total)
        return True

    def leave(self, tenant: str) -> int:
        """Another process gives back all it holds; returns how much that was."""
        return self.tenants.pop(tenant, 0)
