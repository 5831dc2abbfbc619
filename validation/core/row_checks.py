"""The checks that the runs and outputs of every operation of rows are asked.

Those of the first output are plain (`bits`, `repeat`, `bound`); another output's bits have its name, `ids` say, and its
repeat is `repeat of ids`.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import numpy as np

from strata.kernels.paths import Path
from validation.core.negative_probes import self_check
from validation.core.operation import Trial
from validation.core.outcome import Arrays, Expected, Outcome, Reference, Run
from validation.core.row_hooks import RowHooks
from validation.core.timed import timed
from validation.core.verdict import Check, Verdict, holds, identical, within, written

#: What checks of the baseline are called besides.
BASELINE = "baseline "


def misshapen(operation: RowHooks, trial: Trial) -> str:
    """Why outputs are not what the operation has, each with so many rows; "" when they are."""
    outputs, length, shapes = trial.outcome.outputs, operation.length(trial), operation.shapes(trial)
    needed = {name for name, one in operation.outputs.items() if one.everywhere}
    if not needed <= set(outputs) <= set(operation.outputs):
        return f"outputs are {', '.join(outputs)}, expected {', '.join(operation.outputs)}"
    for name, out in outputs.items():
        axes = operation.outputs[name].axes
        due = out.shape if shapes is None else shapes[name]
        if out.ndim != len(axes) or len(out) != length or out.shape != due:
            of = "the output's shape" if len(outputs) == 1 else f"the shape of {name}"
            expected = f"{length} rows and {len(axes)} axes" if shapes is None else due
            return f"{of} is {out.shape}, expected {expected}"
    return ""


def ran(operation: RowHooks, trial: Trial, run: Run, prefix: str = "") -> list[Check]:
    """What is asked of every run, whatever its numbers: all written, nothing beside it, and launched as planned.

    prefix: of the names of checks, `BASELINE` for the run of a baseline.
    """
    outcome = run.outcome
    who = "the baseline overwrote memory around a buffer" if prefix else "memory around a buffer was overwritten"
    checks = [
        *(
            written(operation.named(outcome, name, "written"), outcome.outputs[name], axes=one.axes, dtype=one.dtype)
            for name, one in operation.outputs.items()
            if one.whole and name in outcome.outputs
        ),
        holds("guards", outcome.guards_ok, who),
        *operation.witnessed(trial.case, run),
        *operation.ran(trial, run),
    ]
    asked = operation.baseline_asked if prefix else None
    return [replace(one, name=f"{prefix}{one.name}") for one in checks if asked is None or one.name in asked]


def exact(operation: RowHooks, trial: Trial, expected: Expected) -> list[Check]:
    """Every bit of every output and every count; the case is EXACT when besides everything else passes."""
    outcome = trial.outcome
    checks = operation.compared(trial, "bits", outcome.outputs, expected.outputs)
    checks[0] = replace(checks[0], figures=checks[0].figures | {"all_bits": True})
    for name, due in expected.counts.items():
        got = outcome.counts[name]
        checks.append(holds(name, got == due, f"{got} reported as {name}, expected {due}"))
        if trial.again is not None:
            got = trial.again.counts[name]
            checks.append(holds(f"{name} again", got == due, f"{got} reported as {name} by the repeat, expected {due}"))
    return checks + operation.probed_bits(trial, expected)


def repeated(operation: RowHooks, trial: Trial, order: np.ndarray, whole: bool) -> list[Check]:
    """The same bits of every row in another place of the launch.

    Parameters
    ----------
    order
        int64, the rows of the repeat.
    whole
        Whether the repeat was asked for all rows.
    """
    assert trial.again is not None
    due = {name: out[order] for name, out in trial.outcome.outputs.items()}
    checks = operation.compared(trial, "repeat", trial.again.outputs, due, (order,))
    more = {"whole": whole, "other_schedule": trial.settings.repeat_executor is not None}
    return [replace(check, figures=check.figures | more) for check in checks]


def bounded(operation: RowHooks, trial: Trial, reference: Reference) -> list[Check]:
    """FP64 within the bound, of path and baseline, and whether that refuses wrong answers.

    A reference of no row says nothing.
    """
    outcome, rows = trial.outcome, reference.rows
    checks: list[Check] = []
    for name, due in reference.values.items() if len(rows) else ():
        bound, axes = reference.bound[name], operation.outputs[name].axes
        got, known = outcome.outputs[name][rows], None if trial.predicted is None else trial.predicted[name]
        said = operation.named(outcome, name, "bound")
        checks.append(within(said, got, due, bound, labels=(rows,), axes=axes, predicted=known))
        if trial.old is not None and reference.baseline_bound is not None:
            base, limit = trial.old.outcome.outputs[name][rows], reference.baseline_bound[name]
            checks.append(within(f"{BASELINE}{said}", base, due, limit, labels=(rows,), axes=axes))
        checks.append(replace(_probed(due, bound), name=operation.named(outcome, name, "self")))
    return checks


def _probed(due: np.ndarray, bound: np.ndarray) -> Check:
    """The negative probes of one output, its axes behind the first taken as one."""
    shape = (len(due), 1, -1)
    truth, limit = due.reshape(shape), np.broadcast_to(bound, due.shape).reshape(shape)
    return self_check(truth, limit, lambda got: within("self", got, truth, limit).verdict.passes)


def predicted(
    operation: RowHooks, trial: Trial, path: Path, outcome: Outcome, prefix: str = ""
) -> tuple[list[Check], Arrays | None]:
    """The bits that lanes expect of the card.

    No check when none was asked for, on lanes itself, and of an operation without rules. Where the card may follow
    several rules, the outputs must be those of one of them bit for bit; a failure is said of the nearest.

    Parameters
    ----------
    outcome
        What `path` gave on all rows.
    prefix
        `BASELINE` for a baseline.

    Returns
    -------
    The checks, and the predicted bits of `trial.rows`, None where they are not known.
    """
    settings, rows, length = trial.settings, trial.rows, operation.length(trial)
    name = f"{prefix}prediction"
    if settings.predict == "none" or trial.executor.name == "lanes":
        return [], None
    rules = operation.rules(trial, path)
    if rules is None:
        return [], None
    if not rules or settings.predictor is None:
        reason = "lanes cannot run here" if rules else "no rule is established for this card"
        return [Check(name, Verdict.INCONCLUSIVE, reason)], None
    whole = settings.predict == "all" or len(rows) == length
    part, labels = (trial.inputs, ()) if whole else (operation.permuted(trial.inputs, rows), (rows,))
    expected = {rule: operation.run(settings.predictor(rule), path, part).outputs for rule in rules}
    got = {each: out if whole else out[rows] for each, out in outcome.outputs.items()}
    checks = {rule: operation.compared(trial, name, got, out, labels) for rule, out in expected.items()}
    unknown = sum(out.size for out in got.values()) + 1
    rule = min(rules, key=lambda each: sum(one.figures.get("differing", unknown) for one in checks[each]))
    decides = whole and not prefix and operation.prediction_decides
    figures: dict[str, object] = {"rule": rule, "all_bits": decides}
    found = checks[rule]
    if len(rules) > 1:
        exactly = [each for each in rules if all(one.verdict is Verdict.EXACT for one in checks[each])]
        figures["readings"] = exactly
        nearest = f"no reading of the card, nearest {rule}: "
        found = [replace(one, reason=one.reason and f"{nearest}{one.reason}") for one in found]
    found[0] = replace(found[0], figures=found[0].figures | figures)
    sample = {each: out[rows] if whole else out for each, out in expected[rule].items()}
    return found, sample


def clocked(operation: RowHooks, trial: Trial) -> list[Check]:
    """Device times of path and baseline on the same inputs; what was timed must be what was judged."""
    figures, reps, checks = trial.found.figures, trial.settings.reps, list[Check]()
    runs = [("new", operation, trial.path, trial.outcome)]
    base = operation.baseline(trial)
    if base is not None and trial.old is not None:
        runs.append(("old", base, trial.old.path, trial.old.outcome))
    for name, of, path, outcome in runs:
        made = timed(of.prepare(), trial.executor, path, trial.inputs, reps)
        if made is None:
            figures["device_time"] = "no device clock on this executor"
            return checks
        times, last = made
        same = _same_bits(of, last, outcome.outputs[outcome.main])
        checks.append(holds(f"timed {name}", same, "the timed runs gave other bits than the judged one"))
        figures[f"device_{name}"] = {"milliseconds": times, "median": median(times)}
    if "device_old" in figures:
        figures["device_ratio"] = figures["device_old"]["median"] / figures["device_new"]["median"]
    return checks


def _same_bits(operation: RowHooks, got: np.ndarray, due: np.ndarray) -> bool:
    """Whether a buffer that was timed holds an output, in whatever shape."""
    if got.size != due.size:
        return False
    got, due = (operation.comparable(out.reshape(due.shape)) for out in (got, due))
    return identical("timed", got, due).verdict.passes
