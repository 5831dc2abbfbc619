"""Whether a byte ledger says what it must. Whatever follows from its geometry, offsets and rows is made again.

That is: the offsets of all slots, which slots LEND takes and how many MiB, every expert's digest, the residency table
before, during and after the loan, and every count. The sources are those of this checkout. What remains the sender's
word, because digests can be made without a card: that they were read from the device that is named, and that another
process wrote over the memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import strata
from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB, cut, tail
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.pattern import pattern
from strata.memory.cache.residency import MISS
from strata.memory.cache.slots import ANY_LAYER, SLOT_ALIGN, Slots
from validation.memory.ledger_form import digest, formed, sources
from validation.record.canonical import name_of


def check(ledger: Any) -> list[str]:
    """What is wrong with a ledger; empty when it claims, of every slot, what it must. Raises LedgerError for what is
    none."""
    ledger = formed(ledger)
    found = _code(ledger)
    try:
        geometry = ExpertGeometry(
            ledger["geometry"]["layers"], ledger["geometry"]["experts"], tuple(ledger["geometry"]["blobs"])
        )
        slots = _slots(ledger["slots"], geometry)
        first, mib = _loan(ledger, slots)
    except StrataError as error:
        return [*found, str(error)]
    entries = ledger["slots"]
    for number, (entry, offset) in enumerate(zip(entries, slots.off[:-1].tolist(), strict=True)):
        if entry["offset"] != offset:
            found.append(f"slot {number}: at offset {entry['offset']}, expected {offset}")
        found += [f"slot {number}: {line}" for line in _slot(entry, number >= first, geometry)]
    rows = {number: entry["row"] for number, entry in enumerate(entries) if entry["row"] != MISS}
    if len(set(rows.values())) != len(rows):
        found.append("an expert is in two slots")
    staying = {number: row for number, row in rows.items() if number < first}
    for when, expected in (("before", rows), ("meanwhile", staying), ("after", rows)):
        if ledger["beside"][when] != table_digest(geometry, expected):
            found.append(f"the residency table {when}: not that of the slots' rows")
    lent = [row for number, row in rows.items() if number >= first]
    counts = {
        ("lent", "first"): first,
        ("lent", "mib"): mib,
        ("lent", "experts"): len(lent),
        ("lent", "borrowed"): mib * MiB,
        ("reclaimed", "mib"): mib,
        ("reclaimed", "experts"): len(lent),
        ("reclaimed", "compared"): sum(geometry.blob(row) for row in lent if row < geometry.rows),
    }
    for (part, name), right in counts.items():
        if ledger[part][name] != right:
            found.append(f"{part} {name} {ledger[part][name]}, expected {right}")
    return found


def misnamed(stem: str, data: bytes) -> list[str]:
    """What is wrong with a file's name: it is the SHA-256 of its bytes."""
    name = name_of(data)
    return [] if stem == name else [f"the file is named {ascii(stem)[1:-1][:80]}, expected {name}"]


def table_digest(geometry: ExpertGeometry, rows: Mapping[int, int]) -> str:
    """SHA-256 of the residency table in which these slots hold these rows, as it lies on the device: int32 [rows]."""
    table = np.full(geometry.rows, MISS, "<i4")
    for slot, row in rows.items():
        if row < geometry.rows:
            table[row] = slot
    return digest(table.tobytes())


def _code(ledger: Mapping[str, Any]) -> list[str]:
    """A ledger of another version is checked there."""
    found = []
    if ledger["project"] != strata.__version__:
        found.append(f"version {ascii(ledger['project'])[1:-1][:40]}, this checkout is {strata.__version__}")
    given, here = ledger["sources"], sources()
    others = sorted(name for name in {*given, *here} if given.get(name) != here.get(name))
    if others:
        found.append(f"{len(others)} sources differ from this checkout's, the first is {ascii(others[0])[1:-1][:80]}")
    return found


def _slots(entries: list[dict[str, Any]], geometry: ExpertGeometry) -> Slots:
    """The slots that these layers give: all of one size, or each cut to its layer's experts. Raises StrataError."""
    layers = np.array([entry["layer"] for entry in entries], np.int32)
    if bool(np.any(layers >= geometry.layers)) or (bool(np.any(layers == ANY_LAYER)) and bool(np.any(layers >= 0))):
        raise StrataError(f"layers of the slots: expected all {ANY_LAYER}, or each 0 to {geometry.layers - 1}")
    if layers[0] == ANY_LAYER:
        sizes = [geometry.max_blob] * len(entries)
    else:
        sizes = [-(-geometry.blobs[layer] // SLOT_ALIGN) * SLOT_ALIGN for layer in layers]
    return Slots(np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]), layers)


def _loan(ledger: Mapping[str, Any], slots: Slots) -> tuple[int, int]:
    """(first slot, MiB) of the loan that was asked for. Raises StrataError when LEND would have refused it."""
    arena, asked = ledger["arena"], ledger["lent"]["asked"]
    last = tail(cut(slots.nbytes, arena["piece"], arena["granularity"]), asked * MiB)
    if last is None or slots.within(last.boundary) == 0:
        raise StrataError(f"{asked} MiB were asked for, expected less than the whole cache")
    return slots.within(last.boundary), last.nbytes // MiB


def _slot(entry: Mapping[str, Any], lent: bool, geometry: ExpertGeometry) -> list[str]:
    row = entry["row"]
    if row == MISS:
        empty = not (entry["before"] or entry["meanwhile"] or entry["after"])
        return [] if empty else ["it has a digest, but no expert"]
    if row >= geometry.rows:
        return [f"row {row}, expected at most {geometry.rows - 1}"]
    expert = geometry.expert(row)
    if entry["layer"] not in (ANY_LAYER, expert[0]):
        return [f"expert {expert} in a slot of layer {entry['layer']}"]
    right = digest(pattern(row, geometry.blob(row)))
    found = [
        f"{when} the loan: not the bytes of expert {expert}" for when in ("before", "after") if entry[when] != right
    ]
    if lent and entry["meanwhile"]:
        found.append("it has a digest during the loan, but it was lent")
    if not lent and entry["meanwhile"] != right:
        found.append(f"during the loan: not the bytes of expert {expert}")
    return found
