"""Handles whose release failed, kept until the driver takes them back: one book for each driver.

A release that reports a failure may have had its effect all the same. The driver may then give the number out again, to
any owner; the entry says nothing about that new memory and must go. So there is one book, and `create` of the driver
strikes out what it returns.
"""

from __future__ import annotations


class UnreleasedHandles:
    """By handle: whose it was, and its bytes."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, int]] = {}

    def keep(self, owner: object, handle: int, size: int) -> None:
        """Note a handle that may still hold memory.

        Parameters
        ----------
        owner
            Who tries again.
        handle
            The handle.
        size
            Its bytes.
        """
        self._kept[handle] = (owner, size)

    def strike(self, handle: int) -> None:
        """The handle was released, is somebody's again, or is new; nothing happens when it is not in the book."""
        self._kept.pop(handle, None)

    def of(self, owner: object) -> list[tuple[int, int]]:
        """(handle, bytes) of an owner's entries, in the order they were made."""
        return [(handle, size) for handle, (whose, size) in self._kept.items() if whose is owner]
