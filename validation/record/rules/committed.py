"""Whether what is shown is what was committed to: the root, the rows that it asks for, and their proofs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from validation.record import merkle
from validation.record.canonical import encode
from validation.record.challenge import chosen_rows, row_bytes
from validation.record.rules.subject import Subject


def root(subject: Subject) -> Iterator[str]:
    """The root is the one over all cases, verdicts and outputs included."""
    found = merkle.root([merkle.leaf(encode(case)) for case in subject.cases])
    if found != subject.record["root"]:
        yield f"the cases give root {found[:16]}, the record says {subject.record['root'][:16]}"


def challenge(subject: Subject) -> Iterator[str]:
    """The rows shown are those that the root asks for, in its order."""
    asked = chosen_rows(subject.record["root"], [case["rows"] for case in subject.cases])
    shown = [(item["case"], item["row"]) for item in subject.record["challenge"]]
    if asked == shown:
        return
    for (case, row), (other, place) in zip(asked, shown, strict=False):
        if (case, row) != (other, place):
            where = f"row {place} is shown" if other == case else f"row {place} of case {other} is shown"
            yield f"row {row} of case {case} was asked, {where}"
            return
    if len(shown) < len(asked):
        case, row = asked[len(shown)]
        yield f"row {row} of case {case} was asked and is not shown"
    else:
        case, row = shown[len(asked)]
        yield f"row {row} of case {case} is shown and was not asked"


def proofs(subject: Subject) -> Iterator[str]:
    """Every row shown is a leaf, at its place, of the output root of its case."""
    for item in subject.record["challenge"]:
        case = subject.cases[item["case"]]
        data = row_bytes(case["path"], case["case"], item["row"], values(item))
        if merkle.root_from(data, item["row"], case["rows"], item["proof"]) != case["output"]:
            yield f"row {item['row']} of case {item['case']} is not the one that the case's output root holds"


def values(item: dict[str, str]) -> np.ndarray:
    """float32 [256]: the bits of a row that is shown, little endian, whatever they are."""
    return np.frombuffer(bytes.fromhex(item["bits"]), dtype="<f4")
