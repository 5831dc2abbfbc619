"""The prompt loan inside the engine: the coldest experts' slots hold the prompt path's workspace for one segment.

The cache keeps the law: rows become misses and the table is uploaded before the workspace is used; they come back with
their bytes copied, compared, promoted and uploaded before a window runs. A loan marks its whole range every time: the
short cut "it is lent already" is wrong as soon as anybody else returns rows. And the card is at rest every time, before
the memory is somebody else's and before it is the experts' again: what was queued earlier may still use it.
"""

from __future__ import annotations

from typing import NamedTuple

from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.verification import Verified
from strata.memory.driver.errors import Refused
from strata.memory.loan.tail import first


class Region(NamedTuple):
    """A part of the arena that a prompt borrows.

    Parameters
    ----------
    address
        The address of its first byte.
    nbytes
        How many bytes it has.
    first
        Its first slot.
    """

    address: int
    nbytes: int
    first: int


class TailLoan:
    """Lends the end of one cache to the prompt path.

    The loan of one participant is nobody else's: `refill` returns what this one took. Its attribute `book` has the rows
    that are misses because of it.

    Parameters
    ----------
    cache
        The cache.
    name
        The name of the loan, for messages.
    """

    def __init__(self, cache: ExpertCache, name: str = "prompt") -> None:
        self.cache = cache
        self.book = cache.loan_book(name)

    @property
    def out(self) -> bool:
        """Whether the loan is out."""
        return self.book.out

    def lendable(self, keep: int) -> int:
        """Bytes from slot `keep` to the end of what is mapped; 0 when there is no such slot.

        While memory is lent to another process the mapped part ends where that begins.
        """
        slots = self.cache.slots
        if keep > len(slots):
            return 0
        return max(0, self.cache.arena.mapped_bytes - int(slots.off[keep]))

    def region(self, nbytes: int, keep: int, most: int | None = None) -> Region:
        """The smallest region at the end that holds some bytes.

        Parameters
        ----------
        nbytes
            How many bytes.
        keep
            The first slot that it may begin with.
        most
            The last slot that it may begin with; None for any.

        Raises
        ------
        Refused
            When there is none.
        """
        slots, end = self.cache.slots, self.cache.arena.mapped_bytes
        if nbytes < 1 or nbytes > self.lendable(keep):
            raise Refused(f"prompt loan of {nbytes} bytes: expected 1 to {self.lendable(keep)}, behind {keep} slots")
        # The slots' offsets, up to the last that begins in the mapped part, and the end of that part behind them.
        usable = slots.within(end)
        off = [*slots.off[: usable + 1].tolist(), end]
        begin = min(first(off, nbytes, min(keep, usable)), usable, usable if most is None else most)
        offset = int(slots.off[begin])
        return Region(self.cache.arena.address(offset), end - offset, begin)

    def lend(self, nbytes: int, keep: int, most: int | None = None) -> Region:
        """Take the rows of such a region out of the table, and return it.

        What was lent elsewhere comes back first. Nothing that was queued before uses the region any more.

        Parameters
        ----------
        nbytes, keep, most
            See `region`.

        Raises
        ------
        Refused
            With nothing changed, when there is no such region or the host does not hold one of its experts, which
            nobody could refill.
        Fatal
            When a step failed and it is unknown what holds.
        """
        cache = self.cache
        with cache.guard():
            found = self.region(nbytes, keep, most)
            missing = [row for row, _ in cache.residency.resident(found.first) if not cache.source.has(row)]
            if missing:
                expert = cache.geometry.expert(missing[0])
                raise Refused(f"prompt loan: host memory does not hold {len(missing)} experts, the first is {expert}")
            cache.land()
            if self.book.first not in (None, found.first):
                self.refill(verify_all=True)
            cache.take(self.book, found.first)
            return found

    def refill(self, verify_all: bool = False) -> Verified:
        """Bring every row back: wait for the card, copy, wait, compare, promote, upload.

        Nothing happens when no loan is out.

        Parameters
        ----------
        verify_all
            Whether every slot is compared, not only the first, the last and those at boundaries of pieces.

        Raises
        ------
        Fatal
            When what the slots hold is unknown or wrong.
        """
        pairs = list(self.book)
        if not pairs:
            self.book.first = None
            return Verified(0, 0, 0)
        return self.cache.give_back(self.book, pairs if verify_all else self.cache.sample(pairs))
