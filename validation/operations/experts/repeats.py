"""An expert path once more on the same case: its tokens in another order, in every work shape, and in two parts.

Every pair keeps its bits, the same values are lost, and of each run is asked what is asked of the first. Another tier
that ran the case just before gave the same bits too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.core.operation import Trial
from validation.core.outcome import Outcome, Run
from validation.core.row_checks import ran
from validation.core.row_hooks import RowHooks
from validation.core.verdict import Check, holds, identical
from validation.numerics.fma import plain
from validation.operations.experts import checks
from validation.operations.experts.sampling import work
from validation.operations.experts.under_test import ExpertOperation, Shape

#: Multiply-adds up to which lanes repeat a case in a cut of two parts as well.
CUT_ON_LANES = 1 << 27


def shape_name(shape: Shape) -> str:
    """What the check of a work shape is called: `shape 4`, or `shape 4-2` of one for each product."""
    return f"shape {shape}" if isinstance(shape, int) else f"shape {shape[0]}-{shape[1]}"


def again(operation: RowHooks, kernels: ExpertOperation, trial: Trial) -> list[Check]:
    """What the runs after the first are asked, but for the bits of the repeat.

    Parameters
    ----------
    operation
        What asks every run.
    kernels
        Those of the path.
    """
    assert trial.again is not None
    data, tokens = trial.inputs, trial.case.tokens
    own = data.tokens(trial.case.stream("repeat").permutation(tokens))
    found = [_sound(operation, trial, "repeat", [Run(trial.repeats_on, trial.path, own, trial.again)])]
    for shape in _shapes(kernels, trial):
        got = kernels.outcome(trial.executor, trial.path, data, shape)
        run = Run(trial.executor, trial.path, data, got, shape)
        found += _alike(operation, trial, shape_name(shape), [run])
    small = trial.executor.name != "lanes" or work(trial.case, trial.case.pairs) <= CUT_ON_LANES
    if small and tokens > 1:
        cut = tokens // 3 or 1
        parts = [data.tokens(part) for part in (np.arange(cut), np.arange(cut, tokens))]
        other = trial.repeats_on
        runs = [Run(other, trial.path, part, kernels.outcome(other, trial.path, part)) for part in parts]
        found += _alike(operation, trial, "in parts", runs)
    return found + _tiers(trial)


def _shapes(kernels: ExpertOperation, trial: Trial) -> list[Shape]:
    """The work shapes that a case is repeated in; those that the device lacks are named in the figures."""
    shapes = kernels.shapes(trial.case)
    asked = {shape: kernels.lacks(trial.executor, trial.path, shape) for shape in shapes}
    missing = {shape_name(shape): why for shape, why in asked.items() if why}
    if missing:
        trial.found.figures["left_out"] = missing
    return [shape for shape in shapes if not asked[shape]]


def _alike(operation: RowHooks, trial: Trial, name: str, runs: Sequence[Run]) -> list[Check]:
    """The bits of runs that make up the first together, and what each of them is asked."""
    got = np.concatenate([run.outcome.outputs["out"] for run in runs])
    return [_same(name, got, trial.outcome), _sound(operation, trial, name, runs)]


def _same(name: str, got: np.ndarray, due: Outcome) -> Check:
    return identical(name, plain(got), plain(due.outputs["out"]), axes=checks.AXES)


def _sound(operation: RowHooks, trial: Trial, name: str, runs: Sequence[Run]) -> Check:
    """One check of what was asked of the runs that repeat a first one, and that together they lost what it lost."""
    said = f"{name} run"
    asked = [ran(operation, trial, run) for run in runs]
    for check in (check for own in asked for check in own):
        if not check.verdict.passes:
            return Check(said, check.verdict, f"{check.name}: {check.reason}", {})
    counts = [run.outcome.own.lost or () for run in runs]
    total = tuple(map(sum, zip(*counts, strict=True)))
    due = trial.outcome.own.lost or ()
    return holds(said, total == due, f"lost of x, h and outputs: {total} reported, {due} by the first run")


def _tiers(trial: Trial) -> list[Check]:
    """Against the bits of another tier of the same operation and mode, where one ran this case just before."""
    path, out = trial.path, trial.outcome.outputs["out"]
    key = ((trial.case, path.mode), path.operation)
    tier, other = trial.memo.get("expert tiers", key, lambda: (path.tier, trial.outcome))
    if tier == path.tier:
        return []
    return [_same(f"as {tier}", out, other)]
