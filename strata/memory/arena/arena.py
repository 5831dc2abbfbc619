"""One reserved range whose pieces are mapped and unmapped, so that its memory can be given away and taken back.

The addresses never change while the arena is open; the pieces that are mapped are always its first ones.

What a failing driver call means here (`Fatal`: what is mapped is unknown, or the context is lost):

| call | what follows |
| --- | --- |
| synchronize | Fatal: something may still use what would be unmapped |
| unmap of a piece to be given | the piece is mapped again with the same memory if it went after all; DriverError |
| release after its unmap | the piece counts as unmapped; the handle joins `unreleased_handles` and is tried again |
| create | DriverError, nothing changed |
| map | unmapped in case it took effect (INVALID_VALUE is the good answer, any other Fatal), released; DriverError |
| set_access | unmapped and released; DriverError |
| the unmap of such a rollback | Fatal |
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.arena.mapping import map_piece, unmap_piece
from strata.memory.arena.pieces import cut
from strata.memory.arena.teardown import Teardown
from strata.memory.driver.driver import Code, Driver, DriverError, View
from strata.memory.driver.errors import Fatal, end_if_lost, fatal_if_refused


class Given(NamedTuple):
    """What `shrink` did, in bytes.

    Parameters
    ----------
    unmapped
        No longer there.
    released
        Really given back, not kept by a handle whose release failed.
    """

    unmapped: int
    released: int


class Grown(NamedTuple):
    """What `grow` did.

    Parameters
    ----------
    mapped
        Bytes of the range that are mapped now.
    refusal
        Why it stopped early, or None.
    """

    mapped: int
    refusal: DriverError | None


class Arena:
    """A range of memory in pieces; `open_arena` makes one with every piece mapped.

    What an interrupt left between two calls is found again by `close`, which may be repeated when it was interrupted.

    Parameters
    ----------
    driver
        Whose memory it is.
    total
        Bytes of the range.
    piece
        Bytes of each piece but the last, a multiple of the granularity.
    elastic
        Whether pieces may be given back.

    Raises
    ------
    StrataError
        For a card without virtual memory calls, for no bytes, and for pieces that are no multiples of the granularity.
    """

    def __init__(self, driver: Driver, total: int, piece: int, elastic: bool = True) -> None:
        """Reserves the range; nothing is mapped. Raises DriverError."""
        if not driver.supported():
            raise StrataError("arena: this card has no virtual memory calls")
        self.driver = driver
        self.total = total
        self.sizes = cut(total, piece, driver.granularity())
        self.starts = [sum(self.sizes[:k]) for k in range(len(self.sizes))]
        self.reserved = sum(self.sizes)
        self.elastic = elastic
        self._handles: list[int] = []
        self._unknown: list[tuple[int, int, int]] = []  # pieces that may or may not be mapped: address, size, handle
        self._open = self._reserved = True
        self.base = driver.reserve(self.reserved)

    @property
    def pieces(self) -> int:
        """How many pieces are mapped: the first ones."""
        return len(self._handles)

    @property
    def mapped_bytes(self) -> int:
        """Bytes of the pieces that are mapped."""
        return sum(self.sizes[: self.pieces])

    @property
    def handles(self) -> tuple[int, ...]:
        """The handles of the mapped pieces, in their order."""
        return tuple(self._handles)

    @property
    def unreleased_handles(self) -> list[tuple[int, int]]:
        """Handles whose release failed and which may still hold memory, with their bytes."""
        return self.driver.unreleased.of(self)

    @property
    def held(self) -> set[int]:
        """Every handle that this arena answers for: of mapped pieces, unreleased ones, and pieces in an
        unknown state."""
        unreleased = {handle for handle, _ in self.unreleased_handles}
        return {*self._handles, *unreleased, *(handle for _, _, handle in self._unknown)}

    def segmented(self) -> bool:
        """Whether it may shrink and grow."""
        return self._open and self.elastic

    def address(self, offset: int) -> int:
        """The address of a byte of the range, mapped or not. Raises StrataError for a byte outside of it."""
        if not 0 <= offset < self.reserved:
            raise StrataError(f"arena: offset {offset}, expected 0 to {self.reserved - 1}")
        return self.base + offset

    def view(self, offset: int, nbytes: int) -> View:
        """A view of mapped bytes that raises StaleView once a mapping below it has ended.

        Parameters
        ----------
        offset
            The place of the first byte in the range.
        nbytes
            How many.

        Raises
        ------
        StaleView
            When they are not all mapped.
        """
        return self.driver.view(self.address(offset), nbytes)

    def shrink(self, keep: int) -> Given:
        """Give back pieces from the last down, after a synchronize.

        Parameters
        ----------
        keep
            The pieces that bytes 0 to keep - 1 touch stay.

        Raises
        ------
        DriverError
            When an unmap is refused: that piece and those below it are mapped as before, with contents to be checked,
            those above are given.
        Fatal
            As the module says.
        """
        self._check("shrink")
        last = next((k for k in range(self.pieces) if self.starts[k] >= keep), self.pieces)
        if last == self.pieces:
            return Given(0, 0)
        with fatal_if_refused("synchronize before the unmap of pieces"):
            self.driver.synchronize()
        unmapped = released = 0
        while self.pieces > last:
            handle, size = self._unmap_last()
            unmapped += size
            released += size if self._release(handle, size) else 0
        return Given(unmapped, released)

    def grow(self, want: int) -> Grown:
        """Map further pieces while all mapped bytes stay within `want`; their contents are anything.

        A `want` of the whole `total` includes the padding of the last piece. Stops at the first refusal; what was
        mapped until then stays mapped.
        """
        self._check("grow")
        want = self.reserved if want >= self.total else want
        while self.pieces < len(self.sizes) and self.mapped_bytes + self.sizes[self.pieces] <= want:
            size = self.sizes[self.pieces]
            try:
                handle = self.driver.create(size)
            except DriverError as error:
                end_if_lost(error, f"create of piece {self.pieces}")
                return Grown(self.mapped_bytes, error)
            try:
                self._map_next(handle)
            except DriverError as error:
                self._release(handle, size)
                return Grown(self.mapped_bytes, error)
        return Grown(self.mapped_bytes, None)

    def lift(self, keep: int) -> list[int]:
        """As `shrink`, but the memory is kept.

        Parameters
        ----------
        keep
            The pieces that bytes 0 to keep - 1 touch stay.

        Returns
        -------
        list of int
            The handles of the unmapped pieces, in the order of the pieces.

        Raises
        ------
        DriverError
            When an unmap is refused; then every piece is mapped as before.
        Fatal
            As `shrink`; what was lifted until then is the arena's to release again.
        """
        self._check("lift")
        last = next((k for k in range(self.pieces) if self.starts[k] >= keep), self.pieces)
        lifted: list[int] = []
        if last < self.pieces:
            with fatal_if_refused("synchronize before the unmap of pieces"):
                self.driver.synchronize()
        while self.pieces > last:
            try:
                lifted.insert(0, self._unmap_last()[0])
            except DriverError:
                with fatal_if_refused("mapping pieces back after a refused unmap"):
                    self.put_back(lifted)
                raise
        for handle in lifted:  # until now `close` would have released them
            self.driver.unreleased.strike(handle)
        return lifted

    def put_back(self, lifted: list[int]) -> None:
        """Map lifted handles behind the mapped pieces again.

        Raises DriverError when one is refused; then none of them is mapped and all are still the caller's.
        """
        self._check("put back")
        before = self.pieces
        for handle in lifted:
            try:
                self._map_next(handle)
            except DriverError:
                with fatal_if_refused("unmapping pieces after a refused map"):
                    while self.pieces > before:
                        self.driver.unreleased.strike(self._unmap_last()[0])
                raise

    def retry_unreleased(self) -> int:
        """Release the unreleased handles again; returns the bytes that went. Raises Fatal when the context is lost.

        One that the driver does not know is gone: the release that reported a failure had its effect.
        """
        return sum(size for handle, size in self.unreleased_handles if self._release(handle, size, again=True))

    def close(self) -> None:
        """Unmap and release everything and free the range. Raises StrataError when something could not be given back.

        A call that fails is tried once more: it may have had no effect, and answers INVALID_VALUE when it had one.
        Raises Fatal when the context is lost.
        """
        if not self._reserved:
            return
        self._open = False
        teardown = Teardown("arena")
        kept = self.driver.unreleased
        released = {handle for handle, _ in self.unreleased_handles}
        teardown.attempt(self.driver.synchronize)
        while self._unknown:
            va, size, handle = self._unknown[-1]
            teardown.attempt(partial(self.driver.unmap, va, size), again=True)
            kept.keep(self, handle, size)
            self._unknown.pop()
        while self._handles:
            handle, k = self._handles[-1], len(self._handles) - 1
            teardown.attempt(partial(self.driver.unmap, self.base + self.starts[k], self.sizes[k]))
            kept.keep(self, handle, self.sizes[k])
            self._handles.pop()
        for handle, _ in self.unreleased_handles:
            teardown.attempt(partial(self.driver.release, handle), again=handle in released)
            kept.strike(handle)
        teardown.attempt(partial(self.driver.address_free, self.base, self.reserved))
        self._reserved = False
        teardown.end()

    def _check(self, what: str) -> None:
        if not self.segmented():
            raise StrataError(f"arena: cannot {what}, it is {'not made of pieces' if self._open else 'closed'}")

    def _unmap_last(self) -> tuple[int, int]:
        """(handle, size) of the last mapped piece, unmapped and in the book of unreleased handles until the caller
        strikes it out. Raises DriverError when it is still mapped."""
        k = self.pieces - 1
        handle, size = self._handles[k], self.sizes[k]
        self._unknown.append((self.base + self.starts[k], size, handle))
        self._handles.pop()
        try:
            unmap_piece(self.driver, self.base + self.starts[k], size, handle)
        except DriverError:
            self._handles.append(handle)
            self._unknown.pop()
            raise
        self.driver.unreleased.keep(self, handle, size)
        self._unknown.pop()
        return handle, size

    def _map_next(self, handle: int) -> None:
        """Map a handle as the next piece. Raises DriverError when it is not mapped; the handle is the caller's then."""
        va, size = self.base + self.starts[self.pieces], self.sizes[self.pieces]
        self._unknown.append((va, size, handle))
        try:
            map_piece(self.driver, va, size, handle)
        except DriverError:
            self._unknown.pop()
            raise
        self._handles.append(handle)
        self._unknown.pop()
        self.driver.unreleased.strike(handle)

    def _release(self, handle: int, size: int, again: bool = False) -> bool:
        """again: it failed before."""
        self.driver.unreleased.keep(self, handle, size)
        try:
            self.driver.release(handle)
        except DriverError as error:
            if not again or error.code != Code.INVALID_VALUE:
                end_if_lost(error, "release of a piece")
                return False
        self.driver.unreleased.strike(handle)
        return True


def open_arena(driver: Driver, total: int, piece: int, elastic: bool = True) -> Arena:
    """An arena with every piece mapped, whose contents are anything.

    Parameters
    ----------
    driver
        Whose memory it is.
    total
        Bytes of the range.
    piece
        Bytes of each piece but the last, a multiple of the granularity.
    elastic
        Whether pieces may be given back later.

    Raises
    ------
    DriverError
        When the card refuses, with nothing left behind.
    StrataError
        For no bytes, and for pieces that are no multiples of the granularity.
    """
    arena = Arena(driver, total, piece, elastic=True)
    try:
        refusal = arena.grow(total).refusal
        if refusal is not None:
            raise refusal
    except Fatal as fatal:
        if not fatal.lost:
            arena.close()
        raise
    except BaseException:
        arena.close()
        raise
    arena.elastic = elastic
    return arena
