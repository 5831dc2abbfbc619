"""Reserved addresses under which memory of others is mapped for a while, one handle after another without a gap.

A refused map is rolled back, a refused unmap leaves that piece and those below it mapped; see `mapping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.arena.mapping import map_piece, unmap_piece
from strata.memory.arena.teardown import Teardown
from strata.memory.driver.driver import Driver, DriverError
from strata.memory.driver.errors import fatal_if_refused


class Piece(NamedTuple):
    """Physical memory.

    Parameters
    ----------
    handle
        A handle of a driver.
    size
        Its bytes.
    """

    handle: int
    size: int


class Window:
    """Addresses that are reserved for good.

    Its attribute `pieces` is what is mapped there, from `address` on.

    Parameters
    ----------
    driver
        Whose memory it is.
    size
        How many addresses, in bytes.
    """

    def __init__(self, driver: Driver, size: int) -> None:
        """Raises DriverError."""
        self._driver = driver
        self.size = size
        self.address = driver.reserve(size)
        self.pieces: list[Piece] = []
        self._unknown: list[tuple[int, int]] = []  # may or may not be mapped, behind the pieces: address, size

    @property
    def mapped_bytes(self) -> int:
        """Bytes of the pieces that are mapped."""
        return sum(piece.size for piece in self.pieces)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Map pieces behind those that are mapped, with access.

        Parameters
        ----------
        pieces
            The pieces, in order.

        Raises
        ------
        StrataError
            When they do not fit.
        DriverError
            When a map is refused, with none of them mapped.
        Fatal
            When that is unknown.
        """
        total = self.mapped_bytes + sum(piece.size for piece in pieces)
        if total > self.size:
            raise StrataError(f"window of {self.size} bytes: {total} to be mapped")
        before = len(self.pieces)
        try:
            for piece in pieces:
                place = (self.address + self.mapped_bytes, piece.size)
                self._unknown.append(place)
                map_piece(self._driver, *place, piece.handle)
                self.pieces.append(piece)
                self._unknown.remove(place)
        except DriverError:
            self._unknown.remove(place)
            with fatal_if_refused("unmapping what was mapped before a refused map"):
                self.clear(before)
            raise

    def clear(self, keep: int = 0) -> None:
        """Unmap pieces from the last down; nothing may use them any more.

        Parameters
        ----------
        keep
            How many pieces stay.

        Raises
        ------
        DriverError
            When one is refused: it and those below it are mapped as before.
        Fatal
            For a lost context.
        """
        while len(self.pieces) > keep:
            piece = self.pieces[-1]
            unmap_piece(self._driver, self.address + self.mapped_bytes - piece.size, piece.size, piece.handle)
            self.pieces.pop()

    def close(self, lifted: Sequence[Piece] = ()) -> None:
        """Wait, unmap what is mapped, release memory that has been lifted for the window, and free the addresses.

        A call that fails is tried once more; it answers INVALID_VALUE then when it had its effect. Raises StrataError
        when something could not be given back, Fatal when the context is lost.
        """
        teardown = Teardown("window")
        teardown.attempt(self._driver.synchronize)
        places = [(self.address + sum(p.size for p in self.pieces[:k]), p.size) for k, p in enumerate(self.pieces)]
        for va, size in self._unknown:
            if (va, size) not in places:
                teardown.attempt(partial(self._driver.unmap, va, size), again=True)
        for va, size in reversed(places):
            teardown.attempt(partial(self._driver.unmap, va, size))
        self.pieces, self._unknown = [], []
        for piece in lifted:
            teardown.attempt(partial(self._driver.release, piece.handle))
        teardown.attempt(partial(self._driver.address_free, self.address, self.size))
        teardown.end()
