"""Judges one case of an author's kernel: data, run, repeat, permuted, in parts, reference, bound, bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import RULES, Rule
from validation.check import data, expected, judgement, sensitivity
from validation.check.case import OwnCase
from validation.check.launching import POISONS, launch, stale
from validation.check.load import Loaded
from validation.check.preconditions import promised
from validation.check.recipes import RECIPES
from validation.core.findings import Findings
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.operation import Trial
from validation.core.outcome import Outcome
from validation.core.verdict import Check, Verdict, holds
from validation.numerics import tensorcore_rules
from validation.numerics.tensorcore_bound import WIDEST


@dataclass
class Known:
    """What is known of a case without its kernel: inputs, what they promise, and what the outputs must be."""

    inputs: Mapping[str, np.ndarray]
    checks: list[Check]
    due: Mapping[str, np.ndarray]
    floats: Mapping[str, judgement.Due]
    exact: Mapping[str, np.ndarray] | None


def rule_of(executor: Executor) -> Rule:
    """The tensor core's rule by which bounds are made where a kernel runs."""
    rule = getattr(executor, "rule", None)
    if isinstance(rule, Rule):
        return rule
    name = tensorcore_rules.rule_on(executor)
    return WIDEST if name is None else RULES[name]


def axes_of(loaded: Loaded, output: str) -> tuple[str, ...]:
    """What the axes of an output are called in reasons."""
    axes = loaded.kernel.outputs[output].axes
    return tuple(axis if isinstance(axis, str) else f"axis{index}" for index, axis in enumerate(axes))


def know(loaded: Loaded, case: OwnCase, rule: Rule) -> Known:
    """Make the data of a case and what its outputs must be. Raises AuthorError for a fault in the author's file."""
    kernel, sizes = loaded.kernel, case.by_name
    inputs = data.inputs_of(loaded, case)
    about = data.targets(kernel, case.recipe, case.seed)
    checks = [promised(RECIPES[case.recipe], data.filled(kernel), inputs, about)]
    due = expected.reference(loaded, inputs, sizes)
    limits = expected.limits(loaded, inputs, due, sizes, rule)
    floats: dict[str, judgement.Due] = {}
    for name, output in kernel.outputs.items():
        prefix, axes = prefix_of(loaded, name), axes_of(loaded, name)
        if not output.floating:
            asked = _renamed(bit_battery(due[name]), f"{prefix}self")
            checks.append(replace(asked, figures=asked.figures | {sensitivity.FIGURE: sensitivity.nonzero(due[name])}))
            continue
        own = judgement.Due(output.dtype.name, due[name], limits[name], axes)
        if RECIPES[case.recipe].finite and not np.isfinite(due[name]).all():
            at = judgement.placed(axes, ~np.isfinite(due[name]))
            said = f"not finite {at} though all inputs are: narrow the domain, `within`, or leave the recipe out"
            checks.append(Check(f"{prefix}reference", Verdict.VOID, said))
        rows = axes.index(kernel.apart[0]) if kernel.apart else None
        found = judgement.battery(prefix, own, rows)
        share = sensitivity.held_closely(own) if RECIPES[case.recipe].finite else None
        checks.append(replace(found, figures=found.figures | {sensitivity.FIGURE: share}))
        floats[name] = own
    return Known(inputs, checks, due, floats, expected.exact(loaded, inputs, sizes))


def _renamed(check: Check, name: str) -> Check:
    return Check(name, check.verdict, check.reason, check.figures, check.at)


def prefix_of(loaded: Loaded, output: str) -> str:
    """What the names of an output's checks begin with: nothing where there is one output."""
    return "" if len(loaded.kernel.outputs) == 1 else f"{output} "


def findings(loaded: Loaded, trial: Trial, other: Callable[[], Executor] | None = None) -> Findings:
    """Every question put to one case.

    Parameters
    ----------
    loaded : Loaded
        The author's kernel.
    trial : Trial
        The case, and where it runs.
    other : function, optional
        Opens lanes of another build, in which local variables begin as other bits.

    Raises
    ------
    LaunchError
        When the kernel breaks a rule of the machine.
    AuthorError
        For a fault in the author's file.
    """
    found, case, sizes = trial.found, trial.case, trial.case.by_name
    rule = rule_of(trial.executor)
    with found.timed("reference"):
        known = trial.memo.get("own", (loaded.kernel, case, rule), lambda: know(loaded, case, rule))
    found.checks += known.checks
    with found.timed("new"):
        first = launch(trial.executor, loaded, sizes, known.inputs)
    with found.timed("repeat"):
        again = launch(trial.repeats_on, loaded, sizes, known.inputs, POISONS[1])
    found.checks += _ran(loaded, case, trial.executor, first)
    found.checks += _repeated(loaded, first, again)
    if other is not None and getattr(trial.executor, "flavor", "") == "checked":
        with found.timed("builds"):
            built = launch(other(), loaded, sizes, known.inputs)
        found.checks += _same(loaded, "builds", built.outputs, first.outputs)
    with found.timed("orders"):
        found.checks += _reordered(loaded, trial, known, first)
    for name, got in first.outputs.items():
        found.checks += _judged(loaded, name, got, known)
    if known.exact is not None:
        found.checks += _bits(loaded, "bits", first, known.exact, {})
    with found.timed("prediction"):
        found.checks += _predicted(loaded, trial, known, first)
    slacks = [
        check.figures["slack"] for check in found.checks if check.name.endswith("bound") and "slack" in check.figures
    ]
    if slacks:
        found.figures["slack"] = max(slacks)
    return found


def _ran(loaded: Loaded, case: OwnCase, executor: Executor, got: Outcome) -> list[Check]:
    """What every run is asked, whatever its numbers: memory beside the buffers, and the proof that it ran."""
    checks = [holds("guards", got.guards_ok, "memory around a buffer was overwritten")]
    if loaded.kernel.raw is not None:
        # Who compiled it and what was launched is CuPy's word alone, so that no case is EXACT.
        return [*checks, Check("attested", Verdict.WITHIN_BOUND)]
    due = loaded.launches(case.by_name)
    images = {kernel.entry: executor.build(kernel).digest for kernel, _ in due}
    blocks = sum(int(np.prod(one.grid, dtype=np.int64)) for _, one in due)
    return [*checks, witnessed(executor, got.witnesses, blocks, images)]


def _repeated(loaded: Loaded, first: Outcome, again: Outcome) -> list[Check]:
    checks = []
    for name, output in loaded.kernel.outputs.items():
        prefix, axes = prefix_of(loaded, name), axes_of(loaded, name)
        one, two = first.outputs[name], again.outputs[name]
        if output.start is None:
            checks.append(judgement.unwritten(f"{prefix}written", stale(one, two), axes))
        checks.append(judgement.same(f"{prefix}repeat", two, one, axes))
    checks.append(holds("guards of the repeat", again.guards_ok, "memory around a buffer was overwritten"))
    return checks


def _same(loaded: Loaded, what: str, got: Mapping[str, np.ndarray], due: Mapping[str, np.ndarray]) -> list[Check]:
    """Whether the bits of every output are those that are due."""
    return [
        judgement.same(f"{prefix_of(loaded, name)}{what}", got[name], due[name], axes_of(loaded, name))
        for name in loaded.kernel.outputs
    ]


def _reordered(loaded: Loaded, trial: Trial, known: Known, first: Outcome) -> list[Check]:
    """The items of every independent size in another order, and in two parts: each item keeps its bits."""
    checks: list[Check] = []
    for axis in loaded.kernel.apart:
        if trial.case.by_name[axis] > 1:
            checks += _along(loaded, axis, trial, known, first)
    return checks


def _along(loaded: Loaded, axis: str, trial: Trial, known: Known, first: Outcome) -> list[Check]:
    kernel, case, sizes = loaded.kernel, trial.case, trial.case.by_name
    count, size = sizes[axis], kernel.sizes[axis]
    axes_in = {name: tuple(array.axes) for name, array in kernel.inputs.items()}
    axes_out = {name: tuple(array.axes) for name, array in kernel.outputs.items()}
    ending = f" {axis}" if len(kernel.apart) > 1 else ""

    def run(items: np.ndarray) -> Mapping[str, np.ndarray]:
        own = data.along(axis, axes_in, known.inputs, items)
        return launch(trial.repeats_on, loaded, sizes | {axis: len(items)}, own).outputs

    def same(name: str, what: str, got: np.ndarray, due: np.ndarray) -> Check:
        return judgement.same(f"{prefix_of(loaded, name)}{what}{ending}", got, due, axes_of(loaded, name))

    order = data.stream_of(case, "order", axis).permutation(count)
    turned, due = run(order), data.along(axis, axes_out, first.outputs, order)
    checks = [same(name, "permuted", turned[name], due[name]) for name in kernel.outputs]
    cut = size.near(count // 3)
    if 0 < cut < count and size.allows(cut) and size.allows(count - cut):
        parts = [run(items) for items in (np.arange(cut), np.arange(cut, count))]
        for name in kernel.outputs:
            whole = np.concatenate([part[name] for part in parts], axis=axes_out[name].index(axis))
            checks.append(same(name, "in parts", whole, first.outputs[name]))
    return checks


def _judged(loaded: Loaded, name: str, got: np.ndarray, known: Known) -> list[Check]:
    prefix = prefix_of(loaded, name)
    if name in known.floats:
        return judgement.asked(prefix, got, known.floats[name])
    check = judgement.same(f"{prefix}bound", got, known.due[name], axes_of(loaded, name))
    if len(known.due) > len(known.floats) == 0:  # integers alone: the reference says every bit
        check = _figured(loaded, check, {})
    return [check]


def _figured(loaded: Loaded, check: Check, figures: dict[str, Any]) -> Check:
    """A check that speaks of every bit of an output. Of a launch that nobody attests even these prove nothing."""
    whole = {} if loaded.kernel.raw is not None else {"all_bits": True}
    return Check(check.name, check.verdict, check.reason, check.figures | figures | whole, check.at)


def _bits(
    loaded: Loaded, what: str, got: Outcome, due: Mapping[str, np.ndarray], figures: dict[str, Any]
) -> list[Check]:
    return [_figured(loaded, check, figures) for check in _same(loaded, what, got.outputs, due)]


def _predicted(loaded: Loaded, trial: Trial, known: Known, first: Outcome) -> list[Check]:
    """On a card: the bits of the same source on lanes, under every rule that the card may follow; one must fit.

    Nothing where no rule is established for the card, and nothing of CuPy's kernels, which lanes do not run.
    """
    predictor = trial.settings.predictor
    if trial.settings.predict == "none" or predictor is None or trial.executor.name == "lanes":
        return []
    known_rules = tensorcore_rules.readings(trial.executor)
    rules = known_rules if loaded.tensor_cores else (known_rules[:1] or ("exact",))
    found: list[Check] = []
    for rule in rules:
        due = launch(predictor(rule), loaded, trial.case.by_name, known.inputs).outputs
        checks = _bits(loaded, "prediction", first, due, {"rule": rule})
        if all(check.verdict.passes for check in checks):
            return checks
        found = found or checks
    return found
