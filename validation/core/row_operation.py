"""The one order in which a case of an operation is run and judged.

Data and what they promise; the path; the path again with its rows in another order; every bit that a model knows;
FP64 within the derived bound; whether these verdicts refuse wrong answers. What an operation asks besides stands in
its `ran` and `judged`. Names of checks: those of the first output are plain (`bits`, `repeat`, `bound`), another
output's bits have its name, `ids` say, and its repeat is `repeat of ids`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.findings import Findings
from validation.core.handed import handed
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery, self_check
from validation.core.operation import Operation, Trial
from validation.core.outcome import Arrays, Expected, Outcome, Output, Reference
from validation.core.verdict import Check, holds, identical, within, written


def _on_copies(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    @wraps(run)
    def call(self: RowOperation, executor: Executor, path: Path, inputs: Any) -> Outcome:
        bound: Callable[..., Outcome] = partial(run, self)
        return handed(bound)(executor, path, inputs)

    return call


class RowOperation(Operation):
    """An operation whose outputs have rows that know nothing of one another.

    Attributes
    ----------
    outputs
        By name; the first is the one that a check without a name is about.
    """

    outputs: Mapping[str, Output]

    def __init_subclass__(cls, **named: Any) -> None:
        """Hand copies to every `run`, so that no operation can leave it out."""
        super().__init_subclass__(**named)
        if "run" in cls.__dict__:
            cls.run = _on_copies(cls.__dict__["run"])  # type: ignore[method-assign]

    def judge(self, trial: Trial) -> Findings:
        return _judge(self, trial)

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, trial: Trial) -> Any:
        """The inputs of a case: a pure function of case and mode, of arrays that are compared after each run."""

    @abstractmethod
    def run(self, executor: Executor, path: Path, inputs: Any) -> Outcome:
        """Launch the path on copies of the inputs. Raises StrataError when it cannot run."""

    @abstractmethod
    def length(self, trial: Trial) -> int:
        """Rows along the first axis of every output, which know nothing of one another."""

    @abstractmethod
    def permuted(self, inputs: Any, order: np.ndarray) -> Any:
        """The inputs of the rows `order` (int64), in that order."""

    # ---- what is right -------------------------------------------------------------------------------------------

    def preconditions(self, trial: Trial) -> list[Check]:
        """Whether the inputs are what the recipe promises; by default no question."""
        return []

    def expected(self, trial: Trial) -> Expected | None:
        """Every bit of the outcome from a model, None where there is none."""
        return None

    def reference(self, trial: Trial) -> Reference | None:
        """FP64 results and their bounds, None where bits alone judge."""
        return None

    def comparable(self, output: np.ndarray) -> np.ndarray:
        """An output as its bits are compared: where several bit patterns mean the same, one of them."""
        return output

    def ran(self, trial: Trial, outcome: Outcome) -> list[Check]:
        """Further questions to a run, whatever its numbers."""
        return []

    def judged(self, trial: Trial) -> list[Check]:
        """Further questions to the outcome."""
        return []


def _judge(operation: RowOperation, trial: Trial) -> Findings:
    found = trial.found
    with found.timed("data"):
        trial.inputs = operation.inputs(trial)
        found.checks += operation.preconditions(trial)
    with found.timed("new"):
        trial.first = operation.run(trial.executor, trial.path, trial.inputs)
    length = operation.length(trial)
    misshapen = _misshapen(operation, trial.first, length)
    if misshapen:  # nothing that follows would know which row is which
        found.checks.append(holds("shape", False, misshapen))
        return found
    order = trial.case.stream("repeat").permutation(length)
    with found.timed("repeat"):
        turned = operation.permuted(trial.inputs, order)
        trial.again = operation.run(trial.repeats_on, trial.path, turned)
    with found.timed("reference"):
        expected, reference = operation.expected(trial), operation.reference(trial)
    found.checks += ran(operation, trial, trial.executor, trial.outcome)
    if expected is not None:
        found.checks += exact(operation, trial, expected)
    found.checks += repeated(operation, trial, order)
    if reference is not None:
        found.checks += bounded(operation, trial, reference)
    found.checks += operation.judged(trial)
    return found


def _misshapen(operation: RowOperation, outcome: Outcome, length: int) -> str:
    """Why outputs are not what the operation has, each with so many rows; "" when they are."""
    if set(outcome.outputs) != set(operation.outputs):
        return f"outputs are {', '.join(outcome.outputs)}, expected {', '.join(operation.outputs)}"
    for name, out in outcome.outputs.items():
        axes = operation.outputs[name].axes
        if out.ndim != len(axes) or len(out) != length:
            return f"the shape of {name} is {out.shape}, expected {length} rows and {len(axes)} axes"
    return ""


def named(outcome: Outcome, output: str, check: str) -> str:
    """What a check of an output is called."""
    if output == outcome.main:
        return check
    return output if check == "bits" else f"{check} of {output}"


def ran(operation: RowOperation, trial: Trial, executor: Executor, outcome: Outcome) -> list[Check]:
    """What is asked of every run, whatever its numbers: all written, nothing beside it, and launched as planned."""
    images = {kernel.entry: executor.build(kernel).digest for kernel in operation.kernels(trial.path, trial.case)}
    return [
        holds("guards", outcome.guards_ok, "memory around a buffer was overwritten"),
        witnessed(executor, outcome.witnesses, None, images),
        *(
            written(named(outcome, name, "written"), outcome.outputs[name], axes=one.axes, dtype=one.dtype)
            for name, one in operation.outputs.items()
        ),
        *operation.ran(trial, outcome),
    ]


def exact(operation: RowOperation, trial: Trial, expected: Expected) -> list[Check]:
    """Every bit of every output and every count; the case is EXACT when besides everything else passes."""
    outcome = trial.outcome
    checks = _same(operation, trial, outcome.outputs, expected.outputs, "bits")
    checks[0] = replace(checks[0], figures=checks[0].figures | {"all_bits": True})
    for name, due in expected.counts.items():
        got = outcome.counts[name]
        checks.append(holds(name, got == due, f"{got} reported as {name}, expected {due}"))
        if trial.again is not None:
            got = trial.again.counts[name]
            checks.append(holds(f"{name} again", got == due, f"{got} reported as {name} by the repeat, expected {due}"))
    probes = ((name, operation.comparable(out)) for name, out in expected.outputs.items())
    return checks + [replace(bit_battery(out), name=named(outcome, name, "self bits")) for name, out in probes]


def repeated(operation: RowOperation, trial: Trial, order: np.ndarray) -> list[Check]:
    """The same bits of every row in another place of the launch. order: int64, the rows of the repeat."""
    assert trial.again is not None
    due = {name: out[order] for name, out in trial.outcome.outputs.items()}
    return _same(operation, trial, trial.again.outputs, due, "repeat", (order,))


def bounded(operation: RowOperation, trial: Trial, reference: Reference) -> list[Check]:
    """FP64 within the bound, and whether that refuses wrong answers. A reference of no row says nothing."""
    outcome, rows = trial.outcome, reference.rows
    checks: list[Check] = []
    for name, due in reference.values.items() if len(rows) else ():
        bound, axes = reference.bound[name], operation.outputs[name].axes
        got = outcome.outputs[name][rows]
        checks.append(within(named(outcome, name, "bound"), got, due, bound, labels=(rows,), axes=axes))
        checks.append(replace(_probed(due, bound), name=named(outcome, name, "self")))
    return checks


def _probed(due: np.ndarray, bound: np.ndarray) -> Check:
    """The negative probes of one output, its axes behind the first taken as one."""
    shape = (len(due), 1, -1)
    truth, limit = due.reshape(shape), np.broadcast_to(bound, due.shape).reshape(shape)
    return self_check(truth, limit, lambda got: within("self", got, truth, limit).verdict.passes)


def _same(
    operation: RowOperation, trial: Trial, got: Arrays, due: Arrays, check: str, labels: tuple[np.ndarray, ...] = ()
) -> list[Check]:
    """Bits of all outputs against those that are due, as the operation compares them."""
    return [
        identical(
            named(trial.outcome, name, check),
            operation.comparable(got[name]),
            operation.comparable(due[name]),
            labels=labels,
            axes=operation.outputs[name].axes,
        )
        for name in due
    ]
