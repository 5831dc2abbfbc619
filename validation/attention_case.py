"""Runs one case of an attention path: path, path again, baseline, prediction, reference, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import PATHS, Path
from validation import judge
from validation.captured_case import build_captured
from validation.cases import Case, CaseError
from validation.findings import Findings
from validation.operations import ATTENTION, Attention
from validation.pools import EDGE_WIDTHS, Inputs, build
from validation.predict import rule_for
from validation.recipes import find
from validation.reference.prompt_attention import Reference, attend
from validation.settings import Settings
from validation.verdict import Check, Verdict, holds, identical, written

#: Cases of at most this many queries get a reference for each of them.
ALL_QUERIES = 32
#: Otherwise one query in this part of them, as in the published program, and the edges.
SAMPLES = 16
#: On lanes a larger case (in cells times query heads) is repeated on its sampled queries only.
REPEAT_LIMIT = 1 << 22


def sampled(widths: np.ndarray) -> np.ndarray:
    """int64: the queries that get a reference: 0, s, 2s, ..., the last, and the first of each edge width."""
    count = len(widths)
    if count <= ALL_QUERIES:
        return np.arange(count)
    chosen = set(range(0, count, max(1, count // SAMPLES))) | {count - 1}
    for edge in EDGE_WIDTHS:
        chosen.update(np.flatnonzero(widths == edge)[:1].tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def rows_of(inputs: Inputs, rows: np.ndarray) -> Inputs:
    """The same inputs for some queries only."""
    return replace(inputs, q=inputs.q[rows], ids=inputs.ids[rows], steps=inputs.steps[rows], widths=inputs.widths[rows])


@dataclass
class Memo:
    """The last value of each kind. Tiers of one mode share inputs, reference and baseline of a case."""

    _held: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def get(self, kind: str, key: object, make: Callable[[], Any]) -> Any:
        """The held value when it was made for `key`, else a new one (pure functions only)."""
        if kind not in self._held or self._held[kind][0] != key:
            self._held.pop(kind, None)
            self._held[kind] = (key, make())
        return self._held[kind][1]


def run(
    case: Case,
    path: Path,
    executor: Executor,
    settings: Settings,
    memo: Memo,
    operations: Mapping[str, Attention] = ATTENTION,
) -> Findings:
    """Findings of one attention path on one case. Raises StrataError when something cannot run."""
    if case.queries < 1:
        raise CaseError("case: queries is 0, expected at least 1 for attention")
    found = Findings()
    launch = operations[path.operation]
    with found.timed("data"):
        inputs: Inputs = memo.get("inputs", (case, path.mode), lambda: make_inputs(case, path, executor, settings))
    rows = sampled(inputs.widths)
    with found.timed("new"):
        first = launch(executor, path, inputs)
    new = first.out
    found.checks += [
        written("written", new),
        holds("guards", first.guards_ok, "memory around a buffer was overwritten"),
        judge.witnessed(executor, first.witnesses, planned_blocks(path, case)),
    ]
    with found.timed("repeat"):
        found.checks.append(_repeat(inputs, rows, new, path, executor, settings, launch))
    old: np.ndarray | None = None
    if path.baseline is not None:
        base = PATHS[path.baseline]
        with found.timed("old"):
            second = memo.get(
                "old", (case, base, executor), lambda: operations[base.operation](executor, base, inputs)
            )
        old = second.out
        found.checks.append(holds("baseline guards", second.guards_ok, "the baseline overwrote memory around a buffer"))
        launched = judge.witnessed(executor, second.witnesses, None)
        found.checks.append(replace(launched, name="baseline witness"))
    with found.timed("prediction"):
        found.checks += _predict(inputs, rows, new, path, executor, settings, launch)
    if find(case.recipe).judged_by_bits:
        _judge_by_bits(found, new)
        return found
    with found.timed("reference"):
        reference: Reference = memo.get(
            "reference",
            (case, path.mode),
            lambda: attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, rows),
        )
    with found.timed("verdict"):
        found.checks += judge.gates(new, old, reference)
        found.checks.append(judge.battery(old, reference))
        found.figures |= judge.figures(new, old, reference)
    return found


def make_inputs(case: Case, path: Path, executor: Executor, settings: Settings) -> Inputs:
    """Synthetic inputs, or those of a capture, packed as the case asks."""
    if case.recipe == "captured":
        return build_captured(case, path.mode, executor, settings.capture)
    return build(case, path.mode)


def planned_blocks(path: Path, case: Case) -> int | None:
    """Blocks a case needs: one for every query and KV head in prompt attention; None where a kernel chooses."""
    return case.queries * case.n_head_kv if path.operation == "prompt_attention" else None


def _repeat(
    inputs: Inputs,
    rows: np.ndarray,
    new: np.ndarray,
    path: Path,
    executor: Executor,
    settings: Settings,
    launch: Attention,
) -> Check:
    """The path once more: all of it, or on lanes and for large cases the sampled queries alone."""
    work = int(inputs.widths.sum()) * new.shape[1]
    whole = executor.name != "lanes" or work <= REPEAT_LIMIT
    part = inputs if whole else rows_of(inputs, rows)
    again = launch(settings.twin or executor, path, part).out
    labels = () if whole else (rows,)
    check = identical("repeat", again, new if whole else new[rows], labels=labels)
    return replace(check, figures=check.figures | {"whole": whole, "other_schedule": settings.twin is not None})


def _predict(
    inputs: Inputs,
    rows: np.ndarray,
    new: np.ndarray,
    path: Path,
    executor: Executor,
    settings: Settings,
    launch: Attention,
) -> list[Check]:
    """The bits that lanes expect of the card. No check when none was asked for or on lanes itself."""
    if settings.predict == "none" or executor.name == "lanes":
        return []
    rule = rule_for(path, executor)
    if rule is None or settings.predictor is None:
        reason = "no rule is established for this card" if rule is None else "lanes cannot run here"
        return [Check("prediction", Verdict.INCONCLUSIVE, reason)]
    whole = settings.predict == "all" or len(rows) == len(new)
    part = inputs if whole else rows_of(inputs, rows)
    expected = launch(settings.predictor(rule), path, part).out
    check = identical("prediction", new if whole else new[rows], expected, labels=() if whole else (rows,))
    return [replace(check, figures=check.figures | {"rule": rule, "whole": whole})]


def _judge_by_bits(found: Findings, new: np.ndarray) -> None:
    """Recipes whose reference is not finite by design: the prediction is the verdict."""
    if any(check.name == "prediction" for check in found.checks):
        found.checks.append(judge.bit_battery(new))
    else:
        reason = "random bits can only be judged by a prediction (--executor cuda --predict all)"
        found.checks.append(Check("prediction", Verdict.NOT_RUN, reason))
