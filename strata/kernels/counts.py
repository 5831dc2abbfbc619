"""Counts that kernels add up in 32 bits, such as outputs that are not finite.

A kernel adds to an int; read as unsigned it holds up to 2^32 - 1, and a call that could lose more values than that is
refused before it runs, for its count would wrap and could read 0.
"""

from __future__ import annotations

from strata.executors.base import Buffer, StrataError

#: The most that a count may come to.
MOST = (1 << 32) - 1


def check_counted(values: int, what: str) -> None:
    """Refuse a call in which more values could be lost than a count holds.

    Parameters
    ----------
    values
        The values that could be lost.
    what
        What has them, for the message, e.g. `10 tokens`.

    Raises
    ------
    StrataError
        For more than `MOST` values.
    """
    if values > MOST:
        raise StrataError(f"{what}: {values} values, expected up to {MOST} in one call, as a count of lost ones holds")


def counted(buffer: Buffer) -> list[int]:
    """The counts of an int32 buffer that one call has added to."""
    return [int(count) for count in buffer.host().view("u4").reshape(-1)]
