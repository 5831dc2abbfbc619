"""One piece of memory mapped at its address, or unmapped, so that afterwards it is known which.

A driver call that fails may have had its effect all the same. What each failure leads to is in `arena`'s table; here is
how the state is found out: only a range that is wholly mapped can be given access, and only a mapping can be unmapped.
"""

from __future__ import annotations

from strata.memory.driver.driver import Code, Driver, DriverError
from strata.memory.driver.errors import Fatal, end_if_lost, fatal_if_refused


def map_piece(driver: Driver, va: int, size: int, handle: int) -> None:
    """Map a handle and allow access.

    Parameters
    ----------
    driver
        Whose memory it is.
    va, size
        The range, reserved and not mapped.
    handle
        A handle of so many bytes.

    Raises
    ------
    DriverError
        When it is refused: the handle is not mapped then, and still the caller's.
    Fatal
        When that cannot be established.
    """
    try:
        driver.map(va, size, handle)
    except DriverError as error:
        end_if_lost(error, f"map at {va:#x}")
        _unmap_in_case(driver, va, size)
        raise
    try:
        driver.set_access(va, size)
    except DriverError as error:
        end_if_lost(error, f"set_access at {va:#x}")
        with fatal_if_refused(f"unmap at {va:#x} after a refused set_access; whether it is mapped is unknown"):
            driver.unmap(va, size)
        raise


def unmap_piece(driver: Driver, va: int, size: int, handle: int) -> None:
    """End a mapping of a handle; nothing may use it any more.

    Parameters
    ----------
    driver
        Whose memory it is.
    va, size
        The range, as it was mapped.
    handle
        What is mapped there.

    Raises
    ------
    DriverError
        When it is refused: the handle is mapped with access then, though perhaps anew, so that whoever used its bytes
        verifies them.
    Fatal
        When that cannot be established.
    """
    try:
        driver.unmap(va, size)
    except DriverError as error:
        end_if_lost(error, f"unmap at {va:#x}")
        try:
            driver.set_access(va, size)
        except DriverError as access:
            end_if_lost(access, f"set_access at {va:#x}")
            with fatal_if_refused(f"{error}; mapping it again failed too, whether it is mapped is unknown"):
                driver.map(va, size, handle)
                driver.set_access(va, size)
        raise


def _unmap_in_case(driver: Driver, va: int, size: int) -> None:
    """End a mapping that is probably not there: the driver answers INVALID_VALUE then. Raises Fatal otherwise."""
    try:
        driver.unmap(va, size)
    except DriverError as error:
        if error.code != Code.INVALID_VALUE:
            raise Fatal(f"{error}, after a refused map; whether it is mapped is unknown") from error
