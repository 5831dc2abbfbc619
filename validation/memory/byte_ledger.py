"""The byte ledger: what every byte of the cache's memory was before a loan, meanwhile, and after it.

A slot's digest is the SHA-256 of its expert's bytes on the card. Before: of every slot, and of the residency table
beside them. Meanwhile: of every slot that stayed, and of the table, while another process has written poison over as
many bytes as were lent. After: of every slot again, and of the table. Empty slots have no digest: what they hold is
nobody's. `ledger_check` makes all of it again without a card.

A ledger is a file of its own and no part of a parity record: that record's schema names all its fields and admits no
others, and a record that was accepted must stay valid byte for byte. The form is the same: canonical JSON, named by the
SHA-256 of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import strata
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.residency import MISS
from strata.memory.loan.lending import Lending
from validation.host import whole_file
from validation.memory.borrower import Borrower
from validation.memory.ledger_check import check
from validation.memory.ledger_form import SCHEMA, digest, sources
from validation.record.canonical import decode, encode, name_of

__all__ = ["check", "digest", "make", "sources", "write"]


def make(
    cache: ExpertCache, lending: Lending, mib: int, borrow: Callable[[int], Borrower], provenance: Mapping[str, str]
) -> dict[str, Any]:
    """LEND `mib`, let a borrower take and write as much, RECLAIM, and return the ledger.

    cache: all of it is mapped; lending: verifies every byte; borrow: a borrower of so many bytes, that has written them
    all. Raises what LEND and RECLAIM raise.
    """
    before = _slots(cache, len(cache.slots))
    beside = _beside(cache)
    rows = {slot: row for row, slot in cache.residency.resident(0)}
    lent = lending.lend(mib)
    assert lending.loan is not None
    first = lending.loan.first
    borrower = borrow(lent.mib << 20)
    try:
        meanwhile, beside_meanwhile = _slots(cache, cache.usable_slots()), _beside(cache)
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
        "arena": {"granularity": cache.driver.granularity(), "piece": cache.arena.sizes[0]},
        "slots": [
            {
                "offset": int(cache.slots.off[slot]),
                "layer": int(cache.slots.layers[slot]),
                "row": rows.get(slot, MISS),
                "before": before[slot],
                "meanwhile": meanwhile[slot] if slot < len(meanwhile) else "",
                "after": after,
            }
            for slot, after in enumerate(_slots(cache, len(cache.slots)))
        ],
        "beside": {"before": beside, "meanwhile": beside_meanwhile, "after": _beside(cache)},
        "lent": {"asked": mib, "first": first, "mib": lent.mib, "experts": lent.experts, "borrowed": borrower.nbytes},
        "reclaimed": {"mib": back.mib, "experts": back.experts, "compared": lending.verified.nbytes},
    }


def write(ledger: Mapping[str, Any], directory: FilePath) -> FilePath:
    """Write a ledger as `<sha256>.json`, whole or not at all. Raises StrataError when it cannot be written."""
    data = encode(dict(ledger))
    decode(data)  # what a reader would refuse is not written
    file = directory / f"{name_of(data)}.json"
    whole_file.write(file, data)
    return file


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
