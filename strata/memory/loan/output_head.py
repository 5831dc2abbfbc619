"""The output head in device memory of its own, which may be taken out of its addresses and put back."""

from __future__ import annotations

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena
from strata.memory.arena.window import Piece
from strata.memory.driver.errors import Fatal


class Head:
    """The output head in device memory of its own.

    As a `Place` of graphs it is present while its bytes are there, all compared.

    Parameters
    ----------
    arena
        With every piece mapped, for exactly these bytes.
    content
        uint8, page-locked: what it must hold.
    """

    name = "H"

    def __init__(self, arena: Arena, content: np.ndarray) -> None:
        """Loads the bytes. Raises StrataError, also for an arena of another size."""
        if arena.total != content.nbytes or arena.mapped_bytes < content.nbytes:
            raise StrataError(f"head of {content.nbytes} bytes in {arena.mapped_bytes} mapped of {arena.total}")
        self.arena, self.content = arena, content
        self.generation = 0
        self._address = arena.base
        self._present = False
        self.load()

    @property
    def address(self) -> int:
        """The address of its first byte, always the same."""
        return self.arena.base

    @property
    def present(self) -> bool:
        """Whether its bytes are there, all compared."""
        return self._present

    def lift(self) -> list[Piece]:
        """Take all its memory out of its addresses. Raises DriverError with it mapped as before; Fatal."""
        self._present = False
        sizes = self.arena.sizes[: self.arena.pieces]
        return [Piece(handle, size) for handle, size in zip(self.arena.lift(0), sizes, strict=True)]

    def load(self) -> None:
        """Write its bytes and compare every one on the card; address and bytes are then those that graphs were captured
        with.

        Raises
        ------
        DriverError
            When the card refuses.
        StrataError
            For a byte that differs.
        Fatal
            When its address has changed.
        """
        if self.address != self._address:
            raise Fatal(f"the head is at {self.address:#x}, graphs were captured with {self._address:#x}")
        driver = self.arena.driver
        driver.copy_in(self.address, self.content)
        found = driver.compare(self.address, self.content)
        if not found.equal or found.compared != self.content.nbytes:
            raise StrataError(
                f"head: byte {found.offset} is {found.got:#04x}, expected {found.expected:#04x}; "
                f"{found.compared} of {self.content.nbytes} bytes were compared"
            )
        self.generation += 1
        self._present = True
