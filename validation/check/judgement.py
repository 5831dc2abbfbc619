"""What the numbers of one output are asked, and whether these questions could have refused wrong ones.

A float output lies within its bound wherever the reference is a number that the type can hold. Where it is none, the
output must be none of the same kind: a NaN for a NaN, the infinity of its sign for an infinity and for a number beyond
the type's largest. Which NaN it is does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from validation.core.negative_probes import self_check
from validation.core.verdict import Check, Verdict, holds, identical, within

#: The share of its bound up to which a reference is the noise of float64 arithmetic: 2**-53 against 2**-24, and room
#: for as many roundings more.
NOISE = 2.0**-20
#: From this magnitude on a number rounds to infinity: the largest one and half a step.
OVERFLOWS = {"float16": 65520.0, "float32": 2.0**128 - 2.0**103}


@dataclass(frozen=True)
class Due:
    """What a float output is held against.

    Parameters
    ----------
    dtype : str
        The output's type.
    reference, limit : float64 arrays
        The reference and the bound, of one shape.
    axes : tuple of str
        What the axes are called.
    """

    dtype: str
    reference: np.ndarray
    limit: np.ndarray
    axes: tuple[str, ...] = ()

    @property
    def beyond(self) -> np.ndarray:
        """Where the output must be an infinity: the reference is one, or beyond the type by more than the bound."""
        with np.errstate(invalid="ignore"):
            far = np.abs(self.reference) - np.where(np.isfinite(self.limit), self.limit, 0) >= OVERFLOWS[self.dtype]
        return np.asarray(np.isinf(self.reference) | (np.isfinite(self.reference) & far))

    @property
    def number(self) -> np.ndarray:
        """Where the output is a number, and the bound says how far it may be off."""
        return np.asarray(np.isfinite(self.reference) & ~self.beyond)


def placed(axes: Sequence[str], where: np.ndarray) -> str:
    """`at row 3 column 7` for the first element of those that a boolean array has."""
    index = tuple(int(i) for i in np.argwhere(where)[0])
    return "at " + (" ".join(f"{axis} {i}" for axis, i in zip(axes, index, strict=False)) or str(list(index)))


def pattern(name: str, got: np.ndarray, due: Due) -> Check:
    """WITHIN_BOUND when the output is no number exactly where it must not be one: which NaN it is does not count.

    Parameters
    ----------
    name : str
        Of the check.
    got : float32 array
        The output, widened.
    due : Due
        What it is held against. A number within the bound of the type's largest may have become an infinity.
    """
    reference, number = due.reference, due.number
    with np.errstate(invalid="ignore"):
        near = number & (np.abs(reference) + due.limit >= OVERFLOWS[due.dtype])
    same_infinity = np.isinf(got) & (np.signbit(got) == np.signbit(reference))
    fine = np.where(np.isnan(reference), np.isnan(got), np.where(due.beyond, same_infinity, np.isfinite(got)))
    fine = fine | (near & same_infinity)
    figures = {"compared": int(got.size), "not_finite": int((~number).sum())}
    if fine.all():
        return Check(name, Verdict.WITHIN_BOUND, "", figures)
    index = tuple(int(i) for i in np.argwhere(~fine)[0])
    said = f"value {got[index]:.9g}, reference {reference[index]:.9g}"
    reason = f"{int((~fine).sum())} of {got.size} elements; {placed(due.axes, ~fine)} {said}"
    return Check(name, Verdict.EXCEEDS, reason, figures)


def numbers(name: str, got: np.ndarray, due: Due) -> Check | None:
    """WITHIN_BOUND when every number of the output lies within its bound; None when the reference has none.

    got: float32, the output widened. An output that is an infinity where it may be one is not looked at.
    """
    number = due.number & ~(np.isinf(got) & (np.abs(due.reference) + np.abs(due.limit) >= OVERFLOWS[due.dtype]))
    if number.all():
        return within(name, got, due.reference, due.limit, axes=due.axes)
    if not number.any():
        return None
    parts = [np.where(number, array, array.dtype.type(0)) for array in (got, due.reference, due.limit)]
    check = within(name, *parts, axes=due.axes)
    return replace(check, figures=check.figures | {"compared": int(number.sum())})


def asked(prefix: str, got: np.ndarray, due: Due) -> list[Check]:
    """What a float output is asked. prefix: of the checks' names, empty or an output's name and a blank."""
    if got.dtype.name != due.dtype or got.shape != due.reference.shape:
        want = f"{due.dtype} {due.reference.shape}"
        return [Check(f"{prefix}bound", Verdict.EXCEEDS, f"array is {got.dtype} {got.shape}, expected {want}")]
    widened = got.astype(np.float32)
    found = numbers(f"{prefix}bound", widened, due)
    return [pattern(f"{prefix}not finite", widened, due), *([found] if found is not None else [])]


def battery(prefix: str, due: Due, rows: int | None) -> Check:
    """Whether the questions refuse every wrong answer that differs by more than the bound.

    Parameters
    ----------
    due : Due
        What an output is held against.
    rows : int, optional
        The axis whose items are exchanged; None takes the first of several.

    Returns
    -------
    Check
        EXACT, or VOID with the wrong answer that is accepted or cannot be told from the right one, as where the
        bound is as wide as the data.
    """
    number = due.number
    axis = rows if rows is not None else 0
    reference, limit, kept = (
        np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) if array.ndim > 1 else array.reshape(-1, 1)
        for array in (due.reference, due.limit, number)
    )
    odd = number & ~(due.limit >= 0) | number & np.isinf(due.limit)
    if odd.any():
        said = f"the bound is negative or not finite where the reference is a number: {_at(due, odd)}"
        return Check(f"{prefix}self", Verdict.VOID, said)
    # Beside a true zero the reference has the noise of its own arithmetic, which is no number to tell from zero.
    reference = np.where(np.abs(reference) <= NOISE * limit, 0.0, reference)
    whole = kept.all(axis=1)
    if whole.any():
        reference, limit = reference[whole], limit[whole]
    elif number.any():
        reference, limit = reference[kept][:, None], limit[kept][:, None]
    else:
        return replace(_no_number(due), name=f"{prefix}self")
    # Candidates are float32 whatever the output is: a narrow output's own steps are part of its bound.
    own = Due("float32", reference[:, None], limit[:, None])

    def judge(candidate: np.ndarray) -> bool:
        return all(check.verdict.passes for check in asked("", candidate, own))

    check = self_check(own.reference, own.limit, judge)
    if "blind" in check.figures:
        largest = number & (np.abs(due.reference) == np.abs(due.reference[number]).max())
        check = replace(check, reason=f"{check.reason}; {_at(due, largest)}")
    return replace(check, name=f"{prefix}self")


def _at(due: Due, where: np.ndarray) -> str:
    """The first of some elements, with what it should be and how far it may be off."""
    index = tuple(int(i) for i in np.argwhere(where)[0])
    return f"{placed(due.axes, where)} reference {due.reference[index]:.9g}, bound {due.limit[index]:.4g}"


def _no_number(due: Due) -> Check:
    """Where no output is a number, the pattern alone judges: it must refuse zeros."""
    refused = not pattern("", np.zeros(due.reference.shape, np.float32), due).verdict.passes
    return Check("self", Verdict.EXACT) if refused else Check("self", Verdict.VOID, "zeros are taken for no number")


def plain(array: np.ndarray) -> np.ndarray:
    """The array with one NaN for all, so that bits can be compared."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), array.dtype.type(np.nan), array)


def same(name: str, got: np.ndarray, due: np.ndarray, axes: tuple[str, ...]) -> Check:
    """EXACT when all bits are the same, of NaN whatever their own. The reason says integers as such."""
    check = identical(name, plain(got), plain(due).copy(), axes=axes)
    if check.at is None or got.dtype.kind == "f":
        return check
    where, _, _ = check.reason.partition(" got bits ")
    return replace(check, reason=f"{where} got {got[check.at]}, expected {due[check.at]}")


def unwritten(name: str, held: np.ndarray, axes: Sequence[str]) -> Check:
    """EXACT when no element of an output was left as it was. held: boolean, which were."""
    said = f"{int(held.sum())} of {held.size} elements were never written, the first "
    return holds(name, not held.any(), said + placed(tuple(axes), held) if held.any() else said)
