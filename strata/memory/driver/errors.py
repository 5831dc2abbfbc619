"""How an operation on lent memory can fail: refused, with nothing changed, or fatal, with the process to be ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strata.executors.base import StrataError
from strata.memory.driver.driver import DriverError


class Refused(StrataError):  # noqa: N818 - an answer, not a fault
    """The request is not carried out; the engine goes on and no row says anything untrue. The message is the reason."""


class Fatal(StrataError):  # noqa: N818 - a state of the engine
    """What a slot, a mapping or the device table holds is unknown, or the context is lost.

    The engine answers ERR and exits with status 1. Rows whose bytes are unknown are misses on the host by then, but no
    window may start any more.
    """

    status = 1

    @property
    def lost(self) -> bool:
        """Whether the context is lost: no driver call may follow, not even to clean up."""
        return isinstance(self.__cause__, DriverError) and self.__cause__.sticky


@contextmanager
def fatal_if_refused(what: str) -> Iterator[None]:
    """Inside a `with` block, a refusal of the driver is fatal.

    Parameters
    ----------
    what
        The step, and what is unknown after it fails.

    Raises
    ------
    Fatal
        For a DriverError inside.
    """
    try:
        yield
    except DriverError as error:
        raise Fatal(f"{what}: {error}") from error


def end_if_lost(error: DriverError, what: str) -> None:
    """End what cannot be rolled back: nothing can be done through a context that is lost (see `driver.STICKY`).

    Parameters
    ----------
    error
        The refusal.
    what
        The step that was refused.

    Raises
    ------
    Fatal
        When the context is lost.
    """
    if error.sticky:
        raise Fatal(f"{what}: {error}; the context is lost") from error
