"""The expert cache: slots in an arena, the residency table that names them, and the only code that writes to either.

Every change keeps one order: rest, demote and upload, then overwrite or unmap; rest, copy, wait, verify, then promote
and upload. So at every moment a row that names a slot tells the truth, and whoever computes a miss takes its bytes from
the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena, open_arena
from strata.memory.cache.admission import Admission
from strata.memory.cache.loan_book import LoanBook
from strata.memory.cache.residency import MISS, Residency
from strata.memory.cache.slots import Slots
from strata.memory.cache.source import ExpertSource
from strata.memory.cache.verification import Verified, ranges, sample, verify
from strata.memory.driver.driver import Driver, View
from strata.memory.driver.errors import Fatal, fatal_if_refused
from strata.memory.driver.views import StaleView


class ExpertCache:
    """Experts in device memory, made by `opening.open_cache`.

    Parameters
    ----------
    driver
        Whose memory it is.
    source
        Every expert's bytes.
    slots
        Where slots lie.
    piece
        Bytes that memory is mapped in, a multiple of the granularity.
    per_layer
        Whether each layer has slots of its own, see `Admission`.

    Attributes
    ----------
    fatal
        Why nothing may follow any more, None while all is well.
    loan_books
        Whose slots are lent.
    pending
        By slot, the row that it is written for, until that is promoted.
    stamps
        int64 [slots], how often each was written.
    landings
        What must be called before a window or a loan, so that no copy is still on its way.
    """

    def __init__(self, driver: Driver, source: ExpertSource, slots: Slots, piece: int, per_layer: bool = False) -> None:
        """Takes the device's memory, all of it mapped and none of it filled. Raises DriverError, with nothing left."""
        self.admission = Admission(source.geometry, slots, per_layer)
        self.driver, self.source, self.slots = driver, source, slots
        self.geometry = source.geometry
        self.stream = driver.stream()
        self.arena: Arena = open_arena(driver, slots.nbytes, piece)
        try:
            self.residency = Residency(driver, self.geometry.rows, len(slots))
        except BaseException:
            self.arena.close()
            raise
        self.base, self.off = self.arena.base, slots.off.copy()
        self.stamps = np.zeros(len(slots), np.int64)
        self.pending: dict[int, int] = {}
        self.loan_books: list[LoanBook] = []
        self.landings: list[Callable[[], None]] = []
        self.fatal: Fatal | None = None

    def end_if_fatal(self, error: BaseException) -> Fatal | None:
        """What an error that left a change means: a fatal end, remembered from here on, or None, and all goes on.

        An answer (Refused, or any StrataError but Fatal) leaves everything true. Anything else, an interrupt or want of
        memory on the host, came between two steps of a change, and which of them were made is unknown.
        """
        if isinstance(error, StrataError) and not isinstance(error, Fatal):
            return None
        if isinstance(error, Fatal):
            fatal = error
        else:
            fatal = Fatal(f"{type(error).__name__} in the middle of a change: {error}")
            fatal.__cause__ = error
        self.fatal = self.fatal or fatal
        return self.fatal

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around every change: it refuses after a fatal end, and remembers one; what ends it is raised as it is. Raises
        Fatal after a fatal end."""
        if self.fatal is not None:
            raise Fatal(f"the cache has ended: {self.fatal}") from self.fatal.__cause__
        try:
            yield
        except BaseException as error:
            self.end_if_fatal(error)
            raise

    def loan_book(self, name: str, exclusive: bool = True) -> LoanBook:
        """A new book that this cache respects.

        Parameters
        ----------
        name, exclusive
            See `LoanBook`.
        """
        self.loan_books.append(LoanBook(name, exclusive))
        return self.loan_books[-1]

    def owned(self, row: int) -> bool:
        """Whether a loan will bring this row back to its slot, or a copy of it is on its way: nobody else may."""
        return row in self.pending.values() or any(book.exclusive and book.owns(row) for book in self.loan_books)

    def out(self, but: LoanBook | None = None) -> str:
        """The name of a loan that is out, other than `but`; empty when there is none."""
        return next((book.name for book in self.loan_books if book.out and book is not but), "")

    def usable_slots(self) -> int:
        """Slots that are wholly mapped: the first ones."""
        return self.slots.within(self.arena.mapped_bytes)

    def free_slots(self) -> np.ndarray:
        """bool [slots]: mapped, named by no row, held by no loan, not being written."""
        free: np.ndarray = self.residency.by_slot == MISS
        free[self.usable_slots() :] = False
        taken = [slot for book in self.loan_books for _, slot in book]
        free[[*taken, *self.pending]] = False
        for book in self.loan_books:
            if book.first is not None:
                free[book.first :] = False
        return free

    def find(self, layer: int, expert: int) -> int:
        """The slot of an expert, or `MISS`: then its bytes are `source.blob`.

        A miss is always a right answer.

        Parameters
        ----------
        layer, expert
            The layer, and the expert in it.

        Raises
        ------
        StrataError
            For an expert that does not exist.
        """
        return self.residency.slot(self.geometry.row(layer, expert))

    def view(self, layer: int, expert: int) -> SlotView | None:
        """The bytes of a resident expert, None for a miss.

        Parameters
        ----------
        layer, expert
            The layer, and the expert in it.

        Raises
        ------
        StrataError
            For an expert that does not exist.
        """
        row = self.geometry.row(layer, expert)
        slot = self.residency.slot(row)
        if slot == MISS:
            return None
        return SlotView(self, row, slot, self.arena.view(int(self.slots.off[slot]), self.geometry.blob(row)))

    def read(self, layer: int, expert: int) -> np.ndarray:
        """An expert's bytes, uint8, from its slot when it is resident, else from the host.

        Parameters
        ----------
        layer, expert
            The layer, and the expert in it.

        Raises
        ------
        StrataError
            For an expert that does not exist.
        DriverError
            When the card refuses.
        """
        row = self.geometry.row(layer, expert)
        slot = self.residency.slot(row)
        if slot == MISS:
            return self.source.blob(row)
        return self.driver.copy_out(self.arena.address(int(self.slots.off[slot])), self.geometry.blob(row))

    def rest(self) -> None:
        """Wait for every reader of the table and of slots, before either changes: a queued window reads what it finds.
        Copies that are queued have landed then, too.

        Nobody says which streams windows are queued on, so the card is waited for. Raises Fatal.
        """
        with self.guard(), fatal_if_refused("synchronize before the residency table changes"):
            self.driver.synchronize()

    def land(self) -> None:
        """Let every copy arrive that somebody has queued, and its row be promoted. Raises Fatal."""
        with self.guard():
            for landing in self.landings:
                landing()

    def begin_window(self) -> None:
        """Before kernels read the device's table. Raises StrataError when that is not the host's."""
        self.land()
        if self.residency.stale:
            raise StrataError("window: the residency table has changed since its last upload")

    def admit(self, row: int) -> int:
        """Bring an expert into a free slot; returns it, MISS when there is none or the row is resident or lent."""
        with self.guard():
            if self.residency.slot(row) != MISS or self.owned(row) or not self.source.has(row):
                return MISS
            pairs = self.admission.assign([row], self.free_slots())
            if not pairs:
                return MISS
            self.install(pairs)
            return pairs[0][1]

    def take(self, book: LoanBook, first: int, stop: int | None = None) -> int:
        """At rest, the rows of some slots become misses and join a book; the table is uploaded.

        Nothing queued before this reads those slots any more.

        Parameters
        ----------
        book
            Whose loan it is.
        first, stop
            Slots first .. stop - 1; None for all from the first on.

        Returns
        -------
        int
            How many rows.

        Raises
        ------
        Fatal
            When the upload fails.
        """
        with self.guard():
            self.rest()
            pairs = self.residency.resident(first, stop)
            book.add(pairs)
            if book.exclusive:
                book.first = first
            for row, _ in pairs:
                self.residency.demote(row)
            self.residency.upload()
            return len(pairs)

    def give_back(self, book: LoanBook, check: Sequence[tuple[int, int]] | None = None) -> Verified:
        """Every row of a book returns to its slot, filled from the host; the book is empty afterwards.

        Parameters
        ----------
        book
            Whose loan ends.
        check
            The (row, slot) pairs to verify before any is promoted, all when None.

        Raises
        ------
        Fatal
            When what the slots hold is unknown or wrong.
        """
        pairs = list(book)
        verified = self.install(pairs, pairs if check is None else check, book)
        book.first = None
        return verified

    def install(
        self,
        pairs: Sequence[tuple[int, int]],
        check: Sequence[tuple[int, int]] = (),
        book: LoanBook | None = None,
    ) -> Verified:
        """At rest, fill slots that no row names, wait, verify, promote and upload.

        Parameters
        ----------
        pairs
            (row, slot) of each.
        check
            Those of the pairs to verify before any is promoted.
        book
            The book that they leave, None for none.

        Raises
        ------
        Fatal
            When what the slots hold is unknown or wrong.
        """
        with self.guard():
            self.rest()
            self.write(pairs)
            compared = ranges(self.arena, self.slots, self.source, check)  # while the copies run
            self.wait()
            verified = verify(self.arena, self.slots, self.source, check, len(pairs), compared)
            self.promote(pairs, book)
            return verified

    def write(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Queue the copies of experts into slots that no row names; `wait` for them.

        Parameters
        ----------
        pairs
            (row, slot) of each.

        Raises
        ------
        StrataError
            With nothing queued, for a slot that is named, not mapped or not made for the expert, and for an expert that
            the host does not hold.
        Fatal
            For a refused copy.
        """
        with self.guard():
            usable = self.usable_slots()
            named = self.residency.by_slot.tolist()
            for row, slot in pairs:
                layer, expert = self.geometry.expert(row)
                if slot >= usable or named[slot] != MISS or slot in self.pending:
                    raise StrataError(f"slot {slot}: expected a free one of the {usable} that are mapped")
                if not self.slots.takes(slot, layer, self.geometry.blobs[layer]):
                    size = self.slots.size(slot)
                    raise StrataError(f"slot {slot} of {size} bytes does not take expert {layer, expert}")
            copies = ranges(self.arena, self.slots, self.source, pairs)
            slots = [slot for _, slot in pairs]
            self.pending |= {slot: row for row, slot in pairs}
            self.stamps[slots] += 1
            with fatal_if_refused("copy into a slot, what it holds is unknown"):
                self.driver.copy_in_all(copies, self.stream)

    def wait(self) -> None:
        """Wait for every copy that was queued by `write`. Raises Fatal."""
        with self.guard():
            if self.pending:
                with fatal_if_refused("waiting for copies into slots, what they hold is unknown"):
                    self.driver.wait_stream(self.stream)

    def promote(self, pairs: Sequence[tuple[int, int]], book: LoanBook | None = None) -> None:
        """Rows name slots that hold their bytes, and leave a book; then the table is uploaded.

        Nobody reads it now.

        Parameters
        ----------
        pairs
            (row, slot) of each.
        book
            The book that they leave, None for none.

        Raises
        ------
        Fatal
            When the upload fails; the rows are misses again then.
        """
        with self.guard():
            for _, slot in pairs:
                self.pending.pop(slot, None)
            self.residency.promote_all(pairs)
            if book is not None:
                book.drop(slot for _, slot in pairs)
            try:
                self.residency.upload()
            except Fatal:
                for row, _ in pairs:
                    self.residency.demote(row)
                raise

    def boundaries(self, first: int = 1) -> list[int]:
        """Offsets where pieces `first` and later ones begin."""
        return self.arena.starts[first:]

    def sample(self, pairs: Sequence[tuple[int, int]], first: int = 1) -> list[tuple[int, int]]:
        """Pairs worth verifying: the first, the last, and those at the boundaries of pieces.

        Parameters
        ----------
        pairs
            (row, slot), in the order of their slots.
        first
            The first piece whose boundary counts.
        """
        return sample(self.slots, pairs, self.boundaries(first))

    def close(self) -> None:
        """Give everything back. After a lost context nothing is called. Raises StrataError when something was left."""
        if self.fatal is not None and self.fatal.lost:
            return
        try:
            self.residency.close()
        finally:
            self.arena.close()


class SlotView:
    """A view of memory, bound to the expert that was in it: a slot that is written again makes it stale too.

    Parameters
    ----------
    cache
        The cache.
    row, slot
        The expert, and where it is.
    view
        A view of the slot's memory.
    """

    def __init__(self, cache: ExpertCache, row: int, slot: int, view: View) -> None:
        self._cache, self._view = cache, view
        self.row, self.slot = row, slot
        self._stamp = int(cache.stamps[slot])

    @property
    def address(self) -> int:
        """The address of the first byte. Raises StaleView when the slot was given to another expert, or unmapped, after
        this view was made."""
        if self._cache.residency.slot(self.row) != self.slot or self._cache.stamps[self.slot] != self._stamp:
            raise StaleView(f"slot {self.slot} was taken from row {self.row} after this view of it was made")
        return self._view.address

    def array(self) -> Any:
        """The bytes as an array of the driver's kind, for use at once. Raises StaleView as `address` does."""
        _ = self.address
        return self._view.array()
