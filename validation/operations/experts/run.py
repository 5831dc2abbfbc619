"""Runs one case of an expert path: path, path again in other orders, bits, three steps against FP64, baseline,
verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from strata.executors.base import Executor, StrataError
from strata.kernels.paths import PATHS, Path
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.timed import timed
from validation.core.verdict import Check, holds, identical, written
from validation.numerics.fma import plain
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations.experts import checks, expected_hidden, expected_rows, published
from validation.operations.experts import inputs as made
from validation.operations.experts import preconditions as promises
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.expected_hidden import Fronts
from validation.operations.experts.expected_rows import Known
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.sampling import modelled, referenced, work
from validation.operations.experts.under_test import ExpertOperation, Outcome, Shape

Operations = Mapping[str, ExpertOperation]
#: Multiply-adds up to which lanes repeat a case in a cut of two parts as well, and up to which they predict a card's.
CUT_ON_LANES = 1 << 27
PREDICTED_ON_LANES = 1 << 28


def run(
    case: ExpertCase, path: Path, executor: Executor, settings: Settings, memo: Memo, operations: Operations
) -> Findings:
    """Findings of one expert path on one case. Raises StrataError when something cannot run."""
    found = Findings()
    operation, key = operations[path.operation], (case, path.mode)
    with found.timed("data"):
        data: Inputs = memo.get("expert inputs", key, lambda: made.build(case, path.mode))
        # Not kept in the memo: it is what tells that the memo gave this case's inputs.
        found.checks.append(promises.kept(case, data))
    if operation.refuses_strays and not data.named.all():
        found.checks.append(_refuses("refuses", path, executor, operation, data))
        return found
    with found.timed("new"):
        first = operation.run(executor, path, data, None, True)
    shape = (case.tokens, case.top, case.n)
    if first.out.shape != shape:
        found.checks.append(holds("shape", False, f"the output's shape is {first.out.shape}, expected {shape}"))
        return found
    found.checks += _ran("", path, executor, operation, data, first)
    if settings.recorder is not None:
        images = [executor.build(kernel) for kernel in operation.kernels(path, data, None)]
        settings.recorder.keep(path, case, data, first.out, first.witnesses, images)
    with found.timed("repeat"):
        asked = {shape_name(shape): operation.lacks(executor, path, shape) for shape in operation.shapes(case)}
        missing = {name: why for name, why in asked.items() if why}
        if missing:
            found.figures["left_out"] = missing
        found.checks += _again(case, path, executor, settings, operation, data, first, missing)
    found.checks += _tiers(memo, (key, path.operation), path, first.out)
    base = PATHS[path.baseline] if path.baseline else None
    basis = operations.get(base.operation) if base is not None else None
    held = basis is not None and (data.named.all() or not basis.refuses_strays)
    with found.timed("bits"):
        pairs, whole = modelled(case, data, settings.predict == "all")
        arithmetics = [operation.arithmetic, *([basis.arithmetic] if basis is not None and held else [])]
        some = referenced(case, data, pairs)
        begun: Fronts = memo.get(
            f"fronts of {path.operation}",
            (case, data.gate_up, whole, held),  # modes that differ in down alone share them
            lambda: expected_hidden.fronts(data, pairs, some, arithmetics),
        )
        of: tuple[Known, ...] = memo.get(
            f"known of {path.operation}",
            (key, whole, held),
            lambda: expected_rows.known(data, pairs, some, arithmetics, begun),
        )
        own = of[0]
        if len(pairs):
            found.checks += checks.of_bits("bits", first, own.bits, whole)
        else:  # every row is nobody's, and all of it was looked at
            found.checks[-1] = replace(found.checks[-1], figures={"all_bits": True})
        found.checks += checks.finite(case, data, first, own.bits, whole)
    with found.timed("prediction"):
        found.checks += _predicted(case, path, executor, settings, operation, data, first.out)
    if own.model is not None:
        found.checks += _referred(found, data, first, own)
        found.figures |= {"pairs_predicted": len(pairs), "pairs_referenced": len(own.referenced)}
    old: Outcome | None = None
    if base is not None and basis is not None:
        if not held:
            found.checks.append(_refuses("baseline refuses", base, executor, basis, data))
            return found
        with found.timed("old"):
            second: Outcome = memo.get(
                "expert old", (case, base, executor), lambda: basis.run(executor, base, data, None, False)
            )
        old = second
        found.checks += _ran("baseline ", base, executor, basis, data, second)
        with found.timed("baseline"):
            found.checks += _baseline(found, case, data, second, of[1])
    if settings.reps:
        with found.timed("timing"):
            _time(
                found, data, ((path, first.out), (base, old.out if old else None)), executor, settings.reps, operations
            )
    return found


def _refuses(name: str, path: Path, executor: Executor, operation: ExpertOperation, data: Inputs) -> Check:
    """A path without rows for nobody says so, and computes nothing."""
    try:
        operation.run(executor, path, data, None, False)
    except StrataError as error:
        strays = data.ids[~data.named]
        due = (f"names expert {int(strays[0])}, ", f"{strays.size} such ids")
        said = all(part in str(error) for part in due)
        return holds(
            name, said, f"it says {str(error)!r}, expected {' and '.join(due)}", {"said": str(error), "all_bits": True}
        )
    return holds(name, False, "ids that name nobody were taken")


def _ran(
    prefix: str,
    path: Path,
    executor: Executor,
    operation: ExpertOperation,
    data: Inputs,
    got: Outcome,
    shape: Shape | None = None,
) -> list[Check]:
    """What is asked of every run, whatever its numbers."""
    due, count = operation.kernels(path, data, shape), operation.launches(data, shape)
    found = [
        written("written", got.out, axes=checks.AXES),
        holds("guards", got.guards_ok, "memory around a buffer was overwritten"),
        *checks.launched(executor, got.witnesses, due, count),
    ]
    if got.grouping is not None:
        found.append(checks.grouped(data, got.grouping))
    found += checks.nobody(data, got)
    return [replace(check, name=f"{prefix}{check.name}") for check in found]


def _again(
    case: ExpertCase,
    path: Path,
    executor: Executor,
    settings: Settings,
    operation: ExpertOperation,
    data: Inputs,
    first: Outcome,
    missing: Collection[str],
) -> list[Check]:
    """The path once more: its tokens in another order, in every work shape but those named as missing, and in two
    parts. Every pair keeps its bits, the same values are lost, and of each run is asked what is asked of the first."""
    other, out = settings.twin or executor, first.out
    order = case.stream("repeat").permutation(case.tokens)
    own = data.tokens(order)
    turned = operation.run(other, path, own, None, False)
    found = [
        _same("repeat", turned.out, out[order], order),
        _sound("repeat", [_ran("", path, other, operation, own, turned)], first, [turned]),
    ]
    found[0] = replace(found[0], figures=found[0].figures | {"other_schedule": settings.twin is not None})
    for shape in operation.shapes(case):
        if shape_name(shape) in missing:
            continue
        again = operation.run(executor, path, data, shape, False)
        name = shape_name(shape)
        found.append(_same(name, again.out, out))
        found.append(_sound(name, [_ran("", path, executor, operation, data, again, shape)], first, [again]))
    small = executor.name != "lanes" or work(case, case.pairs) <= CUT_ON_LANES
    if small and case.tokens > 1:
        cut = case.tokens // 3 or 1
        parts = [data.tokens(part) for part in (np.arange(cut), np.arange(cut, case.tokens))]
        halves = [operation.run(other, path, part, None, False) for part in parts]
        found.append(_same("in parts", np.concatenate([half.out for half in halves]), out))
        asked = [_ran("", path, other, operation, part, half) for part, half in zip(parts, halves, strict=True)]
        found.append(_sound("in parts", asked, first, halves))
    return found


def shape_name(shape: Shape) -> str:
    """What the check of a work shape is called: `shape 4`, or `shape 4-2` of one for each product."""
    return f"shape {shape}" if isinstance(shape, int) else f"shape {shape[0]}-{shape[1]}"


def _same(name: str, got: np.ndarray, due: np.ndarray, order: np.ndarray | None = None) -> Check:
    labels = () if order is None else (order,)
    return identical(name, plain(got), plain(due), labels=labels, axes=checks.AXES)


def _sound(name: str, asked: Sequence[Sequence[Check]], first: Outcome, runs: Sequence[Outcome]) -> Check:
    """One check of what was asked of the runs that repeat a first one, and that together they lost what it lost."""
    said = f"{name} run"
    for check in (check for own in asked for check in own):
        if not check.verdict.passes:
            return Check(said, check.verdict, f"{check.name}: {check.reason}", {})
    counts = [run.lost or () for run in runs]
    total = tuple(map(sum, zip(*counts, strict=True)))
    due = first.lost or ()
    return holds(said, total == due, f"lost of x, h and outputs: {total} reported, {due} by the first run")


def _tiers(memo: Memo, key: object, path: Path, out: np.ndarray) -> list[Check]:
    """Against the bits of another tier of the same operation and mode, where one ran this case just before."""
    tier, other = memo.get("expert tiers", key, lambda: (path.tier, out))
    if tier == path.tier:
        return []
    return [identical(f"as {tier}", plain(out), plain(other), axes=checks.AXES)]


def _referred(found: Findings, data: Inputs, first: Outcome, own: Known) -> list[Check]:
    """The referenced pairs against FP64: step by step, as a whole, and whether the bounds refuse wrong answers."""
    model, whole = own.model, own.arithmetic.whole
    assert model is not None
    with found.timed("steps"):
        out, down = checks.of_steps(first, own)
    with found.timed("reference"):
        got = checks.rows(first.out, model.pairs)
        if whole:
            out.append(checks.limited("bound", got, model.rounded, model.pairs))
        due = model.rounded if whole else down
        if due is not None:
            out.append(checks.battery(model.pairs, due, data))
        out.append(checks.refused_bit(first.out))
        found.figures |= {f"new_{name}": value for name, value in checks.errors(got, model).items()}
    return out


def _predicted(
    case: ExpertCase,
    path: Path,
    executor: Executor,
    settings: Settings,
    operation: ExpertOperation,
    data: Inputs,
    out: np.ndarray,
) -> list[Check]:
    """On a card, the bits of lanes on a case that lanes can do; integer products need no rule of a tensor core."""
    small = work(case, case.pairs) <= PREDICTED_ON_LANES
    if settings.predict == "none" or executor.name == "lanes" or settings.predictor is None or not small:
        return []
    due = operation.run(settings.predictor(DEFAULT_RULE), path, data, None, False).out
    return [identical("prediction", plain(out), plain(due), axes=checks.AXES)]


def _baseline(found: Findings, case: ExpertCase, data: Inputs, old: Outcome, due: Known) -> list[Check]:
    """Whether the baseline is right itself, and how far both are from FP64 on the float32 tokens."""
    out: list[Check] = []
    if len(due.bits.pairs):
        out += checks.of_bits("baseline bits", old, due.bits, False)
    if due.model is None:
        return out
    got = checks.rows(old.out, due.referenced)
    out.append(checks.limited("baseline bound", got, due.model.rounded, due.referenced))
    found.figures |= {f"old_{name}": value for name, value in checks.errors(got, due.model).items()}
    if checks.as_published(case):
        out += published.gates(found.figures)
    return out


def _time(
    found: Findings,
    data: Inputs,
    runs: tuple[tuple[Path, np.ndarray], tuple[Path | None, np.ndarray | None]],
    executor: Executor,
    reps: int,
    operations: Operations,
) -> None:
    """Device times of path and baseline on the same inputs; what was timed must be what was judged."""
    for name, (path, out) in zip(("new", "old"), runs, strict=True):
        if path is None or out is None:
            continue
        made = timed(operations[path.operation].prepare, executor, path, data, reps)
        if made is None:
            found.figures["device_time"] = "no device clock on this executor"
            return
        times, last = made
        again = plain(last.reshape(out.shape))
        same = np.array_equal(again.view(np.uint32), plain(out).view(np.uint32))
        found.checks.append(holds(f"timed {name}", same, "the timed runs gave other bits than the judged one"))
        said: dict[str, Any] = {"milliseconds": times, "median": median(times)}
        found.figures[f"device_{name}"] = said
    if "device_old" in found.figures:
        found.figures["device_ratio"] = found.figures["device_old"]["median"] / found.figures["device_new"]["median"]
