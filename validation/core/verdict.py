"""Typed verdicts and the comparators that give them.

A comparator never passes what it cannot judge: a NaN fails, a reference or bound that is not
finite voids the comparison, an empty one voids it, as does an array compared with its own memory, and
a wrong shape or dtype is a wrong answer. `validation.controls` asks all of this at the start of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE


class Verdict(Enum):
    """What a check, a case or a run came to. Only EXACT and WITHIN_BOUND pass."""

    EXACT = "EXACT"
    WITHIN_BOUND = "WITHIN_BOUND"
    EXCEEDS = "EXCEEDS"
    VOID = "VOID"
    NOT_RUN = "NOT_RUN"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def passes(self) -> bool:
        return self in (Verdict.EXACT, Verdict.WITHIN_BOUND)


#: What the axes of an attention output are called.
AXES = ("query", "head", "dim")
#: When checks disagree the first of these that occurs is the verdict of all.
_WORST_FIRST = (Verdict.EXCEEDS, Verdict.VOID, Verdict.NOT_RUN, Verdict.INCONCLUSIVE, Verdict.WITHIN_BOUND)


@dataclass(frozen=True)
class Check:
    """One question put to a case. reason: one line, empty when it passed; figures: for the report;
    at: the element that the reason names, in the reader's numbers, where a comparison of bits failed."""

    name: str
    verdict: Verdict
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    at: tuple[int, ...] | None = None


def combine(checks: Iterable[Check]) -> Verdict:
    """The verdict of several checks: the worst; EXACT only when all are; NOT_RUN when there is none."""
    found = {check.verdict for check in checks}
    for verdict in _WORST_FIRST:
        if verdict in found:
            return verdict
    return Verdict.EXACT if found else Verdict.NOT_RUN


def _place(index: tuple[int, ...], axes: tuple[str, ...] = ()) -> str:
    """`query 17 head 3 dim 44` where each axis has a name, else `[17, 3, 44]`."""
    if len(axes) == len(index):
        return " ".join(f"{axis} {i}" for axis, i in zip(axes, index, strict=True))
    return "[" + ", ".join(str(i) for i in index) + "]"


def short(value: float) -> str:
    """A float32 in nine digits, which tell any two apart."""
    return f"{value:.9g}"


def float32_bits(value: float | np.floating[Any]) -> str:
    """The bits of a number rounded to float32, as hexadecimal digits."""
    with np.errstate(over="ignore", under="ignore"):
        return f"{int(np.float32(value).view(np.uint32)):08x}"


def within(
    name: str,
    got: np.ndarray,
    want: np.ndarray,
    bound: np.ndarray | float,
    *,
    labels: tuple[np.ndarray, ...] = (),
    axes: tuple[str, ...] = (),
    predicted: np.ndarray | None = None,
) -> Check:
    """WITHIN_BOUND when every |got - want| <= bound.

    got: float32; want: float64 or float32 of the same shape, finite; bound: finite, not negative,
    a scalar or an array of that shape. labels: for leading axes, what to call their indices in the
    reason (the query numbers of sampled rows); axes: names of all axes; predicted: float32 of that shape,
    the bits that are due where they are known; the reason gives them in place of those of the rounded
    reference. Errors are formed in float64, where the difference of two float32 is exact to one rounding.
    """
    if got.shape != want.shape:
        return Check(name, Verdict.EXCEEDS, f"shape is {got.shape}, expected {want.shape}")
    if got.dtype != np.float32:
        return Check(name, Verdict.EXCEEDS, f"dtype is {got.dtype}, expected float32")
    if want.dtype not in (np.float64, np.float32):
        return Check(name, Verdict.VOID, f"the reference's dtype is {want.dtype}, expected float64 or float32")
    limit = np.asarray(bound, dtype=np.float64)
    if limit.shape not in ((), want.shape):
        return Check(name, Verdict.VOID, f"the bound's shape is {limit.shape}, expected {want.shape}")
    if got.size == 0:
        return Check(name, Verdict.VOID, "there is no element to compare")
    if np.may_share_memory(got, want):
        return Check(name, Verdict.VOID, "both sides are the same memory")
    if not np.isfinite(want).all():
        return Check(name, Verdict.VOID, f"{int((~np.isfinite(want)).sum())} elements of the reference are not finite")
    if not (np.isfinite(limit).all() and (limit >= 0).all()):
        broken = ~(np.isfinite(limit) & (limit >= 0))
        at = tuple(int(i) for i in np.argwhere(np.broadcast_to(broken, want.shape))[0])
        said = f"at {_place(tuple(labels[i][n] if i < len(labels) else n for i, n in enumerate(at)), axes)} it is"
        value = float(np.broadcast_to(limit, want.shape)[at])
        reason = f"the bound is not finite or is negative: {said} {value:.4g}, reference {short(float(want[at]))}"
        return Check(name, Verdict.VOID, reason)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - want)
        fine = error <= limit
        # The worst element: largest error over bound, a NaN before everything.
        excess = np.where(np.isnan(error), np.inf, error) - limit
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), got.shape))
    worst = float(np.where(np.isnan(error), np.inf, error).max())
    figures: dict[str, Any] = {"error": worst, "bound": float(limit.max()), "compared": got.size}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(error == 0, 0.0, error / limit)
        # The largest of few elements moves much from case to case, the root mean square little.
        figures |= {"slack": float(share.max()), "rms": float(np.sqrt(np.mean(np.square(share))))}
    if bool(fine.all()):
        return Check(name, Verdict.WITHIN_BOUND, "", figures)
    shown = tuple(int(labels[axis][i]) if axis < len(labels) else i for axis, i in enumerate(index))
    due = f"bits {float32_bits(want[index])}"
    if predicted is not None and predicted.shape == got.shape:
        due = f"predicted bits {float32_bits(predicted[index])}"
    reason = (
        f"{int((~fine).sum())} of {got.size} elements; at {_place(shown, axes)} "
        f"value {short(float(got[index]))} bits {float32_bits(got[index])}, "
        f"reference {short(float(want[index]))} {due}, "
        f"bound {float(np.broadcast_to(limit, got.shape)[index]):.4g}"
    )
    return Check(name, Verdict.EXCEEDS, reason, figures)


def identical(
    name: str,
    got: np.ndarray,
    want: np.ndarray,
    *,
    labels: tuple[np.ndarray, ...] = (),
    axes: tuple[str, ...] = (),
) -> Check:
    """EXACT when both arrays have the same dtype, shape and bytes (so -0 is not +0, a NaN its own bits).

    labels, axes: as of `within`. The reason gives bits of the first element that differs, of float32 values too.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        shapes = f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
        return Check(name, Verdict.EXCEEDS, f"array is {shapes}")
    if got.size == 0:
        return Check(name, Verdict.VOID, "there is no element to compare")
    if np.may_share_memory(got, want):
        return Check(name, Verdict.VOID, "both sides are the same memory")
    size = got.dtype.itemsize
    if size not in (1, 2, 4, 8):
        return Check(name, Verdict.VOID, f"elements of {size} bytes, expected 1, 2, 4 or 8")
    raw = [np.ascontiguousarray(a).view(f"u{size}").reshape(a.shape) for a in (got, want)]  # compared as words
    differs = raw[0] != raw[1]
    count = int(np.count_nonzero(differs))
    figures = {"compared": got.size, "differing": count}
    if count == 0:
        return Check(name, Verdict.EXACT, "", figures)
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    shown = tuple(int(labels[axis][i]) if axis < len(labels) else i for axis, i in enumerate(index))
    bits = [a[index].tobytes()[::-1].hex() for a in (got, want)]
    said = f"got bits {bits[0]}, expected {bits[1]}"
    if got.dtype == np.float32:
        one, two = (short(float(a[index])) for a in (got, want))
        said = f"got {one} bits {bits[0]}, expected {two} bits {bits[1]}"
    reason = f"{count} of {got.size} differ; at {_place(shown, axes)} {said}"
    return Check(name, Verdict.EXCEEDS, reason, figures, shown)


def holds(name: str, condition: bool, reason: str, figures: dict[str, Any] | None = None) -> Check:
    """EXACT when a yes-or-no condition holds, else EXCEEDS with the reason.

    VOID when it is no yes or no: a number or an array is true for reasons of its own, a NaN among them.
    """
    if not isinstance(condition, bool | np.bool_):
        return Check(name, Verdict.VOID, f"the condition is a {type(condition).__name__}, expected yes or no")
    verdict = Verdict.EXACT if condition else Verdict.EXCEEDS
    return Check(name, verdict, "" if condition else reason, figures or {})


def written(name: str, out: np.ndarray, *, axes: tuple[str, ...] = (), dtype: Any = np.float32) -> Check:
    """EXACT when an output of `dtype` holds no poison pattern any more. axes: names for the reason.

    The pattern is a word of 32 bits: half of a larger element, and several smaller ones side by side, of which the
    reason names the first. Words begin where the output does, and so do those that it was filled with.
    """
    if out.dtype != np.dtype(dtype):
        return Check(name, Verdict.EXCEEDS, f"dtype is {out.dtype}, expected {np.dtype(dtype)}")
    if out.size == 0:
        return Check(name, Verdict.VOID, "there is no element to look at")
    octets = np.ascontiguousarray(out).view(np.uint8).reshape(-1)
    words = octets[: octets.size // 4 * 4].view(np.uint32)
    stale = (words == POISON_OUTPUT) | (words == POISON_WORKSPACE)
    if not stale.any():
        return Check(name, Verdict.EXACT)
    size = out.dtype.itemsize
    elements = np.unique(np.flatnonzero(stale)[:, None] * 4 // size + np.arange(max(4 // size, 1)))
    index = tuple(int(i) for i in np.unravel_index(int(elements[0]), out.shape))
    place = f"{_place(index, axes)} bits {int(words[stale][0]):08x}"
    reason = f"{elements.size} of {out.size} elements were never written, the first at {place}"
    return Check(name, Verdict.EXCEEDS, reason)
