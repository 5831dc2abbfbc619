"""What the numbers of one attention case are asked: the gates, and the battery against the gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from validation.core.negative_probes import self_check
from validation.core.verdict import AXES, Check, short, within
from validation.numerics.ulps import histogram
from validation.operations.attention.bounds import prompt_attention as bounds
from validation.operations.attention.reference import Reference


@dataclass(frozen=True)
class Truth:
    """What outputs are held against. bound, base_bound: float64 like reference.out, how far path and
    baseline may be from the reference, whose own error they include; base_bound None: the path is itself a
    baseline; published: whether the case is large enough for the published gates; predicted: float32 like
    reference.out, the bits the path should give, None where they are not known."""

    reference: Reference
    bound: np.ndarray
    base_bound: np.ndarray | None
    published: bool = False
    predicted: np.ndarray | None = None


def gates(new: np.ndarray, old: np.ndarray | None, truth: Truth) -> list[Check]:
    """What a path's output is asked, given its baseline's. Both float32 [n_q, n_head, 256].

    truth.reference.queries says which rows of `new` and `old` its rows are.
    """
    reference = truth.reference
    rows = reference.queries

    def judged(name: str, want: np.ndarray, limit: np.ndarray | float) -> Check:
        return within(name, new[rows], want, limit, labels=(rows,), axes=AXES, predicted=truth.predicted)

    checks = [judged("bound", reference.out, truth.bound)]
    if old is None or truth.base_bound is None:
        return checks
    base = old[rows]
    if truth.published:
        bound = bounds.accuracy(base, reference.out)
        checks.append(judged("gate 1", reference.out, bound))
    else:
        checks.append(judged("agreement", base, truth.bound + truth.base_bound))
    # Rows without a reference have the second published gate also where the sample is too small for the first.
    if truth.published or len(rows) < len(new):
        checks.append(within("gate 2", new, old, bounds.agreement(old), axes=AXES))
    return checks


def baseline_within_bound(old: np.ndarray, truth: Truth) -> Check:
    """Whether the baseline is right itself: gates that compare with it would be as wide as it is wrong."""
    rows = truth.reference.queries
    assert truth.base_bound is not None
    return within("baseline bound", old[rows], truth.reference.out, truth.base_bound, labels=(rows,), axes=AXES)


def located(check: Check, truth: Truth) -> Check:
    """A failed comparison of bits with the reference and its bound at the element that the reason names.

    Unchanged where the check names no element, or one of a query without a reference.
    """
    bound = truth.base_bound if check.name.startswith("baseline") else truth.bound
    reference = truth.reference
    if check.at is None or bound is None or len(check.at) != reference.out.ndim:
        return check
    row = np.flatnonzero(reference.queries == check.at[0])
    if len(row) == 0:
        return check
    index = (int(row[0]), *check.at[1:])
    reason = f"{check.reason}, reference {short(float(reference.out[index]))}, bound {float(bound[index]):.3g}"
    return replace(check, reason=reason)


def battery(old: np.ndarray | None, truth: Truth) -> Check:
    """Whether the gates refuse every wrong answer on the queries that have a reference."""
    reference = truth.reference
    local = replace(truth, reference=replace(reference, queries=np.arange(len(reference.queries))))
    base = None if old is None else old[reference.queries]

    def judge(candidate: np.ndarray) -> bool:
        return all(check.verdict.passes for check in gates(candidate, base, local))

    return self_check(reference.out, truth.bound, judge)


def worst(new: np.ndarray, truth: Truth) -> tuple[int, int, int]:
    """Where new [queries of the reference, heads, 256] is furthest from the reference, over the bound."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.abs(new.astype(np.float64) - truth.reference.out)
        share = np.where(error == 0, 0.0, error / truth.bound)
    at = int(np.argmax(np.where(np.isnan(share), np.inf, share)))
    row, head, dim = (int(i) for i in np.unravel_index(at, share.shape))
    return row, head, dim


def _relative(error: float, scale: float) -> float | None:
    return error / scale if scale > 0 else None


def figures(new: np.ndarray, old: np.ndarray | None, reference: Reference) -> dict[str, Any]:
    """Errors for the report: absolute, relative to the output's scale, by head, in units in the last place, and over
    the published gates.

    Per head, a head's largest error is divided by that head's own largest output: a small head
    beside a large one is shown at its own size.
    """
    rows, truth = reference.queries, reference.out
    scale = float(np.abs(truth).max(initial=0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(new[rows].astype(np.float64) - truth)
        by_head, size = error.max(axis=(0, 2)), np.abs(truth).max(axis=(0, 2))
        out: dict[str, Any] = {"scale": scale, "error_new": float(error.max()), "queries_referenced": len(rows)}
        out["error_new_of_scale"] = _relative(out["error_new"], scale)
        heads = [_relative(float(e), float(s)) for e, s in zip(by_head, size, strict=True)]
        known = [share for share in heads if share is not None]
        out["error_new_worst_head"] = max(known, default=None)
        out["error_new_by_head"] = heads
        out["ulps_new"] = histogram(new[rows], truth)
        if old is not None:
            gate_1 = bounds.accuracy(old[rows], truth)
            out["gate_1"] = out["error_new"] / gate_1 if gate_1 > 0 else float(out["error_new"] > 0)
            base = np.abs(old[rows].astype(np.float64) - truth)
            out["error_old"] = float(base.max())
            out["ulps_old"] = histogram(old[rows], truth)
            out["error_old_of_scale"] = _relative(out["error_old"], scale)
            out["difference"] = float(np.abs(new.astype(np.float64) - old).max())
            out["difference_of_scale"] = _relative(out["difference"], float(np.abs(old).max()))
            out["gate_2"] = out["difference"] / bounds.agreement(old) if np.abs(old).max() > 0 else 0.0
        if reference.rounded is not None:
            rounded = np.abs(new[rows].astype(np.float64) - reference.rounded)
            out["error_new_to_rounded_v"] = float(rounded.max())
            out["error_new_to_rounded_v_of_scale"] = _relative(
                out["error_new_to_rounded_v"], float(np.abs(reference.rounded).max())
            )
    return out
