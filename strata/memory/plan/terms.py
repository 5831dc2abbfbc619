"""What an engine takes from a card's free memory, but for cache and reserve, term by term."""

from __future__ import annotations

from dataclasses import dataclass

from strata.memory.plan.plan_request import GRANULARITY, Asked
from strata.memory.plan.shapes import MiB, ModelShape

#: Estimates, of the reference model: dense weights with recurrent state, verifier (window graphs and buffers), bytes;
#: the part of the head's rows that the draft head repeats.
DENSE, VERIFIER = 2400 * MiB, 40 * MiB
DRAFT_ROWS = (2, 5)
#: Keys of what is mapped by itself, each in whole granules.
MAPPED = ("H", "X", "D", "V")


@dataclass(frozen=True)
class Term:
    """Bytes that something takes. estimate: not counted from arrays."""

    key: str
    title: str
    nbytes: int
    estimate: bool = False


def terms(asked: Asked) -> tuple[Term, ...]:
    """In the order in which they are taken; the last one is the rounding of those that are mapped by themselves."""
    shape = asked.shape
    dense = DENSE * shape.layers * shape.hidden**2 // (ModelShape.layers * ModelShape.hidden**2)
    rows, of = DRAFT_ROWS
    kv = 0 if asked.stream_kv else shape.kv_bytes(asked.kv, asked.context)
    found = [
        Term("dense", "dense weights", dense if asked.dense is None else asked.dense, asked.dense is None),
        Term("kv", f"K and V of {asked.context:,} cells, {asked.kv}", kv),
        Term("H", f"H: output head, {shape.vocab:,} rows of {shape.head}", shape.head_bytes),
    ]
    if asked.mtp:
        found += [
            Term("X", f"X: {shape.experts} draft experts, {'/'.join(shape.mtp)}", shape.experts * shape.mtp_blob),
            Term("D", "D: draft head", shape.head_bytes * rows // of, True),
        ]
    found.append(Term("V", "V: verifier", VERIFIER, True))
    more = sum(-term.nbytes % GRANULARITY for term in found if term.key in MAPPED)
    return (*found, Term("rounding", f"their rounding up to {GRANULARITY // MiB} MiB each", more))
