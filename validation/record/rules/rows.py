"""The rows that a record shows, computed again: inputs, FP64 with its bound, the true value, and the bits.

Only the queries of challenged rows are computed. Cases of one mode stand next to one another in a plan, so inputs and
reference of a case are made once and serve both tiers. Nothing here takes longer than the plan allows, which has been
compared with the record's cases before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strata.executors.base import Executor, StrataError
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from validation.attention_case import Memo
from validation.cases import Case
from validation.certificate import NotFiniteError, enclose
from validation.enclosure import certificate, certified
from validation.operations import ATTENTION
from validation.path_bound import kernel_bound, reference_bound
from validation.pools import Inputs, build
from validation.record.canonical import float_of
from validation.record.evidence import input_digest, leaves
from validation.record.merkle import root
from validation.record.rules.committed import values
from validation.record.rules.origin import matching
from validation.record.rules.subject import Subject
from validation.reference.prompt_attention import Reference, attend
from validation.sampling import rows_of, sampled
from validation.verdict import Verdict, float32_bits, within

#: The slack that is told is of another machine's FP64, whose bound may differ in its last places: far above the
#: rounding of the few thousand operations of a bound (each 2**-53), far below anything that matters in a share.
SLACK_ROUNDING = 2.0**-30


class CannotCheckError(StrataError):
    """The verifier is at fault, or lacks something; it says nothing of the record."""


@dataclass(frozen=True)
class Refusal:
    """rule: short name of what is broken; reason: one line."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Row:
    """One row that is shown. row: its number in the case; query, head: its place; got: float32 [256]."""

    row: int
    query: int
    head: int
    got: np.ndarray


@dataclass
class Recomputed:
    """Refusals of all rows, and what was found.

    every: predict all rows of a case and not those alone that are shown; followed: readings that give the bits of all
    cases so far, None before the first.
    """

    subject: Subject
    predictor: Callable[[str], Executor] | None
    every: bool = False
    refusals: list[Refusal] = field(default_factory=list)
    followed: set[str] | None = None
    rows: int = 0
    enclosed: int = 0
    _memo: Memo = field(default_factory=Memo)
    _shown: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.subject.record["challenge"]:
            self._shown.setdefault(item["case"], []).append(item)

    def case(self, index: int) -> list[Refusal]:
        """Compute the rows of case `index` again; returns what is wrong with them."""
        (path, case), item = self.subject.pairs[index], self.subject.cases[index]
        found = [Refusal(rule, f"case {index}: {reason}") for rule, reason in self._case(index, path, case, item)]
        self.refusals += found
        return found

    def _case(self, index: int, path: Path, case: Case, item: dict[str, Any]) -> Iterator[tuple[str, str]]:
        inputs: Inputs = self._memo.get("inputs", (case, path.mode), lambda: build(case, path.mode))
        digest = self._memo.get("digest", (case, path.mode), lambda: input_digest(inputs))
        if digest != item["inputs"]:
            yield "inputs", f"its inputs have digest {item['inputs'][:16]}, those of the case {digest[:16]}"
            return
        rows = [self._row(case, shown) for shown in self._shown.get(index, [])]
        self.rows += len(rows)
        wrong = list(self._numbers(path, case, item, inputs, rows))
        yield from wrong
        if not wrong and self.predictor is not None and self.subject.arithmetic:
            yield from self._bits(path, item, inputs, rows)

    def _row(self, case: Case, shown: dict[str, Any]) -> Row:
        query, head = divmod(shown["row"], case.n_head)
        return Row(shown["row"], query, head, values(shown))

    def _numbers(
        self, path: Path, case: Case, item: dict[str, Any], inputs: Inputs, rows: list[Row]
    ) -> Iterator[tuple[str, str]]:
        """Every element within its bound of FP64, and of the true value where that is enclosed."""
        queries = np.unique([row.query for row in rows])
        key = (case, path.mode, tuple(queries.tolist()))
        reference: Reference = self._memo.get(
            "reference", key, lambda: attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, queries)
        )
        own: np.ndarray = self._memo.get("own", key, lambda: reference_bound(inputs, reference))
        limit = kernel_bound(path, inputs, reference, own, self.subject.executor)  # type: ignore[arg-type]
        measured = set(sampled(inputs.widths).tolist())
        told = float_of(item["slack"]["bound"])
        for row in rows:
            at = int(np.searchsorted(queries, row.query)), row.head
            check = within("row", row.got, reference.out[at], limit[at] + own[at], axes=("dim",))
            if check.verdict is Verdict.VOID:
                raise CannotCheckError(f"{path.name} {case.brief()}: the verifier's own bound is void: {check.reason}")
            if not check.verdict.passes:
                yield "numbers", f"row {row.row} (query {row.query} head {row.head}): {check.reason}"
            elif row.query in measured and _above(row.got, reference.out[at], limit[at] + own[at], own[at], told):
                share = check.figures["slack"]
                yield "slack", f"row {row.row} uses {share:.6g} of its bound, the record says {told:.6g} at most"
        yield from self._true_value(path, case, inputs, reference, own, limit, rows)

    def _true_value(
        self,
        path: Path,
        case: Case,
        inputs: Inputs,
        reference: Reference,
        own: np.ndarray,
        limit: np.ndarray,
        rows: list[Row],
    ) -> Iterator[tuple[str, str]]:
        """The first row's worst element and one more, whose true value is enclosed by exact arithmetic."""
        if not rows:
            return
        row, queries = rows[0], reference.queries
        at = int(np.searchsorted(queries, row.query))
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(row.got.astype(np.float64) - reference.out[at, row.head])
        dims = sorted({int(np.argmax(np.where(np.isnan(error), np.inf, error))), row.row % len(error)})
        try:
            enclosures = enclose(inputs, row.query, row.head, dims, at)
        except NotFiniteError as said:
            raise CannotCheckError(f"{path.name} {case.brief()}: {said}") from said
        self.enclosed += len(enclosures)
        check = certificate(reference.out, own, enclosures)
        if not check.verdict.passes:
            raise CannotCheckError(f"{path.name} {case.brief()}: {check.reason}")
        got = reference.out.astype(np.float32)
        got[at, row.head] = row.got
        check = certified("numbers", got, limit, enclosures)
        if not check.verdict.passes:
            yield "numbers", f"row {row.row}: {check.reason}"

    def _bits(self, path: Path, item: dict[str, Any], inputs: Inputs, rows: list[Row]) -> Iterator[tuple[str, str]]:
        """Every bit as predicted, by one reading for all cases."""
        assert self.predictor is not None
        queries = np.arange(len(inputs.q)) if self.every else np.unique([row.query for row in rows])
        part = rows_of(inputs, queries)
        equal: set[str] = set()
        first: tuple[str, str] | None = None
        for name, _ in self.subject.arithmetic:
            due = ATTENTION[path.operation].run(self.predictor(name), path, part).out
            said = _difference(rows, queries, due, name)
            if said is None and self.every:
                text = str(item["case"])
                if root(leaves(path.name, text, due.reshape(-1, HEAD_DIM))) != item["output"]:
                    said = f"the rows that are shown have the bits of {name}, others of its {item['rows']} do not"
            if said is None:
                equal.add(name)
            elif first is None:
                first = (name, said)
        claim = item["prediction"]
        # What was claimed of all bits is false for these; without a claim they are merely not those of the card.
        rule = "prediction" if claim is not None and claim["differing"] == 0 else "bits"
        if not equal:
            assert first is not None
            yield rule, first[1]
            return
        if rule == "prediction" and not set(claim["readings"]) <= equal:
            wrong = sorted(set(claim["readings"]) - equal)[0]
            yield rule, f"it claims the bits of {wrong}, these are of {' and '.join(sorted(equal))}"
            return
        before = matching(self.subject) if self.followed is None else self.followed
        self.followed = before & equal
        if before and not self.followed:
            yield "bits", f"it follows {' and '.join(sorted(equal))}, what came before {' and '.join(sorted(before))}"


def _above(got: np.ndarray, want: np.ndarray, limit: np.ndarray, own: np.ndarray, told: float) -> bool:
    """Whether an element uses more of its bound than the record says any does.

    Two references differ by twice their own bound at most, so that much is left to the machine that told the slack.
    """
    error = np.abs(got.astype(np.float64) - want) - 2 * own
    return bool((error > told * limit * (1 + SLACK_ROUNDING)).any())


def _difference(rows: list[Row], queries: np.ndarray, due: np.ndarray, rule: str) -> str | None:
    """The first bit in which rows differ from what lanes gave for their queries; None when there is none."""
    for row in rows:
        want = due[int(np.searchsorted(queries, row.query)), row.head]
        differs = np.flatnonzero(row.got.view("<u4") != np.ascontiguousarray(want, dtype="<f4").view("<u4"))
        if len(differs):
            dim = int(differs[0])
            got = int(row.got.view("<u4")[dim])
            return (
                f"row {row.row} (query {row.query} head {row.head}) differs in {len(differs)} of {len(want)} outputs;"
                f" dim {dim} has bits {got:08x}, {rule} gives {float32_bits(want[dim])}"
            )
    return None
