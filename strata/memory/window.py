"""Reserved addresses under which memory of others is mapped for a while, one handle after another without a gap.

What a failing driver call means here: a refused map or set_access is rolled back (DriverError, nothing mapped); a
refused unmap leaves that handle and those below it mapped, or gone if the call had its effect all the same: which of the
two is asked of the driver, because only mapped addresses can be given access. A refused roll-back is Fatal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.driver import Driver, DriverError
from strata.memory.errors import end_if_lost, fatal_if_refused


class Piece(NamedTuple):
    """Physical memory: a handle and its bytes."""

    handle: int
    size: int


class Window:
    """`size` addresses, reserved for good; `pieces`: what is mapped there, from `address` on."""

    def __init__(self, driver: Driver, size: int) -> None:
        """Raises DriverError."""
        self._driver = driver
        self.size = size
        self.address = driver.reserve(size)
        self.pieces: list[Piece] = []

    @property
    def mapped_bytes(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Map pieces behind those that are mapped, with access.

        Raises StrataError when they do not fit, DriverError with none of them mapped, Fatal when that is unknown.
        """
        total = self.mapped_bytes + sum(piece.size for piece in pieces)
        if total > self.size:
            raise StrataError(f"window of {self.size} bytes: {total} to be mapped")
        before = len(self.pieces)
        try:
            for piece in pieces:
                self._map(piece)
        except DriverError:
            with fatal_if_refused("unmapping what was mapped before a refused map"):
                self.clear(before)
            raise

    def clear(self, keep: int = 0) -> None:
        """Unmap all pieces but the first `keep`, from the last down; nothing may use them any more.

        Raises DriverError when one is refused: it and those below it are mapped as before. Fatal for a lost context.
        """
        while len(self.pieces) > keep:
            piece = self.pieces[-1]
            va = self.address + self.mapped_bytes - piece.size
            try:
                self._driver.unmap(va, piece.size)
            except DriverError as error:
                end_if_lost(error, f"unmap at {va:#x}")
                if self._mapped(va, piece.size):
                    raise
            self.pieces.pop()

    def close(self) -> None:
        """Give the addresses back, when nothing is mapped. Raises DriverError."""
        self.clear()
        self._driver.address_free(self.address, self.size)

    def _map(self, piece: Piece) -> None:
        va = self.address + self.mapped_bytes
        try:
            self._driver.map(va, piece.size, piece.handle)
        except DriverError as error:
            end_if_lost(error, f"map at {va:#x}")
            # In case it took effect all the same; refused when there is nothing mapped, which is what is expected.
            with suppress(DriverError):
                self._driver.unmap(va, piece.size)
            raise
        self.pieces.append(piece)
        self._driver.set_access(va, piece.size)

    def _mapped(self, va: int, size: int) -> bool:
        try:
            self._driver.set_access(va, size)
        except DriverError as error:
            end_if_lost(error, f"set_access at {va:#x}")
            return False
        return True
