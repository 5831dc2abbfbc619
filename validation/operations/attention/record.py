"""Prompt attention in records: a row is one query and one query head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from validation.core.challenge import chosen
from validation.core.float_bits import float_of
from validation.core.recordable import (
    Asked,
    CannotCheckError,
    Checks,
    Claim,
    Examined,
    Launch,
    Predictor,
    Reason,
    Row,
    Shown,
)
from validation.core.told_slack import above
from validation.core.untrusted import short
from validation.core.verdict import Verdict, within
from validation.numerics.interval import certificate, certified
from validation.numerics.tensorcore_rules import readings
from validation.operations.attention import chain, far, metamorphic
from validation.operations.attention.bound import Limits, limits
from validation.operations.attention.bounds.prompt_attention import PUBLISHED_QUERIES
from validation.operations.attention.certificate import NotFiniteError, enclose
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.pools import Inputs, build, unchosen
from validation.operations.attention.reference import Reference, attend
from validation.operations.attention.sampling import rows_of, sampled
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import find

#: Checks that compare with a bound: they pass as WITHIN_BOUND, and the share of the bound is their slack.
BOUNDED = ("bound", "agreement", "gate 1", "gate 2", "baseline bound", "certificate", "certified")
PREDICTIONS = ("prediction", "baseline prediction")
TIMED = ("timed new", "timed old")


class Attention:
    """Bits depend on the tensor core's rule; lanes under it predict them."""

    on_lanes = True
    dtype = np.dtype(np.float32)
    axis = "dim"

    def parse(self, text: str) -> Case:
        return Case.parse(text)

    def rows(self, case: Case) -> int:
        return case.queries * case.n_head

    def width(self, case: Case) -> int:
        return HEAD_DIM

    def rows_said(self, case: Case) -> str:
        return f"{case.queries} queries x {case.n_head} heads"

    def place(self, case: Case, row: int) -> str:
        query, head = divmod(row, case.n_head)
        return f"query {query} head {head}"

    def matrix(self, out: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(out, dtype="<f4").reshape(-1, HEAD_DIM)

    def asked(self, case: Case, seed: str, index: int) -> list[Asked]:
        return [Asked(row) for row in chosen(seed, index, self.rows(case))]

    def build(self, case: Case, mode: str) -> Inputs:
        return build(case, mode)

    def arrays(self, inputs: Inputs) -> Mapping[str, np.ndarray | None]:
        pool = inputs.pool
        return {
            "q": inputs.q,
            "k": pool.k,
            "v": pool.v,
            "k_scale": pool.k_scale,
            "v_scale": pool.v_scale,
            "table": pool.table,
            "ids": inputs.ids,
            "steps": inputs.steps,
            **_index(inputs),
        }

    def kernels(self, path: Path, case: Case) -> list[Kernel]:
        """The one kernel of a prompt-attention path, and those of block selection where it chooses the ids."""
        return list(dict.fromkeys(one.kernel for one in self.launches(path, case, None)))

    def launches(self, path: Path, case: Case, multiprocessors: int | None) -> list[Launch]:
        """One block for each query and KV head, behind what chooses the ids."""
        made = ATTENTION[path.operation].kernels
        assert made is not None
        own = [Launch(kernel, (case.queries, case.n_head_kv, 1)) for kernel in made(path, case.group)]
        return [*chain.fed_by(path, case), *own]

    def checks(self, path: Path, case: Case, card: bool) -> Checks:
        predictions = (*PREDICTIONS, *(f"{name} of ids" for name in PREDICTIONS if chain.selects(case)))
        together = (TIMED, predictions) if card else (TIMED,)
        whole = self.rows(case) * HEAD_DIM
        needed = asked(path, case) | set(() if card else far.names(case.recipe))
        return Checks(frozenset(needed), together, frozenset(BOUNDED), ("prediction",), whole)

    def claim(self, checks: Sequence[Mapping[str, Any]]) -> Claim | None:
        for check in checks:
            figures = check["figures"]
            if check["name"] == "prediction" and "compared" in figures:
                alone = [figures["rule"]] if figures["differing"] == 0 else []
                return Claim(tuple(figures.get("readings", alone)), figures["compared"], figures["differing"])
        return None

    def claims(self, subject: Examined) -> Iterator[str]:
        """What is said of predicted bits fits the check, the rows and the readings of the card."""
        known = readings(subject.executor)
        common: set[str] | None = None
        for index, ((_, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
            claim = item["prediction"]
            verdict = dict(item["checks"]).get("prediction")
            if claim is None:
                if verdict in ("EXACT", "EXCEEDS"):
                    yield f"case {index}: prediction is {verdict}, and how many bits were compared is not said"
                continue
            if not subject.card:
                yield f"case {index} claims a prediction, lanes predict nothing"
                continue
            compared, differing = claim["compared"], claim["differing"]
            per_query = case.n_head * HEAD_DIM
            if compared % per_query or not 0 < compared <= case.queries * per_query:
                yield f"case {index} compared {compared} outputs, expected 1 to {case.queries} queries of {per_query}"
            if verdict is None or (verdict == "EXACT") != (differing == 0) or differing > compared:
                said = f"{differing} of {compared} outputs differ"
                yield f"case {index} says that {said}, and its prediction is {verdict or 'not asked'}"
            followed = set(claim["readings"])
            if not followed <= set(known):
                odd = short(", ".join(sorted(followed - set(known))))
                yield f"case {index} followed {odd}, which is no reading of this card"
            elif len(known) > 1 and differing == 0:
                if not followed:
                    yield f"case {index} has all bits as predicted, and by which reading is not said"
                common = followed if common is None else common & followed
        if common is not None and not common:
            yield "no one reading of the card explains all cases"

    def numbers(self, shown: Shown) -> Iterator[Reason]:
        """Every element within its bound of FP64, and of the true value where that is enclosed. Only the queries of
        rows that are shown are computed."""
        path, case, inputs = shown.path, shown.case, shown.inputs
        places = [divmod(row.row, case.n_head) for row in shown.rows]
        queries = np.unique([query for query, _ in places])
        key = (case, path.mode, tuple(queries.tolist()))
        reference: Reference = shown.memo.get(
            "reference", key, lambda: attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, queries)
        )
        limit = limits(path, inputs, reference, shown.subject.executor, shown.memo, key, based=False)
        measured = set(sampled(inputs.widths).tolist())
        told = float_of(shown.item["slack"]["bound"])
        for row, (query, head) in zip(shown.rows, places, strict=True):
            got, at = _got(row), (int(np.searchsorted(queries, query)), head)
            check = within("row", got, reference.out[at], limit.path[at], axes=("dim",))
            if check.verdict is Verdict.VOID:
                raise CannotCheckError(f"{path.name} {case.brief()}: the verifier's own bound is void: {check.reason}")
            shown.bounded += 1
            if not check.verdict.passes:
                yield "numbers", f"row {row.row} ({self.place(case, row.row)}): {check.reason}"
            elif query in measured and above(got, reference.out[at], limit.path[at], limit.own[at], told):
                share = check.figures["slack"]
                yield "slack", f"row {row.row} uses {share:.6g} of its bound, the record says {told:.6g} at most"
        yield from _true_value(shown, reference, limit)

    def readings(self, subject: Examined) -> list[str]:
        return [name for name, _ in subject.arithmetic]

    def affordable(self, case: Case) -> bool:
        return True

    def predict(self, reading: str, predictor: Predictor | None, shown: Shown, rows: np.ndarray) -> np.ndarray:
        """The rows of whole queries, of which lanes compute those that are asked for."""
        assert predictor is not None
        heads = shown.case.n_head
        queries = np.unique(rows // heads)
        given = unchosen(rows_of(shown.inputs, queries))
        out = ATTENTION[shown.path.operation].run(predictor(reading), shown.path, given).out
        found: np.ndarray = self.matrix(out)[np.searchsorted(queries, rows // heads) * heads + rows % heads]
        return found


def asked(path: Path, case: Case) -> set[str]:
    """The checks that every run of a case on a path is asked."""
    names = {"data", "written", "guards", "witness", "repeat", "certificate", "bound", "certified", "self"}
    if path.baseline:
        names |= {"baseline guards", "baseline witness", "baseline bound"}
        names |= {"gate 1", "gate 2"} if case.queries >= PUBLISHED_QUERIES else {"agreement"}
    if chain.selects(case):
        names |= {"gaps", "selection", "repeat of ids", *(("baseline selection",) if path.baseline else ())}
    if find(case.recipe).relations:
        names |= {f"law {name}" for name in metamorphic.of_path(path)}
    return names


def _index(inputs: Inputs) -> dict[str, np.ndarray]:
    """What block selection is given, where it chooses the ids."""
    return {} if inputs.index is None else {"index_q": inputs.index.q, "index_keys": inputs.index.keys}


def _got(row: Row) -> np.ndarray:
    assert row.got is not None  # all rows of attention are shown with their bits
    return row.got


def _true_value(shown: Shown, reference: Reference, limit: Limits) -> Iterator[Reason]:
    """The first row's worst element and one more, whose true value is enclosed by exact arithmetic."""
    if not shown.rows:
        return
    row, queries = shown.rows[0], reference.queries
    query, head = divmod(row.row, shown.case.n_head)
    at, row_got = int(np.searchsorted(queries, query)), _got(row)
    said = f"{shown.path.name} {shown.case.brief()}"
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(row_got.astype(np.float64) - reference.out[at, head])
    dims = sorted({int(np.argmax(np.where(np.isnan(error), np.inf, error))), row.row % len(error)})
    try:
        enclosures = enclose(shown.inputs, query, head, dims, at)
    except NotFiniteError as reason:
        raise CannotCheckError(f"{said}: {reason}") from reason
    shown.enclosed += len(enclosures)
    check = certificate(reference.out, limit.own, enclosures)
    if not check.verdict.passes:
        raise CannotCheckError(f"{said}: {check.reason}")
    got = reference.out.astype(np.float32)
    got[at, head] = row_got
    check = certified("numbers", got, limit.kernel, enclosures)
    if not check.verdict.passes:
        yield "numbers", f"row {row.row}: {check.reason}"
