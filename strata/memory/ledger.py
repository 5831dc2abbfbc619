"""Whose rows are misses for a while because their slots are somebody else's: one ledger for each kind of loan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Ledger:
    """(row, slot) pairs, each to come back to its slot; nobody else is admitted to that slot meanwhile.

    exclusive: nobody else may make such a row resident either, so that it cannot be in two slots after its return.
    first: while the loan is out, all slots from here on are its own, also those that no row named; None otherwise.
    """

    def __init__(self, name: str, exclusive: bool = True) -> None:
        self.name = name
        self.exclusive = exclusive
        self.first: int | None = None
        self._slots: dict[int, int] = {}
        self._rows: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Pairs in the order of their slots."""
        return iter(sorted(self._slots.items(), key=lambda pair: pair[1]))

    @property
    def out(self) -> bool:
        """Whether anything is lent: a loan of slots that were all empty has no rows."""
        return self.first is not None or bool(self._slots)

    def owns(self, row: int) -> bool:
        return row in self._slots

    def holds(self, slot: int) -> bool:
        return slot in self._rows

    def add(self, pairs: Iterable[tuple[int, int]]) -> None:
        for row, slot in pairs:
            self._slots[row], self._rows[slot] = slot, row

    def remove(self, rows: Iterable[int]) -> None:
        for row in list(rows):
            del self._rows[self._slots.pop(row)]
