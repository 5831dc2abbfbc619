"""Which expert is in which slot: on the host, where it is decided, and on the device, where windows read it.

A row is -1 (a miss) or the slot that holds its expert. The device's copy lies outside every arena that is lent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import open_arena
from strata.memory.arena.pieces import round_up
from strata.memory.driver.driver import Driver
from strata.memory.driver.errors import fatal_if_refused

MISS = -1


class Residency:
    """Which slot each expert is in: an int32 [rows] table on both sides, uploaded whole.

    Its attribute `stale` says whether the host's has changed since the last upload.

    Parameters
    ----------
    driver
        Whose memory the device's table is in.
    rows
        How many experts there are.
    slots
        How many slots there are.
    """

    def __init__(self, driver: Driver, rows: int, slots: int) -> None:
        """Takes the device's memory for the table; nothing is uploaded yet. Raises DriverError."""
        self._driver = driver
        self._slot = np.full(rows, MISS, np.int32)
        self._row = np.full(slots, MISS, np.int32)
        self.stale = True
        self._arena = open_arena(driver, 4 * rows, round_up(4 * rows, driver.granularity()), elastic=False)

    @property
    def host(self) -> np.ndarray:
        """The host's table, read-only."""
        table = self._slot.view()
        table.flags.writeable = False
        return table

    @property
    def by_slot(self) -> np.ndarray:
        """int32 [slots], a copy: the row that names each slot, or MISS."""
        return self._row.copy()

    @property
    def address(self) -> int:
        """Where the device's table is."""
        return self._arena.base

    @property
    def held(self) -> set[int]:
        """Every handle that the table answers for."""
        return self._arena.held

    def slot(self, row: int) -> int:
        """The slot of a row, or MISS."""
        return int(self._slot[row])

    def row(self, slot: int) -> int:
        """The row that names a slot, or MISS."""
        return int(self._row[slot])

    def resident(self, first: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
        """(row, slot) of every row in some slots, by slot.

        Parameters
        ----------
        first, stop
            Slots first .. stop - 1; None for all from the first on.
        """
        stop = self._row.size if stop is None else stop
        return [(int(self._row[slot]), slot) for slot in range(first, stop) if self._row[slot] != MISS]

    def demote(self, row: int) -> int:
        """The row becomes a miss; returns its slot. Raises StrataError when it is one already."""
        slot = self.slot(row)
        if slot == MISS:
            raise StrataError(f"residency: row {row} is in no slot, expected a resident one")
        self._slot[row] = self._row[slot] = MISS
        self.stale = True
        return slot

    def promote(self, row: int, slot: int) -> None:
        """A row names a slot.

        Parameters
        ----------
        row, slot
            The expert, and where it is.

        Raises
        ------
        StrataError
            When the row has a slot or the slot a row.
        """
        if self.slot(row) != MISS or self.row(slot) != MISS:
            raise StrataError(
                f"residency: row {row} in slot {self.slot(row)}, slot {slot} of row {self.row(slot)}, expected neither"
            )
        self._slot[row], self._row[slot] = slot, row
        self.stale = True

    def promote_all(self, pairs: Sequence[tuple[int, int]]) -> None:
        """`promote` of each (row, slot). Raises StrataError at the first that is refused; those before are promoted."""
        rows, slots = np.array(pairs, np.int64).reshape(-1, 2).T
        free = bool(np.all(self._slot[rows] == MISS) and np.all(self._row[slots] == MISS))
        if free and len({*rows.tolist()}) == len({*slots.tolist()}) == len(pairs):
            self._slot[rows], self._row[slots] = slots, rows
            self.stale = True
        else:
            for row, slot in pairs:
                self.promote(row, slot)

    def upload(self) -> None:
        """Make the device's table the host's; it has landed on return. Raises Fatal: the device's is unknown then."""
        self.stale = True
        with fatal_if_refused("upload of the residency table, what the device reads is unknown"):
            self._driver.copy_in(self.address, self._slot.view(np.uint8))
        self.stale = False

    def device(self) -> np.ndarray:
        """The device's table, int32 [rows]."""
        return self._driver.copy_out(self.address, 4 * self._slot.size).view(np.int32)

    def close(self) -> None:
        """Give the device's memory back. Raises StrataError when it could not be."""
        self._arena.close()
