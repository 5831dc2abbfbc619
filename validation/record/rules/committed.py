"""Whether what is shown is what was committed to: the root, the rows that it asks for, and their proofs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from validation.core.challenge import row_bytes
from validation.core.row_words import DIGITS, of_bytes
from validation.record import merkle
from validation.record.canonical import encode
from validation.record.rules.subject import Subject


def root(subject: Subject) -> Iterator[str]:
    """The root is the one over all cases, verdicts and outputs included."""
    found = merkle.root([merkle.leaf(encode(case)) for case in subject.cases])
    if found != subject.record["root"]:
        yield f"the cases give root {found[:16]}, the record says {subject.record['root'][:16]}"


def challenge(subject: Subject) -> Iterator[str]:
    """The rows shown are those that the root asks for, in its order."""
    seed, due = subject.record["root"], []
    for place, (_, of) in enumerate(subject.pairs):
        due += [(place, each) for each in subject.operation.asked(of, seed, place)]
    asked = [(index, each.row) for index, each in due]
    shown = [(item["case"], item["row"]) for item in subject.record["challenge"]]
    if asked == shown:
        for (index, each), item in zip(due, subject.record["challenge"], strict=True):
            width = subject.operation.width(subject.pairs[index][1]) if each.bits else 0
            digits = len(item.get("bits", ""))
            if digits != width * DIGITS:
                expected = f"{width * DIGITS} hex digits of its bits" if width else "its proof alone"
                yield f"row {each.row} of case {index} is shown by {digits} hex digits, expected {expected}"
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
        got = values(item, subject.operation.dtype)
        if got is None:
            continue  # the proof is held against the row's own bits, once they are computed
        data = row_bytes(case["path"], case["case"], item["row"], got)
        if merkle.root_from(data, item["row"], case["rows"], item["proof"]) != case["output"]:
            yield f"row {item['row']} of case {item['case']} is not the one that the case's output root holds"


def values(item: dict[str, str], dtype: np.dtype) -> np.ndarray | None:
    """The words of a row that is shown, of its operation's type, whatever they are; None for one shown by its proof."""
    return of_bytes(bytes.fromhex(item["bits"]), dtype) if "bits" in item else None
