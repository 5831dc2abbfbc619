"""What is remembered of an exception that leaves a change of memory: whether the change has ended in the middle."""

from __future__ import annotations

from strata.executors.base import StrataError
from strata.memory.errors import Fatal


def ending(error: BaseException, where: str) -> Fatal | None:
    """The fatal end that an exception is; None for a refusal, after which everything is as somebody has left it.

    What is not a StrataError (an interrupt, no memory on the host) may have come at any point, so nobody knows what is
    mapped and which copy has begun.
    """
    if isinstance(error, Fatal):
        return error
    if isinstance(error, StrataError):
        return None
    fatal = Fatal(f"broken off {where}: {type(error).__name__}: {error}")
    fatal.__cause__ = error
    return fatal
