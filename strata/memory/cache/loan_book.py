"""Whose rows are misses for a while because their slots are somebody else's: one book for each kind of loan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator


class LoanBook:
    """(row, slot) pairs, each to come back to its slot; nobody else is admitted to that slot meanwhile.

    Its attribute `first` says, while the loan is out, from which slot on all are its own, also those that no row named;
    it is None otherwise.

    Parameters
    ----------
    name
        The name of the loan, for messages.
    exclusive
        Whether nobody else may make such a row resident either, so that it cannot be in two slots after its return.
        Without that a row may be made resident elsewhere, be taken from there too, and stand here with several slots.
    """

    def __init__(self, name: str, exclusive: bool = True) -> None:
        self.name = name
        self.exclusive = exclusive
        self.first: int | None = None
        self._rows: dict[int, int] = {}
        self._slots: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Pairs in the order of their slots."""
        return ((self._rows[slot], slot) for slot in sorted(self._rows))

    @property
    def out(self) -> bool:
        """Whether anything is lent: a loan of slots that were all empty has no rows."""
        return self.first is not None or bool(self._rows)

    def owns(self, row: int) -> bool:
        """Whether a slot is waiting for the row."""
        return self._slots[row] > 0

    def holds(self, slot: int) -> bool:
        """Whether the slot waits for a row."""
        return slot in self._rows

    def add(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Remember pairs of slots that are not held yet."""
        for row, slot in pairs:
            self._rows[slot] = row
            self._slots[row] += 1

    def drop(self, slots: Iterable[int]) -> None:
        """Forget these slots. Raises KeyError for one that is not held."""
        for slot in list(slots):
            self._slots[self._rows.pop(slot)] -= 1

    def remove(self, rows: Iterable[int]) -> None:
        """Forget every slot that waits for these rows."""
        gone = set(rows)
        self.drop(slot for slot, row in list(self._rows.items()) if row in gone)

    def forget(self, first_gone: int) -> int:
        """Rows of slots from `first_gone` on will not come back: the memory of these goes. Returns how many.

        Nobody may use the slots any more; when no row is left to come back, the loan is over.
        """
        gone = [slot for _, slot in self if slot >= first_gone]
        self.drop(gone)
        if not len(self):
            self.first = None
        return len(gone)
