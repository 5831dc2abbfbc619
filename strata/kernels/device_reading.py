"""What a device says of a loaded kernel, and whether that speaks against launching it."""

from __future__ import annotations

from dataclasses import dataclass

from strata.executors.base import Kernel

#: Shared memory of a block that every device gives, and the most that any gives, in bytes.
_EVERY, _ANY = 48 << 10, 228 << 10
#: The most a block may ask for, by compute capability times ten.
SHARED_LIMITS = {75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10, 120: 99 << 10}


@dataclass(frozen=True)
class Reading:
    """What a device says of a kernel.

    Parameters
    ----------
    capability
        The compute capability of the device, times ten.
    threads
        The most that a block may have.
    local_bytes
        Local memory of a thread in bytes, spills among them.
    shared_limit
        Shared memory of a block in bytes, as the driver reports it.
    resident
        Blocks that a multiprocessor holds.
    """

    capability: int
    threads: int
    local_bytes: int
    shared_limit: int
    resident: int


def shared_limit(reported: int, capability: int) -> tuple[int, str]:
    """Bytes of shared memory that a block may be given.

    A driver has reported 100000001 (hexadecimal): numbers that no device has are replaced by what every device of the
    capability gives, or every device at all, and larger ones than the capability's are cut to it.

    Parameters
    ----------
    reported
        What the driver says, in bytes.
    capability
        The compute capability of the device, times ten.

    Returns
    -------
    (int, str)
        The bytes, and what was wrong with the driver's number, "" for nothing.
    """
    known = SHARED_LIMITS.get(capability, _EVERY)
    if not _EVERY <= reported <= _ANY:
        return known, f"the driver reports {reported} bytes of shared memory a block; {known} are assumed"
    if capability in SHARED_LIMITS and reported > known:
        return known, f"the driver reports {reported} bytes of shared memory a block, this capability has {known}"
    return reported, ""


def refusal(program: Kernel, reading: Reading) -> tuple[str, str]:
    """Why a kernel cannot be launched on a device.

    Parameters
    ----------
    program
        The kernel.
    reading
        What the device says of it.

    Returns
    -------
    (str, str)
        The reason, empty when nothing speaks against it; and a note on the reading, empty when there is none.
    """
    limit, note = shared_limit(reading.shared_limit, reading.capability)
    if program.shared_bytes > limit:
        return f"{program.shared_bytes} bytes of shared memory a block, the device gives {limit}", note
    if program.block > reading.threads:
        return f"{program.block} threads a block, its registers allow {reading.threads}", note
    if reading.resident < 1:
        return "no block fits a multiprocessor", note
    if reading.local_bytes and reading.capability < 80:
        return f"{reading.local_bytes} bytes of a thread lie in local memory", note
    return "", note
