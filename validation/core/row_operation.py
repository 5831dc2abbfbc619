"""The one order in which a case of an operation is run and judged.

Data and what they promise; the path; the path again with its rows in another order; every bit that a model knows; the
baseline; the bits that lanes predict; FP64 and whether it is right itself; the derived bound, and whether these
verdicts refuse wrong answers; metamorphic relations; times. What an operation asks besides stands in the methods of
`row_hooks`, what all are asked in `row_checks`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strata.kernels.paths import PATHS
from validation.core import row_checks
from validation.core.findings import Findings
from validation.core.operation import Trial
from validation.core.outcome import Outcome, Reference, Run
from validation.core.row_checks import BASELINE, clocked, exact, predicted, ran, repeated
from validation.core.row_hooks import RowHooks
from validation.core.verdict import Check, holds


class RowOperation(RowHooks):
    """An operation whose outputs have rows that know nothing of one another, judged in the one order."""

    def judge(self, trial: Trial) -> Findings:
        return _judge(self, trial)

    def bounded(self, trial: Trial, reference: Reference) -> list[Check]:
        """Outputs against the reference. By default each within its bound, and whether that refuses wrong answers."""
        return row_checks.bounded(self, trial, reference)


def _judge(operation: RowOperation, trial: Trial) -> Findings:
    found = trial.found
    with found.timed("data"):
        trial.inputs = operation.inputs(trial)
        found.checks += operation.preconditions(trial)
    refusal = operation.refuses(trial.executor, trial.path, trial.inputs)
    if refusal is not None:
        found.checks.append(refusal)
        return found
    with found.timed("new"):
        trial.first = operation.first_run(trial.executor, trial.path, trial.inputs)
    misshapen = row_checks.misshapen(operation, trial)
    if misshapen:  # nothing that follows would know which row is which
        found.checks.append(holds("shape", False, misshapen))
        return found
    trial.rows = operation.referenced(trial)
    first = Run(trial.executor, trial.path, trial.inputs, trial.first)
    _keep(operation, trial, first)
    found.checks += ran(operation, trial, first)
    with found.timed("repeat"):
        order, whole = _repeat(operation, trial)
    with found.timed("reference"):
        trial.expected = operation.expected(trial)
    if trial.expected is not None:
        found.checks += exact(operation, trial, trial.expected)
    found.checks += repeated(operation, trial, order, whole)
    with found.timed("repeat"):
        found.checks += operation.again(trial)
    refused = _baseline(operation, trial)
    with found.timed("prediction"):
        _predict(operation, trial)
    with found.timed("reference"):
        trial.reference = operation.reference(trial)
    if trial.reference is not None and not _measured(operation, trial, trial.reference):
        return found
    found.checks += operation.judged(trial)
    with found.timed("relations"):
        found.checks += operation.relations(trial)
    if trial.settings.reps and not refused:
        with found.timed("timing"):
            found.checks += clocked(operation, trial)
    return found


def _keep(operation: RowOperation, trial: Trial, first: Run) -> None:
    """Show what is judged to whoever makes a record of it."""
    if trial.settings.recorder is not None:
        images = [trial.executor.build(kernel) for kernel in operation.launched(trial.case, first)]
        outcome: Outcome = first.outcome
        out = outcome.outputs[outcome.main]
        trial.settings.recorder.keep(trial.path, trial.case, trial.inputs, out, outcome.witnesses, images)


def _repeat(operation: RowOperation, trial: Trial) -> tuple[np.ndarray, bool]:
    """The path once more with its rows in another order, each of which must give the bits it gave in its own place.

    What depends on a row's place in the launch is a fault.

    Returns
    -------
    int64, the rows of the repeat in their order, and whether it was asked for all of them.
    """
    some = operation.repeated_rows(trial)
    rows = np.arange(operation.length(trial)) if some is None else some
    order: np.ndarray = rows[trial.case.stream("repeat").permutation(len(rows))]
    turned = operation.permuted(trial.inputs, order)
    trial.again = operation.run(trial.repeats_on, trial.path, turned)
    return order, some is None


def _baseline(operation: RowOperation, trial: Trial) -> bool:
    """The run of the baseline, which paths of one mode share; whether it must refuse these inputs."""
    base = operation.baseline(trial)
    if base is None:
        return False
    path, found = PATHS[trial.path.baseline or ""], trial.found
    refusal = base.refuses(trial.executor, path, trial.inputs)
    if refusal is not None:
        found.checks.append(replace(refusal, name=f"{BASELINE}{refusal.name}"))
        return True
    with found.timed("old"):
        outcome: Outcome = trial.memo.get(
            "old", (trial.case, path, trial.executor), lambda: base.run(trial.executor, path, trial.inputs)
        )
    trial.old = Run(trial.executor, path, trial.inputs, outcome)
    found.checks += ran(base, trial, trial.old, BASELINE)
    return False


def _predict(operation: RowOperation, trial: Trial) -> None:
    checks, trial.predicted = predicted(operation, trial, trial.path, trial.outcome)
    trial.found.checks += checks
    base = operation.baseline(trial)
    if base is not None and trial.old is not None:
        trial.found.checks += predicted(base, trial, trial.old.path, trial.old.outcome, BASELINE)[0]


def _measured(operation: RowOperation, trial: Trial, reference: Reference) -> bool:
    """Outputs against a reference, unless that is not right itself: nothing would then say anything of the path."""
    found = trial.found
    with found.timed("certificate"):
        doubts = operation.trusted(trial, reference)
    found.checks += doubts
    if not all(check.verdict.passes for check in doubts):
        return False
    with found.timed("verdict"):
        found.checks = [operation.located(trial, reference, check) for check in found.checks]
        found.checks += operation.bounded(trial, reference)
    return True
