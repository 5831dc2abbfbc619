"""Runs one case of an author's kernel: data, run, repeat, permuted, in parts, reference, bound, bits, verdict."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strata.executors.base import (
    BuildError,
    ContextLostError,
    Executor,
    ExecutorUnavailable,
    LaunchError,
    StrataError,
)
from strata.executors.lanes import RULES, Rule
from strata.unforeseen import unforeseen
from validation.check import data, expected, judgement
from validation.check.author import AuthorError
from validation.check.case import OwnCase
from validation.check.launching import POISONS, Outcome, launch, stale
from validation.check.load import Loaded
from validation.check.preconditions import promised
from validation.check.recipes import RECIPES
from validation.core.findings import Findings
from validation.core.handed import InputsChangedError
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.verdict import Check, Verdict, combine, holds
from validation.numerics import tensorcore_rules
from validation.numerics.tensorcore_bound import WIDEST
from validation.run.run_file import plain

#: The check of a kernel that broke a rule of the machine: a race, an access out of range, a barrier that some miss.
RULES_CHECK = "rules"


@dataclass(frozen=True)
class Where:
    """Where a case runs.

    Parameters
    ----------
    executor : Executor
        Of the judged run.
    twin : Executor, optional
        The same under another schedule, for the repeat; None repeats on the same one.
    invocation : str
        The command that chooses the same executor and kernel again.
    predictor : function of a rule, optional
        Opens lanes under a tensor-core rule, whose bits a card must give; None predicts nothing.
    """

    executor: Executor
    twin: Executor | None
    invocation: str
    predictor: Callable[[str], Executor] | None = None


@dataclass
class Known:
    """What is known of a case without its kernel: inputs, what they promise, and what the outputs must be."""

    inputs: Mapping[str, np.ndarray]
    checks: list[Check]
    due: Mapping[str, np.ndarray]
    floats: Mapping[str, judgement.Due]
    exact: Mapping[str, np.ndarray] | None


@dataclass
class Memory:
    """Keeps what is known of a few cases, for runs of several kernels on the same data. most: how many."""

    most: int = 0
    _known: dict[OwnCase, Known] = field(default_factory=dict)

    def of(self, case: OwnCase, make: Callable[[], Known]) -> Known:
        """What is known of a case, made when it is not kept."""
        if case in self._known:
            return self._known[case]
        known = make()
        if len(self._known) < self.most:
            self._known[case] = known
        return known


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
            checks.append(_renamed(bit_battery(due[name]), f"{prefix}self"))
            continue
        own = judgement.Due(output.dtype.name, due[name], limits[name], axes)
        if RECIPES[case.recipe].finite and not np.isfinite(due[name]).all():
            said = "the reference is not finite though all inputs are: narrow the domain, `within`, or leave it out"
            checks.append(Check(f"{prefix}reference", Verdict.VOID, said))
        rows = axes.index(kernel.apart[0]) if kernel.apart else None
        checks.append(judgement.battery(prefix, own, rows))
        floats[name] = own
    return Known(inputs, checks, due, floats, expected.exact(loaded, inputs, sizes))


def _renamed(check: Check, name: str) -> Check:
    return Check(name, check.verdict, check.reason, check.figures, check.at)


def prefix_of(loaded: Loaded, output: str) -> str:
    """What the names of an output's checks begin with: nothing where there is one output."""
    return "" if len(loaded.kernel.outputs) == 1 else f"{output} "


def findings(loaded: Loaded, case: OwnCase, where: Where, memory: Memory | None = None) -> Findings:
    """Every question put to one case.

    Raises
    ------
    LaunchError
        When the kernel breaks a rule of the machine in its first run.
    AuthorError
        For a fault in the author's file.
    """
    found, sizes = Findings(), case.by_name
    with found.timed("reference"):
        known = (memory or Memory()).of(case, lambda: know(loaded, case, rule_of(where.executor)))
    found.checks += known.checks
    with found.timed("new"):
        first = launch(where.executor, loaded, sizes, known.inputs)
    with found.timed("repeat"):
        again = launch(where.twin or where.executor, loaded, sizes, known.inputs, POISONS[1])
    found.checks += _ran(loaded, case, where.executor, first)
    found.checks += _repeated(loaded, first, again)
    with found.timed("orders"):
        found.checks += _reordered(loaded, case, where, known, first)
    for name, got in first.outputs.items():
        found.checks += _judged(loaded, name, got, known)
    if known.exact is not None:
        found.checks += _bits(loaded, "bits", first, known.exact, {"all_bits": True})
    with found.timed("prediction"):
        found.checks += _predicted(loaded, case, where, known, first)
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
        return checks  # who compiled it and what was launched is CuPy's word alone
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


def _reordered(loaded: Loaded, case: OwnCase, where: Where, known: Known, first: Outcome) -> list[Check]:
    """The items of every independent size in another order, and in two parts: each item keeps its bits."""
    checks: list[Check] = []
    for axis in loaded.kernel.apart:
        if case.by_name[axis] > 1:
            checks += _along(loaded, axis, case, where, known, first)
    return checks


def _along(loaded: Loaded, axis: str, case: OwnCase, where: Where, known: Known, first: Outcome) -> list[Check]:
    kernel, sizes = loaded.kernel, case.by_name
    count, size = sizes[axis], kernel.sizes[axis]
    axes_in = {name: tuple(array.axes) for name, array in kernel.inputs.items()}
    axes_out = {name: tuple(array.axes) for name, array in kernel.outputs.items()}
    other = where.twin or where.executor
    ending = f" {axis}" if len(kernel.apart) > 1 else ""

    def run(items: np.ndarray) -> Mapping[str, np.ndarray]:
        own = data.along(axis, axes_in, known.inputs, items)
        return launch(other, loaded, sizes | {axis: len(items)}, own).outputs

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
        check = Check(check.name, check.verdict, check.reason, check.figures | {"all_bits": True}, check.at)
    return [check]


def _bits(
    loaded: Loaded, what: str, got: Outcome, due: Mapping[str, np.ndarray], figures: dict[str, Any]
) -> list[Check]:
    checks = []
    for name in loaded.kernel.outputs:
        check = judgement.same(f"{prefix_of(loaded, name)}{what}", got.outputs[name], due[name], axes_of(loaded, name))
        checks.append(Check(check.name, check.verdict, check.reason, check.figures | figures, check.at))
    return checks


def _predicted(loaded: Loaded, case: OwnCase, where: Where, known: Known, first: Outcome) -> list[Check]:
    """On a card: the bits of the same source on lanes, under every rule that the card may follow; one must fit.

    Nothing where no rule is established for the card, and nothing of CuPy's kernels, which lanes do not run.
    """
    if where.predictor is None or where.executor.name == "lanes" or loaded.kernel.raw is not None:
        return []
    known_rules = tensorcore_rules.readings(where.executor)
    rules = known_rules if loaded.tensor_cores else (known_rules[:1] or ("exact",))
    found: list[Check] = []
    for rule in rules:
        due = launch(where.predictor(rule), loaded, case.by_name, known.inputs).outputs
        checks = _bits(loaded, "prediction", first, due, {"rule": rule, "all_bits": True})
        if all(check.verdict.passes for check in checks):
            return checks
        found = found or checks
    return found


def answered(run: Callable[[], Findings]) -> Findings:
    """What a case came to, with what it raised as its one check.

    A kernel that broke a rule of the machine, or changed its inputs, EXCEEDS; a case that could not run is NOT_RUN.

    Raises
    ------
    AuthorError, BuildError, ExecutorUnavailable
        Which every case would meet.
    """
    try:
        return run()
    except (AuthorError, BuildError, ExecutorUnavailable):
        raise
    except InputsChangedError as error:
        check = Check("inputs", Verdict.EXCEEDS, str(error))
    except ContextLostError as error:
        check = Check("run", Verdict.NOT_RUN, str(error))
    except LaunchError as error:
        check = Check(RULES_CHECK, Verdict.EXCEEDS, str(error))
    except StrataError as error:
        check = Check("run", Verdict.NOT_RUN, str(error))
    except MemoryError as error:
        check = Check("run", Verdict.NOT_RUN, f"too little memory for this case: {error}")
    except Exception as error:  # a fault of the harness, or of what it stands on: the other cases are none the worse
        check = Check("run", Verdict.NOT_RUN, unforeseen(error))
    return Findings([check])


def verdict_of(loaded: Loaded, checks: list[Check]) -> Verdict:
    """The verdict of a case: the worst of its checks; EXACT when besides every bit of it was predicted, and never for a
    launch that is not attested."""
    verdict = combine(checks)
    if not verdict.passes:
        return verdict
    predicted = any(check.verdict is Verdict.EXACT and check.figures.get("all_bits") for check in checks)
    return Verdict.EXACT if predicted and loaded.kernel.raw is None else Verdict.WITHIN_BOUND


def run_case(loaded: Loaded, case: OwnCase, where: Where, memory: Memory | None = None) -> dict[str, Any]:
    """Run one case.

    Returns
    -------
    dict
        JSON types only: case, recipe, path (the kernel's name), executor, verdict, explain (why it did not pass),
        rerun, checks, figures, seconds.

    Raises
    ------
    AuthorError, BuildError, ExecutorUnavailable
        As `answered` does.
    """
    found = answered(lambda: findings(loaded, case, where, memory))
    verdict = verdict_of(loaded, found.checks)
    command = f"{where.invocation} --case {shlex.quote(case.text())}"
    return dict(
        plain(
            {
                "case": case.text(),
                "recipe": case.recipe,
                "path": loaded.kernel.name,
                "executor": where.executor.describe(),
                "verdict": verdict,
                "explain": _explain(loaded, case, verdict, found.checks, command),
                "rerun": command,
                "checks": [
                    {"name": check.name, "verdict": check.verdict, "reason": check.reason, "figures": check.figures}
                    for check in found.checks
                ],
                "figures": found.figures,
                "seconds": found.seconds,
            }
        )
    )


def worst(verdict: Verdict, checks: list[Check]) -> Check | None:
    """The check that says most about a case that did not pass: of several that failed alike, the bound's."""
    failed = [check for check in checks if check.verdict is verdict]
    return next((check for check in failed if check.name.endswith("bound")), failed[0] if failed else None)


def _explain(loaded: Loaded, case: OwnCase, verdict: Verdict, checks: list[Check], command: str) -> str:
    if verdict.passes:
        return ""
    check = worst(verdict, checks)
    said = f"{check.name}: {check.reason}" if check else "no check was made"
    return f"{verdict.value} {loaded.kernel.name} {case.recipe} {said} | rerun: {command}"
