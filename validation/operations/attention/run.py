"""Runs one case of an attention path: path, path again, baseline, prediction, reference, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strata.executors.base import Executor, Kernel, Witness
from strata.kernels.paths import PATHS, Path
from validation.core.case import CaseError
from validation.core.findings import Findings
from validation.core.launches import witnessed
from validation.core.memo import Memo
from validation.core.random_streams import Stream
from validation.core.settings import Settings
from validation.core.verdict import AXES, Check, Verdict, holds, identical, written
from validation.numerics.interval import certificate, certified
from validation.numerics.tensorcore_rules import rules_for
from validation.operations.attention import gates as judge
from validation.operations.attention import metamorphic as laws
from validation.operations.attention import preconditions as promises
from validation.operations.attention.bound import kernel_bound, reference_bound
from validation.operations.attention.bounds.prompt_attention import PUBLISHED_QUERIES
from validation.operations.attention.captured import build_captured
from validation.operations.attention.certificate import Certificate, NotFiniteError, certify
from validation.operations.attention.kernels import ATTENTION, Operation, device_milliseconds
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import Reference, attend
from validation.operations.attention.sampling import referenced, rows_of
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import find

#: On lanes a larger case (in cells times query heads) is repeated on the queries that have a reference only.
REPEAT_LIMIT = 1 << 22


def run(
    case: Case,
    path: Path,
    executor: Executor,
    settings: Settings,
    memo: Memo,
    operations: Mapping[str, Operation] = ATTENTION,
) -> Findings:
    """Findings of one attention path on one case. Raises StrataError when something cannot run."""
    if case.queries < 1:
        raise CaseError("case: queries is 0, expected at least 1 for attention")
    found = Findings()
    operation = operations[path.operation]
    with found.timed("data"):
        inputs: Inputs = memo.get("inputs", (case, path.mode), lambda: make_inputs(case, path, executor, settings))
        # Not kept in the memo: it is what tells that the memo gave this case's inputs.
        found.checks.append(promises.kept(case, path.mode, inputs))
    rows = referenced(inputs.widths, case.stream("referenced"))
    with found.timed("new"):
        first = operation.run(executor, path, inputs)
    new = first.out
    if new.shape != inputs.q.shape:
        found.checks.append(holds("shape", False, f"the output's shape is {new.shape}, expected {inputs.q.shape}"))
        return found
    if settings.recorder is not None:
        images = [executor.build(kernel) for kernel in _kernels(path, case, operation)]
        settings.recorder.keep(path, case, inputs, new, first.witnesses, images)
    found.checks += [
        written("written", new, axes=AXES),
        holds("guards", first.guards_ok, "memory around a buffer was overwritten"),
        _witness("witness", case, path, executor, operation, first.witnesses),
    ]
    with found.timed("repeat"):
        found.checks.append(_repeat(inputs, rows, new, path, executor, settings, operation, case.stream("repeat")))
    old: np.ndarray | None = None
    base = PATHS[path.baseline] if path.baseline else None
    if base is not None:
        with found.timed("old"):
            second = memo.get(
                "old", (case, base, executor), lambda: operations[base.operation].run(executor, base, inputs)
            )
        old = second.out
        found.checks += [
            holds("baseline guards", second.guards_ok, "the baseline overwrote memory around a buffer"),
            _witness("baseline witness", case, base, executor, operations[base.operation], second.witnesses),
        ]
    with found.timed("prediction"):
        checks, predicted = _predict("prediction", inputs, rows, new, path, executor, settings, operation)
        found.checks += checks
        if base is not None and old is not None:
            basis = operations[base.operation]
            found.checks += _predict("baseline prediction", inputs, rows, old, base, executor, settings, basis)[0]
    with found.timed("reference"):
        reference: Reference = memo.get(
            "reference",
            (case, path.mode),
            lambda: attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, rows),
        )
    with found.timed("bound"):
        key = (case, path.mode)
        limit = limits(case, path, inputs, reference, executor, memo)
        truth = judge.Truth(reference, limit.path, limit.base, case.queries >= PUBLISHED_QUERIES, predicted)
    with found.timed("certificate"):
        try:
            proof: Certificate = memo.get("certificate", key, lambda: certify(case, inputs, rows))
            enclosures = [*proof.sampled, proof.at(*judge.worst(new[rows], truth))]
        except NotFiniteError as error:
            found.checks.append(Check("certificate", Verdict.VOID, str(error)))
            return found
        found.checks.append(certificate(reference.out, limit.own, enclosures))
        if not found.checks[-1].verdict.passes:  # nothing that follows would say anything about the path
            return found
    with found.timed("verdict"):
        found.checks = [judge.placed(check, truth) for check in found.checks]
        found.checks += judge.gates(new, old, truth)
        found.checks.append(certified("certified", new[rows], limit.kernel, enclosures))
        if old is not None:
            found.checks.append(judge.anchor(old, truth))
        found.checks.append(judge.battery(old, truth))
        found.figures |= judge.figures(new, old, reference)
    if find(case.recipe).laws:
        with found.timed("laws"):
            ground = laws.ground(path, inputs, new, executor)
            found.checks += laws.checks(ground, lambda changed: operation.run(executor, path, changed).out)
    if settings.reps:
        with found.timed("timing"):
            _time(found, inputs, (path, new), (base, old), executor, settings.reps, operations)
    return found


class Limits(NamedTuple):
    """Derived bounds, float64 of the reference's shape. own: of the reference from the true value; kernel: of the path
    from that; path, base: of path and baseline from the reference, None where there is no baseline."""

    own: np.ndarray
    kernel: np.ndarray
    path: np.ndarray
    base: np.ndarray | None


def limits(case: Case, path: Path, inputs: Inputs, reference: Reference, executor: Executor, memo: Memo) -> Limits:
    """The bounds of a case, of which the memo keeps those that its paths share."""
    own: np.ndarray = memo.get("reference bound", (case, path.mode), lambda: reference_bound(inputs, reference))
    kernel = kernel_bound(path, inputs, reference, own, executor)
    base: np.ndarray | None = None
    if path.baseline:
        of = PATHS[path.baseline]
        base = memo.get("baseline bound", (case, of), lambda: kernel_bound(of, inputs, reference, own, executor) + own)
    return Limits(own, kernel, kernel + own, base)


def make_inputs(case: Case, path: Path, executor: Executor, settings: Settings) -> Inputs:
    """Synthetic inputs, or those of a capture, packed as the case asks."""
    if case.recipe == "captured":
        return build_captured(case, path.mode, executor, settings.capture)
    return build(case, path.mode)


def _kernels(path: Path, case: Case, operation: Operation) -> Sequence[Kernel]:
    """What a path must have launched for a case; none where that is not known."""
    return operation.kernels(path, case.group) if operation.kernels else []


def _witness(
    name: str, case: Case, path: Path, executor: Executor, operation: Operation, witnesses: Sequence[Witness]
) -> Check:
    """What was launched against what the path is made of and the case needs."""
    images = {kernel.entry: executor.build(kernel).digest for kernel in _kernels(path, case, operation)}
    blocks = operation.blocks(case.queries, case.n_head_kv) if operation.blocks else None
    return replace(witnessed(executor, witnesses, blocks, images), name=name)


def _time(
    found: Findings,
    inputs: Inputs,
    new: tuple[Path, np.ndarray],
    old: tuple[Path | None, np.ndarray | None],
    executor: Executor,
    reps: int,
    operations: Mapping[str, Operation],
) -> None:
    """Device times of path and baseline on the same inputs; what was timed must be what was judged."""
    for name, path, out in (("new", *new), ("old", *old)):
        if path is None or out is None:
            continue
        timed = device_milliseconds(operations[path.operation], executor, path, inputs, reps, out)
        if timed is None:
            found.figures["device_time"] = "no device clock on this executor"
            return
        same = timed.pop("timed_output_is_the_checked_one")
        found.checks.append(holds(f"timed {name}", same, "the timed runs gave other bits than the judged one"))
        found.figures[f"device_{name}"] = timed
    if "device_old" in found.figures:
        found.figures["device_ratio"] = found.figures["device_old"]["median"] / found.figures["device_new"]["median"]


def _repeat(
    inputs: Inputs,
    rows: np.ndarray,
    new: np.ndarray,
    path: Path,
    executor: Executor,
    settings: Settings,
    operation: Operation,
    stream: Stream,
) -> Check:
    """The path once more with its queries in another order, each of which must give the bits it gave in its own place:
    all of them, or on lanes and for large cases those with a reference alone.

    Queries know nothing of one another, so what depends on a query's place in the launch is a fault.
    """
    work = int(inputs.widths.sum()) * new.shape[1]
    whole = executor.name != "lanes" or work <= REPEAT_LIMIT
    chosen = np.arange(len(new)) if whole else rows
    order = chosen[stream.permutation(len(chosen))]
    again = operation.run(settings.twin or executor, path, rows_of(inputs, order)).out
    check = identical("repeat", again, new[order], labels=(order,), axes=AXES)
    return replace(check, figures=check.figures | {"whole": whole, "other_schedule": settings.twin is not None})


def _predict(
    name: str,
    inputs: Inputs,
    rows: np.ndarray,
    new: np.ndarray,
    path: Path,
    executor: Executor,
    settings: Settings,
    operation: Operation,
) -> tuple[list[Check], np.ndarray | None]:
    """The bits that lanes expect of the card, and those of the sampled queries. No check when none was asked for
    or on lanes itself.

    Where the card has several readings, the output must be one of them bit for bit; a failure is said of the nearest.
    """
    if settings.predict == "none" or executor.name == "lanes":
        return [], None
    rules = rules_for(path, executor)
    if not rules or settings.predictor is None:
        reason = "lanes cannot run here" if rules else "no rule is established for this card"
        return [Check(name, Verdict.INCONCLUSIVE, reason)], None
    whole = settings.predict == "all" or len(rows) == len(new)
    part, labels = (inputs, ()) if whole else (rows_of(inputs, rows), (rows,))
    expected = {rule: operation.run(settings.predictor(rule), path, part).out for rule in rules}
    got = new if whole else new[rows]
    checks = {rule: identical(name, got, out, labels=labels, axes=AXES) for rule, out in expected.items()}
    rule = min(rules, key=lambda each: checks[each].figures.get("differing", got.size + 1))
    figures = checks[rule].figures | {"rule": rule, "all_bits": whole and name == "prediction"}
    reason = checks[rule].reason
    if len(rules) > 1:
        figures["readings"] = [each for each in rules if checks[each].verdict is Verdict.EXACT]
        reason = reason and f"no reading of the card, nearest {rule}: {reason}"
    sample = expected[rule][rows] if whole else expected[rule]
    return [replace(checks[rule], reason=reason, figures=figures)], sample
