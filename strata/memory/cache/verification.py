"""Whether slots hold the bytes of their experts, compared on the card; which slots are looked at; and whose bytes lie
in a slot that differs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from strata import switches
from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena
from strata.memory.cache.slots import Slots
from strata.memory.cache.source import ExpertSource
from strata.memory.driver.driver import DriverError
from strata.memory.driver.errors import Fatal, fatal_if_refused

#: Bytes around the first wrong one that are compared before whole experts are.
GLANCE = 16


class Verified(NamedTuple):
    """What was compared and found equal.

    Parameters
    ----------
    slots
        How many slots.
    of
        How many there were to choose from.
    nbytes
        Bytes, counted by the card.
    """

    slots: int
    of: int
    nbytes: int


class WrongBytes(Fatal):
    """A slot differs from its expert.

    Parameters
    ----------
    expert
        (layer, expert) whose bytes the slot should hold.
    slot
        The slot.
    offset
        The place of the first wrong byte in the slot.
    expected, got
        That byte on the host and on the card.
    lies
        (layer, expert) whose bytes the slot holds; None when they are no other expert's, or could not be read again.
    """

    def __init__(
        self,
        expert: tuple[int, int],
        slot: int,
        offset: int,
        expected: int,
        got: int,
        lies: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            f"expert {expert} in slot {slot}: byte {offset} is {got:#04x}, expected {expected:#04x}"
            + ("" if lies is None else f"; the bytes of expert {lies} lie there")
        )
        self.expert, self.slot, self.offset, self.expected, self.got = expert, slot, offset, expected, got
        self.lies = lies


def verifies_all(environ: Mapping[str, str] | None = None) -> bool:
    """Whether every byte of a slot is compared before its row is promoted.

    This is the one place that reads the switch: whoever gives slots back and is not told `verify_all` asks here.

    Parameters
    ----------
    environ
        The variables; None for those of this process.
    """
    return switches.read(os.environ if environ is None else environ).value(switches.VERIFY_RECLAIM) == "1"


def sample(slots: Slots, pairs: Sequence[tuple[int, int]], boundaries: Iterable[int]) -> list[tuple[int, int]]:
    """Pairs worth verifying: the first, the last, and those next to each boundary.

    Next to a boundary are the slot that holds the byte before it and the one that holds the byte at it; a slot that
    straddles it is both.

    Parameters
    ----------
    slots
        The slots.
    pairs
        (row, slot), in the order of their slots.
    boundaries
        Offsets in the arena.
    """
    if not pairs:
        return []
    chosen = {pairs[0][1], pairs[-1][1]}
    for boundary in boundaries:
        chosen |= {slot for slot in (slots.at(boundary - 1), slots.at(boundary)) if slot is not None}
    return [pair for pair in pairs if pair[1] in chosen]


def ranges(
    arena: Arena, slots: Slots, source: ExpertSource, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, np.ndarray]]:
    """Where the slots of some pairs begin, and what they must hold.

    Parameters
    ----------
    arena
        Where the slots lie.
    slots
        The slots.
    source
        Every expert's bytes.
    pairs
        (row, slot).

    Returns
    -------
    list of (int, uint8 array)
        Address and bytes of each pair.

    Raises
    ------
    StrataError
        For a slot outside the arena, and as the source.
    """
    first, last = arena.address(0), arena.reserved
    starts = slots.off[[slot for _, slot in pairs]].tolist()
    if starts and not 0 <= min(starts) <= max(starts) < last:
        raise StrataError(f"slots at {min(starts)} to {max(starts)}: expected inside the arena of {last} bytes")
    return [(first + start, source.blob(row)) for start, (row, _) in zip(starts, pairs, strict=True)]


def verify(
    arena: Arena,
    slots: Slots,
    source: ExpertSource,
    pairs: Sequence[tuple[int, int]],
    of: int,
    compared: Sequence[tuple[int, np.ndarray]] | None = None,
) -> Verified:
    """Compare every byte of some slots with the host's; copies to them must have landed.

    Parameters
    ----------
    arena
        Where the slots lie.
    slots
        The slots.
    source
        Every expert's bytes.
    pairs
        (row, slot) of those to compare.
    of
        How many pairs there were to choose from.
    compared
        `ranges` of the pairs, when they were made before.

    Raises
    ------
    WrongBytes
        For the first slot that differs.
    Fatal
        When fewer bytes were compared than there are, or the driver refuses: then what the slots hold is unknown.
    """
    if not pairs:
        return Verified(0, of, 0)
    compared = ranges(arena, slots, source, pairs) if compared is None else compared
    with fatal_if_refused("reading slots back, what they hold is unknown"):
        found = arena.driver.compare_all(compared)
    if found.index is not None:
        row, slot = pairs[found.index]
        lies = None
        with suppress(DriverError):  # what is known is said, whether or not the slot can be read again
            address, blob = compared[found.index]
            lies = identify_slot(source, row, arena.driver.copy_out(address, blob.size), found.offset)
        raise WrongBytes(source.geometry.expert(row), slot, found.offset, found.expected, found.got, lies)
    expected = sum(blob.size for _, blob in compared)
    if found.compared != expected:
        raise Fatal(f"reading slots back: {found.compared} bytes were compared, expected {expected}")
    return Verified(len(pairs), of, found.compared)


def identify_slot(source: ExpertSource, row: int, held: np.ndarray, offset: int) -> tuple[int, int] | None:
    """Whose bytes lie in a slot that should hold another expert's.

    An expert of another size counts when it agrees as far as both go. Of several equal experts the first one is named.

    Parameters
    ----------
    source
        Every expert's bytes.
    row
        The row of the expert that the slot should hold.
    held
        uint8, what the slot holds.
    offset
        The place of its first wrong byte.

    Returns
    -------
    (int, int) or None
        Layer and expert; None when they are no expert's.
    """
    near = slice(offset, offset + GLANCE)
    for other in range(source.geometry.rows):
        if other == row or not source.has(other) or source.geometry.blob(other) <= offset:
            continue
        blob = source.blob(other)
        both = min(blob.size, held.size)
        # Cut to what both have, so that a glance at the end is no shorter on one side.
        if np.array_equal(blob[near][: both - offset], held[near][: both - offset]) and np.array_equal(
            blob[:both], held[:both]
        ):
            return source.geometry.expert(other)
    return None
