"""A driver through which a copy into a slot goes wrong: one byte is another, or two experts change places.

It stands in for what a cache's copies go through; comparisons go past it, as they would on a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class CorruptingDriver:
    """flip: (address, xor), one byte that is changed after copies have landed; swap: two addresses that each get the
    bytes of the other one, as far as they are long."""

    def __init__(self, driver: Any, flip: tuple[int, int] | None = None, swap: tuple[int, int] | None = None) -> None:
        self._driver, self._flip, self._swap = driver, flip, swap
        self._held: dict[int, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def copy_in_all(self, ranges: Iterable[tuple[int, np.ndarray]], stream: int) -> None:
        """Each of them by itself, so that none goes past this driver."""
        for va, host in ranges:
            self.copy_in(va, host, stream)

    def copy_in(self, va: int, host: np.ndarray, stream: int | None = None) -> None:
        """Hold back the copies to the swapped addresses until both are there."""
        if self._swap is None or va not in self._swap:
            self._driver.copy_in(va, host, stream)
            return
        self._held[va] = host
        if len(self._held) == 2:
            one, two = self._swap
            self._driver.copy_in(one, self._held[two][: self._held[one].size], stream)
            self._driver.copy_in(two, self._held[one][: self._held[two].size], stream)

    def wait_stream(self, stream: int) -> None:
        """Let the copies land, and change the byte."""
        self._driver.wait_stream(stream)
        if self._flip is not None:
            va, flip = self._flip
            byte = int(self._driver.copy_out(va, 1)[0])
            self._driver.fill(va, byte ^ flip, 1)
