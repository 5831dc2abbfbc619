"""Runs one case of the router or of combining: every bit, FP64 within the bound, tokens in another order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError, Witness
from strata.kernels import combine, router
from strata.kernels.combine import Combined
from strata.kernels.paths import AROUND, Path
from strata.kernels.router import Routing
from validation.core.findings import Findings
from validation.core.handed import handed
from validation.core.negative_probes import self_check
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds, identical, within, written
from validation.operations.attention import gates as judge
from validation.operations.combine import bound as combine_bounds
from validation.operations.combine import reference as combine_reference
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.checks import plain
from validation.operations.router import bound as router_bounds
from validation.operations.router import inputs as around
from validation.operations.router import reference as router_reference
from validation.operations.router.inputs import Sums


def kernels_of(operation: str) -> list[Kernel]:
    """The one kernel of either operation. Raises StrataError for another operation."""
    made = {"router": router.kernel, "combine": combine.kernel}
    if operation not in made:
        raise StrataError(f"operation {operation!r} has no kernel here, expected one of {', '.join(made)}")
    return [made[operation]()]


@dataclass(frozen=True)
class Around:
    """The kernels under test, each handed copies, and what they are made of."""

    route: Callable[[Executor, np.ndarray, int], Routing] = router.run
    combine: Callable[..., Combined] = combine.run
    kernels: Callable[[str], list[Kernel]] = kernels_of

    def __post_init__(self) -> None:
        for name in ("route", "combine"):
            object.__setattr__(self, name, handed(getattr(self, name)))


def run(
    case: ExpertCase, path: Path, executor: Executor, settings: Settings, kernels: Around | None = None
) -> Findings:
    """Findings of one case of either. Raises UnknownOperationError for a path of another operation."""
    own = kernels or Around()
    found = Findings()
    if path.operation == "router":
        _route(found, case, executor, settings, own)
    elif path.operation == "combine":
        _combine(found, case, executor, settings, own)
    else:
        raise UnknownOperationError(path, "case", AROUND)
    return found


def _ran(executor: Executor, kernels: list[Kernel], witnesses: list[Witness], guards_ok: bool) -> list[Check]:
    images = {kernel.entry: executor.build(kernel).digest for kernel in kernels}
    return [
        holds("guards", guards_ok, "memory around a buffer was overwritten"),
        judge.witnessed(executor, witnesses, None, images),
    ]


def _whole(check: Check) -> Check:
    """Every bit was predicted, which makes a case that passes EXACT."""
    return replace(check, figures=check.figures | {"all_bits": True})


def _route(found: Findings, case: ExpertCase, executor: Executor, settings: Settings, own: Around) -> None:
    with found.timed("data"):
        logits = around.logits(case)
    with found.timed("new"):
        got = own.route(executor, logits, case.top)
    order = case.stream("repeat").permutation(case.tokens)
    with found.timed("repeat"):
        again = own.route(settings.twin or executor, np.ascontiguousarray(logits[order]), case.top)
    with found.timed("reference"):
        due = router_reference.route(logits, case.top)
        bits = router_reference.weight_bits(logits, case.top)
        bound = router_bounds.weights(due, case.experts)
    axes = ("token", "rank")
    nans, infinities = int(np.isnan(logits).sum()), int(np.isinf(logits).sum())
    found.checks += _ran(executor, own.kernels("router"), got.witnesses, got.guards_ok)
    found.checks += [
        written("written", got.weights, axes=axes),
        identical("ids", got.ids, due.ids, axes=axes),
        _whole(identical("bits", got.weights, bits, axes=axes)),
        within("bound", got.weights, due.weights, bound, axes=axes),
        identical("repeat", again.weights, got.weights[order], labels=(order,), axes=axes),
        identical("repeat of ids", again.ids, got.ids[order], labels=(order,), axes=axes),
        holds("nans", got.nans == nans, f"{got.nans} NaN reported, expected {nans}"),
        holds("infinities", got.infinities == infinities, f"{got.infinities} reported, expected {infinities}"),
        judge.bit_battery(got.ids),
        replace(judge.bit_battery(got.weights), name="self bits"),
    ]


def _sum(own: Around, executor: Executor, data: Sums) -> Combined:
    return own.combine(executor, data.rows, data.weights, data.shared, data.gate)


def _combine(found: Findings, case: ExpertCase, executor: Executor, settings: Settings, own: Around) -> None:
    with found.timed("data"):
        data = around.sums(case)
    with found.timed("new"):
        got = _sum(own, executor, data)
    order = case.stream("repeat").permutation(case.tokens)
    with found.timed("repeat"):
        again = _sum(own, settings.twin or executor, data.tokens(order))
    with found.timed("reference"):
        parts = (data.rows, data.weights, data.shared, data.gate)
        with np.errstate(invalid="ignore", over="ignore"):
            bits = plain(combine_reference.combine_bits(*parts))
        kept = np.isfinite(bits)
        rows = np.flatnonzero(kept.all(axis=1))
        sound = data.tokens(rows)
        parts = (sound.rows, sound.weights, sound.shared, sound.gate)
        due, bound = combine_reference.combine(*parts), combine_bounds.rows(*parts)
    axes, lost = ("token", "column"), int((~kept).sum())
    out = plain(got.out)
    strange = int((np.isfinite(out) != kept).sum())
    found.checks += _ran(executor, own.kernels("combine"), got.witnesses, got.guards_ok)
    found.checks += [
        written("written", got.out, axes=axes),
        _whole(identical("bits", out, bits, axes=axes)),
        identical("repeat", plain(again.out), out[order], labels=(order,), axes=axes),
        holds("lost", got.lost == lost, f"{got.lost} outputs reported lost, expected {lost}"),
        holds("lost again", again.lost == lost, f"{again.lost} outputs reported lost by the repeat, expected {lost}"),
        holds("broken", strange == 0, f"{strange} outputs are finite where they cannot be, or the other way round"),
        replace(judge.bit_battery(got.out), name="self bits"),
    ]
    if len(rows):  # FP64 says nothing of a token that is not finite
        found.checks += [
            within("bound", got.out[rows], due, bound, labels=(rows,), axes=axes),
            self_check(
                due[:, None], bound[:, None], lambda x: within("self", x, due[:, None], bound[:, None]).verdict.passes
            ),
        ]
