"""How a range is cut into pieces that are mapped one by one, and which of them a loan takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strata.executors.base import StrataError

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
#: The smallest piece that memory is lent in.
LEAST_SEGMENT_MIB = 64


def segment_bytes(mib: int, granularity: int) -> int:
    """Bytes of a piece, rounded up to the granularity.

    Parameters
    ----------
    mib
        MiB that were asked for.
    granularity
        The granularity of the card, in bytes.

    Raises
    ------
    StrataError
        Below 64 MiB.
    """
    if mib < LEAST_SEGMENT_MIB:
        raise StrataError(f"segment of {mib} MiB: expected at least {LEAST_SEGMENT_MIB}")
    return round_up(mib * MiB, granularity)


def round_up(n: int, unit: int) -> int:
    """The least multiple of `unit` that is not below n."""
    return -(-n // unit) * unit


def cut(total: int, piece: int, granularity: int) -> list[int]:
    """Sizes of the pieces of a range: all equal but the last, which is padded to the granularity.

    Parameters
    ----------
    total
        Bytes of the range.
    piece
        Bytes of a piece, a multiple of the granularity.
    granularity
        The granularity of the card, in bytes.

    Raises
    ------
    StrataError
        For no bytes, and for pieces that are no multiples of the granularity.
    """
    if granularity < 1 or piece < 1 or piece % granularity:
        raise StrataError(f"piece of {piece} bytes: expected a positive multiple of the granularity {granularity}")
    if total < 1:
        raise StrataError(f"range of {total} bytes: expected at least 1")
    whole, rest = divmod(round_up(total, granularity), piece)
    return [piece] * whole + ([rest] if rest else [])


class Tail(NamedTuple):
    """The last pieces of a range.

    Parameters
    ----------
    first
        The index of the first of them.
    boundary
        Its offset in bytes.
    nbytes
        Bytes of all of them.
    """

    first: int
    boundary: int
    nbytes: int


def tail(sizes: Sequence[int], nbytes: int) -> Tail | None:
    """The fewest last pieces that have so many bytes together.

    Parameters
    ----------
    sizes
        Bytes of each piece.
    nbytes
        How many bytes.

    Returns
    -------
    Tail or None
        None when all are too few, or none would be left.
    """
    taken = 0
    for first in range(len(sizes) - 1, 0, -1):
        taken += sizes[first]
        if taken >= nbytes:
            return Tail(first, sum(sizes[:first]), taken)
    return None
