"""What must hold at every moment, asked by one call.

I1 a row that names a slot: the slot holds that expert's bytes, all of them
I2 the device's table is the host's, unless the host's has changed since its last upload (no window may start then)
I3 a slot is named by at most one row
I4 no row names a slot of which a byte is not mapped
I5 a row that is a miss because of a loan has its bytes in host memory
I6 the arena's address and the slots' offsets are those of the opening
I7 no row, on either side, names a slot that is being written; a row in a loan's book is a miss, and its slot nobody's
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.residency import MISS


def violations(
    cache: ExpertCache, contents: bool = True, read: Callable[[int, int], np.ndarray] | None = None
) -> list[str]:
    """Every broken invariant of a cache.

    Copies that are still queued are not waited for. After a fatal end the device's table is not asked: no window will
    read it.

    Parameters
    ----------
    cache
        The cache.
    contents
        Whether bytes are compared for I1, else only whether experts fit their slots.
    read
        (address, bytes) to a uint8 array, for the device's memory; None for the driver's `copy_out`.

    Returns
    -------
    list of str
        Lines that begin with the number of an invariant, as the module lists them; empty when all hold.
    """
    read = cache.driver.copy_out if read is None else read
    host = cache.residency.host
    found = _addresses(cache)
    device = None
    if cache.fatal is None:
        device = read(cache.residency.address, 4 * host.size).view(np.int32)
        if not cache.residency.stale and not np.array_equal(device, host):
            row = int(np.argmax(device != host))
            found.append(f"I2 row {row} is {device[row]} on the device, {host[row]} on the host")
    found += _table(cache, host, "host")
    if device is not None:
        found += _table(cache, device, "device")
    found += _slots(cache, host)
    if contents and not any(line.startswith(("I3", "I4", "I6")) for line in found):
        found += _contents(cache, host, read)
    return found + _books(cache, host)


def _named(table: np.ndarray) -> list[tuple[int, int]]:
    return [(int(row), int(table[row])) for row in np.flatnonzero(table != MISS)]


def _table(cache: ExpertCache, table: np.ndarray, side: str) -> list[str]:
    """Of one side's table."""
    found: list[str] = []
    usable = cache.usable_slots()
    for row, slot in _named(table):
        if not 0 <= slot < usable:
            found.append(f"I4 row {row} names slot {slot} on the {side}, {usable} are mapped")
        if slot in cache.pending:
            found.append(f"I7 row {row} names slot {slot} on the {side}, which is being written")
    return found


def _slots(cache: ExpertCache, host: np.ndarray) -> list[str]:
    """The host's table against its own index of slots, and experts against the slots' sizes and layers."""
    found: list[str] = []
    by_slot: dict[int, int] = {}
    for row, slot in _named(host):
        if slot in by_slot:
            found.append(f"I3 slot {slot} is named by rows {by_slot[slot]} and {row}")
        by_slot[slot] = row
        layer, expert = cache.geometry.expert(row)
        if slot < len(cache.slots) and not cache.slots.takes(slot, layer, cache.geometry.blobs[layer]):
            found.append(f"I1 slot {slot} of {cache.slots.size(slot)} bytes cannot hold expert {layer, expert}")
    indexed = {slot: row for row, slot in cache.residency.resident()}
    if indexed != by_slot:
        differing = sorted(set(indexed.items()) ^ set(by_slot.items()))[0][0]
        found.append(f"I3 the index of slots and the table disagree about slot {differing}")
    return found


def _contents(cache: ExpertCache, host: np.ndarray, read: Callable[[int, int], np.ndarray]) -> list[str]:
    found: list[str] = []
    for row, slot in _named(host):
        expected = cache.source.blob(row)
        got = read(cache.base + int(cache.slots.off[slot]), expected.size)
        if not np.array_equal(got, expected):
            at = int(np.argmax(got != expected))
            expert = cache.geometry.expert(row)
            found.append(
                f"I1 expert {expert} in slot {slot}: byte {at} is {got[at]:#04x}, expected {expected[at]:#04x}"
            )
    return found


def _books(cache: ExpertCache, host: np.ndarray) -> list[str]:
    found: list[str] = []
    for book in cache.loan_books:
        for row, slot in book:
            if book.exclusive and host[row] != MISS:
                found.append(f"I7 row {row} names slot {host[row]}, the loan {book.name!r} will bring it to {slot}")
            if cache.residency.row(slot) != MISS:
                found.append(f"I7 slot {slot} is of the loan {book.name!r}, row {cache.residency.row(slot)} names it")
            if not cache.source.has(row):
                found.append(f"I5 row {row} is lent by {book.name!r}, host memory does not hold it")
    return found


def _addresses(cache: ExpertCache) -> list[str]:
    found: list[str] = []
    if cache.arena.base != cache.base:
        found.append(f"I6 the arena is at {cache.arena.base:#x}, it was opened at {cache.base:#x}")
    if not np.array_equal(cache.slots.off, cache.off):
        found.append("I6 the offsets of slots have changed")
    return found
