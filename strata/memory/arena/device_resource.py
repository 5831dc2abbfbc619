"""A resource whose bytes lie in device memory of its own: its addresses stay reserved while its memory is gone.

So a graph that was captured with its address is right again once it is restored.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena
from strata.memory.driver.driver import Driver, DriverError
from strata.memory.driver.errors import Fatal, end_if_lost, fatal_if_refused


class DeviceResource:
    """Bytes in device memory that can be released and made again at the same address; see `resources.Resource`.

    Its attribute `generation` says how often it was restored.

    Parameters
    ----------
    driver
        Whose memory it is.
    name
        For messages, and for those that need it.
    nbytes
        How many bytes it has.
    content
        What makes its bytes, uint8, when it is restored; everything that it needs is there then.
    needs
        Names of resources that must be there while it is.
    piece
        Bytes that memory is mapped in, a multiple of the granularity.
    """

    def __init__(
        self,
        driver: Driver,
        name: str,
        nbytes: int,
        content: Callable[[], np.ndarray],
        needs: tuple[str, ...] = (),
        piece: int = 64 << 20,
    ) -> None:
        """Reserves addresses; the resource is absent. Raises DriverError."""
        self.name, self.needs, self.nbytes = name, needs, nbytes
        self.generation = 0
        self._driver, self._content = driver, content
        self._present = False
        self._arena = Arena(driver, nbytes, piece)

    @property
    def present(self) -> bool:
        """Whether its bytes are there."""
        return self._present

    @property
    def address(self) -> int:
        """The address of its first byte, always the same."""
        return self._arena.base

    @property
    def mapped_bytes(self) -> int:
        """Device memory that it has mapped."""
        return self._arena.mapped_bytes

    @property
    def held(self) -> set[int]:
        """The handles that it answers for."""
        return self._arena.held

    def release(self) -> None:
        """Give its memory back.

        Raises
        ------
        DriverError
            When an unmap is refused, with the bytes loaded again.
        Fatal
            When that fails.
        """
        self._present = False
        try:
            self._arena.shrink(0)
        except DriverError as error:
            refusal = self._arena.grow(self.nbytes).refusal
            if refusal is not None:
                raise Fatal(f"{self.name}: {error}; undoing it failed too: {refusal}") from refusal
            try:
                self._load()
            except StrataError as failed:
                raise Fatal(f"{self.name}: {error}; loading it again failed too: {failed}") from failed
            raise

    def restore(self) -> None:
        """Take memory and load its bytes.

        Raises
        ------
        DriverError, StrataError
            When that is refused or fails, with the resource absent.
        Fatal
            When its memory cannot be given back then.
        """
        self._arena.retry_unreleased()
        try:
            refusal = self._arena.grow(self.nbytes).refusal
            if refusal is not None:
                end_if_lost(refusal, self.name)
                raise refusal
            self._load()
        except Fatal:
            raise
        except StrataError:
            with fatal_if_refused(f"{self.name}: giving memory back after it could not be loaded"):
                self._arena.shrink(0)
            raise

    def _load(self) -> None:
        """Write the bytes and compare every one of them on the card."""
        content = self._content()
        if content.nbytes != self.nbytes:
            raise StrataError(f"{self.name}: {content.nbytes} bytes to load, expected {self.nbytes}")
        self._driver.copy_in(self.address, content)
        found = self._driver.compare(self.address, content)
        if not found.equal or found.compared != self.nbytes:
            raise StrataError(
                f"{self.name}: byte {found.offset} is {found.got:#04x}, expected {found.expected:#04x}; "
                f"{found.compared} of {self.nbytes} bytes were compared"
            )
        self.generation += 1
        self._present = True

    def close(self) -> None:
        """Give everything back. Raises StrataError when something was left."""
        self._present = False
        self._arena.close()
