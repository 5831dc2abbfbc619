"""Which slots a number of bytes at the end of the arena takes. Pure functions over slot offsets.

off: slots + 1 ascending offsets, off[k] where slot k begins, off[slots] where the last one ends. Loans come from the
end, because the cache is filled hottest first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from strata.executors.base import StrataError
from strata.memory.arena.pieces import round_up


def sized(blobs: Sequence[int]) -> list[int]:
    """Offsets of slots cut to their experts, each a multiple of 256 bytes."""
    off = [0]
    for blob in blobs:
        off.append(off[-1] + round_up(blob, 256))
    return off


def first(off: Sequence[int], nbytes: int, keep: int) -> int:
    """The largest slot whose tail holds some bytes.

    Parameters
    ----------
    off
        Where slots begin, and the end of the last.
    nbytes
        How many bytes.
    keep
        Slots that stay before it at least.

    Returns
    -------
    int
        -1 when no slot does.

    Raises
    ------
    StrataError
        For fewer than `keep` slots, a negative `keep` or negative bytes.
    """
    slots = _slots(off, nbytes, keep)
    if off[slots] - off[keep] < nbytes:
        return -1
    # The last offset that is at most off[slots] - nbytes.
    return bisect_right(off, off[slots] - nbytes) - 1


def floor(off: Sequence[int], nbytes: int, keep: int) -> int:
    """The fewest slots of a shrunk cache that still hold some bytes.

    Parameters
    ----------
    off
        Where slots begin, and the end of the last.
    nbytes
        How many bytes.
    keep
        Slots that stay before them.

    Returns
    -------
    int
        -1 when all slots are too few.

    Raises
    ------
    StrataError
        For fewer than `keep` slots, a negative `keep` or negative bytes.
    """
    slots = _slots(off, nbytes, keep)
    if off[slots] - off[keep] < nbytes:
        return -1
    return max(keep, bisect_left(off, off[keep] + nbytes))


def mapped(off: Sequence[int], slots: int, quantum: int) -> int:
    """Bytes that stay mapped under the first slots, in whole pieces.

    Parameters
    ----------
    off
        Where slots begin, and the end of the last.
    slots
        How many slots.
    quantum
        Bytes of a piece.
    """
    return round_up(off[slots], quantum)


def _slots(off: Sequence[int], nbytes: int, keep: int) -> int:
    slots = len(off) - 1
    if not 0 <= keep <= slots or nbytes < 0:
        raise StrataError(f"{nbytes} bytes behind {keep} slots of {slots}: expected 0 or more, and 0 to {slots} slots")
    return slots
