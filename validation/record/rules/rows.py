"""The rows that a record shows, computed again: inputs, FP64 with its bound, the true value, and the bits.

Only what challenged rows need is computed. Cases of one mode stand next to one another in a plan, so inputs and
reference of a case are made once and serve both tiers. Nothing here takes longer than the plan allows, which has been
compared with the record's cases before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.core.challenge import row_bytes
from validation.core.memo import Memo
from validation.core.recordable import Predictor, Reason, Recordable, Row, Shown
from validation.core.row_words import differing, said
from validation.record.evidence import input_digest, leaves
from validation.record.merkle import root, root_from
from validation.record.rules.committed import values
from validation.record.rules.origin import matching
from validation.record.rules.subject import Subject


@dataclass(frozen=True)
class Refusal:
    """One thing that is broken.

    Parameters
    ----------
    rule
        The short name of it.
    reason
        One line.
    """

    rule: str
    reason: str


@dataclass
class Recomputed:
    """Refusals of the rows of a record, and what was found.

    Parameters
    ----------
    subject
        The record.
    predictor
        What predicts bits; None leaves them out.
    every
        Whether all rows of a case are predicted and not those alone that are shown.

    Attributes
    ----------
    refusals
        What is broken.
    followed
        Readings that give the bits of all cases so far, None before the first.
    rows
        Rows that were shown and computed.
    bounded
        Those held against FP64.
    enclosed
        Outputs held against their true value.
    """

    subject: Subject
    predictor: Predictor | None
    every: bool = False
    refusals: list[Refusal] = field(default_factory=list)
    followed: set[str] | None = None
    rows: int = 0
    bounded: int = 0
    enclosed: int = 0
    _memo: Memo = field(default_factory=Memo)
    _shown: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.subject.record["challenge"]:
            self._shown.setdefault(item["case"], []).append(item)

    def case(self, index: int) -> list[Refusal]:
        """Compute the rows of case `index` again; returns what is wrong with them."""
        found = [Refusal(rule, f"case {index}: {reason}") for rule, reason in self._case(index)]
        self.refusals += found
        return found

    def _case(self, index: int) -> Iterator[Reason]:
        (path, case), item = self.subject.pairs[index], self.subject.cases[index]
        operation = self.subject.operation
        key = (case, path.mode)
        inputs = self._memo.get("inputs", key, lambda: operation.build(case, path.mode))
        digest = self._memo.get("digest", key, lambda: input_digest(operation.arrays(inputs)))
        if digest != item["inputs"]:
            yield "inputs", f"its inputs have digest {item['inputs'][:16]}, those of the case {digest[:16]}"
            return
        dtype = operation.dtype
        rows = [Row(shown["row"], values(shown, dtype), shown["proof"]) for shown in self._shown.get(index, [])]
        shown = Shown(self.subject, path, case, item, inputs, rows, self._memo)
        wrong = list(operation.numbers(shown))
        self.rows += len(rows)
        self.bounded += shown.bounded
        self.enclosed += shown.enclosed
        yield from wrong
        if not wrong and (self.predictor is not None or not operation.on_lanes):
            yield from self._bits(operation, shown)

    def _bits(self, operation: Recordable, shown: Shown) -> Iterator[Reason]:
        """Every bit as predicted, by one reading for all cases."""
        readings = operation.readings(self.subject)
        if not readings:
            return
        item = shown.item
        equal: set[str] = set()
        first: str | None = None
        for name in readings:
            said = self._difference(operation, shown, name)
            if said is None:
                equal.add(name)
            elif first is None:
                first = said
        claim = item["prediction"]
        # What was claimed of all bits is false for these; without a claim they are merely not those of the card.
        rule = "prediction" if claim is not None and claim["differing"] == 0 else "bits"
        if not equal:
            assert first is not None
            yield rule, first
            return
        if rule == "prediction" and not set(claim["readings"]) <= equal:
            wrong = sorted(set(claim["readings"]) - equal)[0]
            yield rule, f"it claims the bits of {wrong}, these are of {' and '.join(sorted(equal))}"
            return
        before = self.followed
        if before is None:  # vectors of the tensor core have been asked already
            told = operation.on_lanes and self.subject.arithmetic
            before = matching(self.subject) if told else set(readings)
        self.followed = before & equal
        if before and not self.followed:
            yield "bits", f"it follows {' and '.join(sorted(equal))}, what came before {' and '.join(sorted(before))}"

    def _difference(self, operation: Recordable, shown: Shown, reading: str) -> str | None:
        """The first bit in which the rows differ from those of a reading; None when there is none."""
        path, item = shown.path.name, shown.item
        count = item["rows"]
        every = self.every and operation.affordable(shown.case)
        numbers = np.arange(count) if every else np.array([row.row for row in shown.rows], dtype=np.int64)
        due = operation.predict(reading, self.predictor, shown, numbers)
        for row in shown.rows:
            want = due[int(np.searchsorted(numbers, row.row))]
            place = f"row {row.row} ({operation.place(shown.case, row.row)})"
            if row.got is None:
                data = row_bytes(path, item["case"], row.row, want)
                if root_from(data, row.row, count, row.proof) != item["output"]:
                    return f"{place} is another than {reading} gives: the case's output root does not hold that one"
                continue
            differs = differing(row.got, want)
            if len(differs):
                at, word = int(differs[0]), "bits " if operation.dtype == np.float32 else ""
                return (
                    f"{place} differs in {len(differs)} of {len(want)} outputs;"
                    f" {operation.axis} {at} has {word}{said(row.got[at])}, {reading} gives {said(want[at])}"
                )
        if every and root(leaves(path, str(item["case"]), due)) != item["output"]:
            return f"the rows that are shown have the bits of {reading}, others of its {count} do not"
        return None
