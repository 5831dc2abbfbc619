"""Whether the data of a case are what its recipe promises: looked at in the arrays, not taken from what made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from validation.check.arrays import SIGNS, Values
from validation.check.recipes import PRECISION, RESIDUE_BITS, Recipe
from validation.core.verdict import Check, Verdict

#: An input of fewer values than this need not hold every kind of value that its recipe is about.
_ENOUGH = 64
#: Exponents that decades must span, unless the domain has less than three times as many.
_SPAN = 8

Promise = Callable[[Values, np.ndarray, bool], str]


def _exponents(array: np.ndarray) -> np.ndarray:
    """Of the values that are not zero: e with 2**e <= |x| < 2**(e + 1)."""
    finite = np.abs(array[np.isfinite(array) & (array != 0)].astype(np.float64))
    exponents: np.ndarray = np.frexp(finite)[1] - 1
    return exponents


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def _nothing(values: Values) -> int:
    """The value that stands for nothing: zero, or the lower end of a range without it."""
    return 0 if values.floating or values.range[0] <= 0 <= values.range[1] else values.range[0]


def _decades(values: Values, array: np.ndarray, target: bool) -> str:
    exponents = _exponents(array)
    low, high = values.exponents
    wanted = min(_SPAN, (high - low) // 3)
    if array.size < _ENOUGH:
        return ""
    spans = int(exponents.max() - exponents.min())
    if spans < wanted:
        return f"its exponents span {spans}, promised {wanted}"
    if values.both_signs and not ((array > 0).any() and (array < 0).any()):
        return "it has one sign, promised both"
    return ""


def _cancelling(values: Values, array: np.ndarray, target: bool) -> str:
    rows = _rows(array).astype(np.float64)
    half = rows.shape[1] // 2
    if not target or not values.both_signs or half == 0:
        return ""
    paired = rows[:, : 2 * half]
    left = np.abs(paired.sum(axis=1)) / np.abs(paired).sum(axis=1)
    worst = float(left.max())
    return "" if 0 < worst <= 2.0 ** (1 - RESIDUE_BITS) else f"a row keeps {worst:.3g} of its magnitude when summed"


def _equal(values: Values, array: np.ndarray, target: bool) -> str:
    if not (array == array.flat[0]).all():
        return "its values differ"
    return "it is zero" if values.floating and array.flat[0] == 0 else ""


def _zeros(values: Values, array: np.ndarray, target: bool) -> str:
    if not target:
        return ""
    zero = array == _nothing(values)
    if not zero.any():
        return "it has no zero"
    if values.floating and values.both_signs and not np.signbit(array[zero]).any():
        return "it has no zero with a minus"
    return ""


def _one_hot(values: Values, array: np.ndarray, target: bool) -> str:
    if not target:
        return ""
    rows = _rows(array)
    nothing = _nothing(values)
    counts = (rows != nothing).sum(axis=1)
    same = not values.floating and values.range[1] == nothing
    if not same and not (counts == 1).all():
        return f"a row has {int(counts[counts != 1][0])} values, promised one"
    return "" if same or rows[0, -1] != nothing else "the value of the first row is not in its last column"


def _ends(values: Values, array: np.ndarray, target: bool) -> str:
    rows = np.abs(_rows(array).astype(np.float64))
    if not values.floating or rows.shape[1] < 3:
        return ""
    inner = rows[:, 1:-1].max(axis=1)
    fine = (rows[:, 0] >= inner / 2) & (rows[:, -1] >= inner / 2)
    return "" if fine.all() else "a column between the ends outweighs one of them"


def _subnormals(values: Values, array: np.ndarray, target: bool) -> str:
    if not target:
        return ""
    precision, least = PRECISION[values.dtype.name]
    smallest_normal = np.ldexp(1.0, precision - 1 + least)
    size = np.abs(array.astype(np.float64))
    return "" if ((size > 0) & (size < smallest_normal)).all() else "a value is not subnormal"


def _at(end: int) -> Promise:
    def promise(values: Values, array: np.ndarray, target: bool) -> str:
        if not values.floating:
            return ""
        due = values.exponents[1] - 1 if end else values.exponents[0]
        return "" if (_exponents(array) == due).all() else f"an exponent is not {due}"

    return promise


def _both(values: Values, array: np.ndarray, target: bool) -> str:
    if not values.floating or array.size < _ENOUGH:
        return ""
    ends = {values.exponents[0], values.exponents[1] - 1}
    return "" if set(_exponents(array).tolist()) == ends else f"its exponents are not {sorted(ends)}"


def _not_finite(values: Values, array: np.ndarray, target: bool) -> str:
    if not target:
        return "" if np.isfinite(array).all() else "an input that is to be plain is not finite"
    odd = ~np.isfinite(array)
    if not odd.any():
        return "every value is finite"
    rows = _rows(array)
    if len(rows) >= 4:
        infinite = [bool((rows == sign * np.inf).any()) for sign in SIGNS[values.sign]]
        kinds = [bool(np.isnan(rows).any()), *infinite]
        if not all(kinds):
            return "a NaN or an infinity of a sign is missing"
        if not np.isfinite(rows).all(axis=1).any():
            return "no row is left finite"
    return ""


def _infinities(values: Values, array: np.ndarray, target: bool) -> str:
    if not target:
        return "" if np.isfinite(array).all() else "an input that is to be plain is not finite"
    rows = np.isinf(_rows(array))
    if np.isnan(array).any() or not rows.any():
        return "it has a NaN, or no infinity"
    if rows.shape[1] > 1 and not np.isin(rows.sum(axis=1), (0, 2)).all():
        return "a row has another number of infinities than two"
    return "no row is left finite" if len(rows) >= 4 and rows.any(axis=1).all() else ""


def _one_sign(values: Values, array: np.ndarray, target: bool) -> str:
    if not target or not values.both_signs:
        return ""
    rows = _rows(array)
    below = (rows < 0).all(axis=1)
    if not (below | (rows >= 0).all(axis=1)).all():
        return "a row has both signs"
    return "" if len(rows) == 1 or (below.any() and not below.all()) else "every row has the same sign"


def _negative(values: Values, array: np.ndarray, target: bool) -> str:
    return "a value is not below zero" if target and values.both_signs and not (array < 0).all() else ""


def _shifted(values: Values, array: np.ndarray, target: bool) -> str:
    if not target or not values.offset:
        return ""
    rows = _rows(array).astype(np.float64)
    share = np.ptp(rows, axis=1) / np.abs(rows).min(axis=1)
    if not (share < 0.5).all():
        return f"a row spreads over {share.max():.3g} of its offset"
    if len(rows) < 3:
        return ""
    if values.both_signs and not ((rows[:, 0] > 0).any() and (rows[:, 0] < 0).any()):
        return "all offsets have one sign"
    return "" if share.min() < 2.0**-values.offset else f"no row's offset is 2^{values.offset} times its spread"


def _anything(values: Values, array: np.ndarray, target: bool) -> str:
    return ""


#: What each recipe promises of an input, besides its domain: empty, or what is not so.
PROMISES: Mapping[str, Promise] = {
    "plain": _anything,
    "signed_decades": lambda values, array, target: _decades(values, array, target) if values.floating else "",
    "cancelling": lambda values, array, target: _cancelling(values, array, target) if values.floating else "",
    "equal": _equal,
    "zeros": _zeros,
    "one_hot": _one_hot,
    "ends": _ends,
    "subnormals": lambda values, array, target: _subnormals(values, array, target) if values.floating else "",
    "huge": _at(1),
    "tiny": _at(0),
    "huge_and_tiny": _both,
    "one_sign": _one_sign,
    "negative": _negative,
    "shifted": lambda values, array, target: _shifted(values, array, target) if values.floating else "",
    "infinities": lambda values, array, target: _infinities(values, array, target) if values.floating else "",
    "not_finite": lambda values, array, target: _not_finite(values, array, target) if values.floating else "",
}


def _domain(recipe: Recipe, values: Values, array: np.ndarray, target: bool) -> str:
    """Whether every value lies where the author said."""
    if not values.floating:
        low, high = values.range
        fine = ((array >= low) & (array <= high)).all()
        return "" if fine else f"a value lies outside {low}..{high}"
    if recipe.finite and not np.isfinite(array).all():
        return "a value is not finite"
    if not values.both_signs and (np.signbit(array) != (values.sign == "negative"))[~np.isnan(array)].any():
        return f"a value is not {values.sign}"
    exponents = _exponents(array)
    low, high = values.exponents
    if recipe.name == "subnormals" and target:
        return ""
    low -= recipe.name == "cancelling" and target  # 2**low less one part in 64 of it
    return "" if ((exponents >= low) & (exponents < high)).all() else f"a value lies outside 2^{low}..2^{high}"


def promised(
    recipe: Recipe, values: Mapping[str, Values], arrays: Mapping[str, np.ndarray], targets: Sequence[str]
) -> Check:
    """Whether the inputs hold what their recipe promises.

    Parameters
    ----------
    recipe : Recipe
        Of the case.
    values, arrays : mapping
        What each input that the toolkit fills may hold, and holds.
    targets : sequence of str
        The inputs that the recipe is about; all of them where it is about none.

    Returns
    -------
    Check
        EXACT, or VOID with the input and what is not as promised.
    """
    for name, own in values.items():
        array, target = arrays[name], name in targets
        said = _domain(recipe, own, array, target) or PROMISES[recipe.name](own, array, target)
        if said:
            return Check("preconditions", Verdict.VOID, f"the data are not what {recipe.name} promises: {name}: {said}")
    return Check("preconditions", Verdict.EXACT)
