"""The byte ledger: what every byte of the cache's memory was before a loan, meanwhile, and after it.

A slot's digest is the SHA-256 of its expert's bytes on the card. Before: of every slot, and of the residency table
beside them. Meanwhile: of every slot that stayed, while another process has written poison over at least as many bytes
as were lent. After: of every slot again, and of the table. Empty slots are left out: what they hold is nobody's.
The bytes of an expert follow from its number (`strata.memory.pattern`), so its digest can be made again without a card:
`check` does, and refuses a ledger in which a slot's digest, before or after, is not its expert's. So does the table's,
from the slots. A ledger of nothing (no slot, no expert lent, no byte compared) claims nothing and is refused.

A ledger is a file of its own and no part of a parity record: that record's schema names all its fields and admits no
others, and a record that was accepted must stay valid byte for byte. The form is the same: canonical JSON, named by the
SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

import strata
from strata.executors.base import KERNELS, StrataError
from strata.memory.cache import ExpertCache
from strata.memory.geometry import ExpertGeometry
from strata.memory.lending import Lending
from strata.memory.pattern import pattern
from strata.memory.residency import MISS
from validation.memory.borrower import Borrower
from validation.record.canonical import decode, encode, name_of

SCHEMA = "strata-memory-ledger/1"
_MEMORY = KERNELS.parent / "memory"


def make(
    cache: ExpertCache, lending: Lending, mib: int, borrow: Callable[[int], Borrower], provenance: Mapping[str, str]
) -> dict[str, Any]:
    """LEND `mib`, let a borrower take and write as much, RECLAIM, and return the ledger.

    lending: verifies every byte; borrow: a borrower of at least so many bytes, that has written them all. Raises what
    LEND and RECLAIM raise.
    """
    before = _slots(cache, len(cache.slots))
    beside = _beside(cache)
    rows = {slot: row for row, slot in cache.residency.resident(0)}
    lent = lending.lend(mib)
    assert lending.loan is not None
    first = lending.loan.first
    borrower = borrow(lent.mib << 20)
    try:
        meanwhile = _slots(cache, cache.usable_slots())
    finally:
        borrower.leave()
    back = lending.reclaim()
    return {
        "schema": SCHEMA,
        "project": strata.__version__,
        "provenance": dict(provenance),
        "sources": sources(),
        "geometry": {
            "layers": cache.geometry.layers,
            "experts": cache.geometry.experts,
            "blobs": [*cache.geometry.blobs],
        },
        "slots": [
            {
                "offset": int(cache.slots.off[slot]),
                "row": rows.get(slot, MISS),
                "before": before[slot],
                "meanwhile": meanwhile[slot] if slot < len(meanwhile) else "",
                "after": after,
            }
            for slot, after in enumerate(_slots(cache, len(cache.slots)))
        ],
        "beside": {"before": beside, "after": _beside(cache)},
        "lent": {"first": first, "mib": lent.mib, "experts": lent.experts, "borrowed": borrower.nbytes},
        "reclaimed": {"mib": back.mib, "experts": back.experts, "compared": lending.verified.nbytes},
    }


def check(ledger: Mapping[str, Any]) -> list[str]:
    """What is wrong with a ledger; empty when it claims, of every slot, what it must."""
    found: list[str] = []
    if ledger.get("schema") != SCHEMA:
        return [f"schema {ledger.get('schema')!r}, expected {SCHEMA!r}"]
    shape = ledger["geometry"]
    geometry = ExpertGeometry(shape["layers"], shape["experts"], tuple(shape["blobs"]))
    first, lent = ledger["lent"]["first"], 0
    if not 0 < first < len(ledger["slots"]):
        found.append(
            f"slot {first} of {len(ledger['slots'])} is the first that was lent, expected one that is not slot 0"
        )
    found += [
        f"{name} is {ledger[part][name]}, expected more than nothing"
        for part, name in (("lent", "mib"), ("lent", "experts"), ("reclaimed", "compared"))
        if ledger[part][name] < 1
    ]
    strangers = [entry["row"] for entry in ledger["slots"] if not MISS <= entry["row"] < geometry.rows]
    if strangers:
        return [*found, f"row {strangers[0]}, expected one of {geometry.rows}"]
    for slot, entry in enumerate(ledger["slots"]):
        if entry["after"] != entry["before"]:
            found.append(f"slot {slot}: other bytes after the loan than before it")
        if slot < first and entry["meanwhile"] != entry["before"]:
            found.append(f"slot {slot}: other bytes during the loan than before it")
        if slot >= first and entry["meanwhile"]:
            found.append(f"slot {slot}: it has a digest during the loan, but it was lent")
        row = entry["row"]
        if row == MISS:
            continue
        lent += geometry.blob(row) if slot >= first else 0
        blob = pattern(row, geometry.blob(row))
        if entry["before"] != digest(blob):
            found.append(f"slot {slot}: not the bytes of expert {geometry.expert(row)}")
    rows = [entry["row"] for entry in ledger["slots"] if entry["row"] != MISS]
    if len(rows) != len(set(rows)):
        found.append("an expert is in two slots")
    if sum(1 for entry in ledger["slots"][first:] if entry["row"] != MISS) != ledger["lent"]["experts"]:
        found.append(f"{ledger['lent']['experts']} experts were lent, its slots say otherwise")
    if (
        ledger["reclaimed"]["experts"] != ledger["lent"]["experts"]
        or ledger["reclaimed"]["mib"] != ledger["lent"]["mib"]
    ):
        found.append("what came back is not what was lent")
    if ledger["reclaimed"]["compared"] != lent:
        found.append(f"{ledger['reclaimed']['compared']} bytes were compared, expected {lent}")
    if ledger["lent"]["borrowed"] < ledger["lent"]["mib"] << 20:
        found.append(f"the borrower wrote {ledger['lent']['borrowed']} bytes, expected {ledger['lent']['mib']} MiB")
    if ledger["beside"]["before"] != ledger["beside"]["after"]:
        found.append("bytes beside the slots have changed")
    table = np.full(geometry.rows, MISS, "<i4")
    for slot, entry in enumerate(ledger["slots"]):
        if entry["row"] != MISS:
            table[entry["row"]] = slot
    if ledger["beside"]["before"] != digest(table.view(np.uint8)):
        found.append("the table beside the slots is not what the slots say")
    return found


def write(ledger: Mapping[str, Any], directory: FilePath) -> FilePath:
    """Write a ledger as `<sha256>.json`, whole or not at all. Raises StrataError when it cannot be written."""
    data = encode(dict(ledger))
    decode(data)  # what a reader would refuse is not written
    file, draft = directory / f"{name_of(data)}.json", directory / f".ledger.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(file)
    except OSError as error:
        raise StrataError(f"{file} cannot be written: {error.strerror}") from error
    return file


def digest(data: Any) -> str:
    """SHA-256 of a uint8 array, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def sources() -> dict[str, str]:
    """SHA-256 of the code that a ledger is about, by path below `strata`."""
    files = [*sorted(_MEMORY.glob("*.py")), KERNELS / "compare_bytes.cu", KERNELS / "compare_bytes.py"]
    return {file.relative_to(KERNELS.parent).as_posix(): digest(file.read_bytes()) for file in files}


def _slots(cache: ExpertCache, count: int) -> list[str]:
    """Digests of the experts in the first slots, empty for a slot that no row names."""
    found = []
    for slot in range(count):
        row = cache.residency.row(slot)
        address = cache.arena.address(int(cache.slots.off[slot]))
        found.append("" if row == MISS else digest(cache.driver.copy_out(address, cache.geometry.blob(row))))
    return found


def _beside(cache: ExpertCache) -> str:
    """Digest of the residency table."""
    return digest(cache.driver.copy_out(cache.residency.address, 4 * cache.geometry.rows))
