"""Comparators that are wrong in one way each, as tests and tools of other projects have had them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from validation.core.verdict import Check, Verdict, identical, within

#: Same arguments as `verdict.within` after the name.
Compare = Callable[[np.ndarray, np.ndarray, Any], bool]

#: float32 steps of one, a percentile that drops the tail, and rows that are looked at.
_STEP, _TAIL, _ROWS = 2.0**-23, 99.9, 2


def _error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(got.astype(np.float64) - want))


def _fits(got: np.ndarray, want: np.ndarray, bound: Any) -> bool:
    return bool((_error(got, want) <= bound).all())


def _masked(keep: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Compare:
    def compare(got: np.ndarray, want: np.ndarray, bound: Any) -> bool:
        mask = np.broadcast_to(keep(got, want), want.shape)
        limit = np.broadcast_to(bound, want.shape)
        return bool((_error(got, want)[mask] <= limit[mask]).all())

    return compare


def _cosine(got: np.ndarray, want: np.ndarray, bound: Any) -> bool:
    one, two = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    return bool(one @ two >= 0.999 * np.sqrt((one @ one) * (two @ two)))


def _close(got: np.ndarray, want: np.ndarray, bound: Any) -> bool:
    return bool((np.isclose(got, want, rtol=0, atol=np.broadcast_to(bound, want.shape), equal_nan=True)).all())


BROKEN: dict[str, Compare] = {
    "not greater than the bound": lambda g, w, b: not bool((_error(g, w) > b).any()),
    "largest but for NaN": lambda g, w, b: bool(np.nanmax(_error(g, w) - b, initial=-np.inf) <= 0),
    "finite on both sides": _masked(lambda g, w: np.isfinite(g) & np.isfinite(w)),
    "where the reference is a number": _masked(lambda g, w: ~np.isnan(w)),
    "NaN equals NaN": lambda g, w, b: bool(((_error(g, w) <= b) | (np.isnan(g) & np.isnan(w))).all()),
    "allclose with equal NaN": _close,
    "infinities are alike": lambda g, w, b: bool(((_error(g, w) <= b) | (np.isinf(g) & np.isinf(w))).all()),
    "absolute tolerance added": lambda g, w, b: _fits(g, w, np.asarray(b) + _STEP),
    "relative tolerance added": lambda g, w, b: _fits(g, w, np.asarray(b) + _STEP * np.abs(w)),
    "bound times 1000": lambda g, w, b: _fits(g, w, 1000 * np.asarray(b)),
    "below the bound": lambda g, w, b: bool((_error(g, w) < b).all()),
    "mean error": lambda g, w, b: bool(_error(g, w).mean() <= np.mean(b)),
    "percentile": lambda g, w, b: bool(np.percentile(_error(g, w) - b, _TAIL) <= 0),
    "first rows": lambda g, w, b: _fits(g[:_ROWS], w[:_ROWS], np.broadcast_to(b, w.shape)[:_ROWS]),
    "all rows but the last": lambda g, w, b: _fits(g[:-1], w[:-1], np.broadcast_to(b, w.shape)[:-1]),
    "first head": lambda g, w, b: (
        _fits(g[:, :1], w[:, :1], np.broadcast_to(b, w.shape)[:, :1]) if g.ndim > 1 else _fits(g, w, b)
    ),
    "even dims": lambda g, w, b: _fits(g[..., ::2], w[..., ::2], np.broadcast_to(b, w.shape)[..., ::2]),
    "angle": _cosine,
    "sizes": lambda g, w, b: bool((np.abs(np.abs(g.astype(np.float64)) - np.abs(w)) <= b).all()),
    "signed error": lambda g, w, b: bool((g.astype(np.float64) - w <= b).all()),
    "float32 error": lambda g, w, b: bool((np.abs(g - w.astype(np.float32)) <= b).all()),
    "largest bound for all": lambda g, w, b: _fits(g, w, np.max(b)),
    "the reference with itself": lambda g, w, b: _fits(w, w, b),
    "the candidate with itself": lambda g, w, b: _fits(g, g, b),
    "everything": lambda g, w, b: True,
    "nothing": lambda g, w, b: False,
}


#: Those that refuse what is right; all others accept what is wrong.
STRICT = ("nothing",)


def numbers(compare: Compare) -> Callable[..., Check]:
    """`within` with one comparison in place of its own; what it says of forms stays, and of a reference or a bound
    that is not finite where that comparison does not accept it."""

    def broken(name: str, got: np.ndarray, want: np.ndarray, bound: Any, **labels: Any) -> Check:
        right = within(name, got, want, bound, **labels)
        numbers_decide = right.verdict in (Verdict.WITHIN_BOUND, Verdict.EXCEEDS) and "compared" in right.figures
        hidden = right.verdict is Verdict.VOID and got.shape == want.shape and got.size and "finite" in right.reason
        if not numbers_decide and not hidden:
            return right
        with np.errstate(all="ignore"):
            fine = compare(got, want, np.asarray(bound, np.float64))
        if hidden and not fine:
            return right
        return Check(name, Verdict.WITHIN_BOUND if fine else Verdict.EXCEEDS, "" if fine else "because", right.figures)

    return broken


def broadcast(name: str, got: np.ndarray, want: np.ndarray, bound: Any, **labels: Any) -> Check:
    """`within` that broadcasts its sides."""
    try:
        sides = np.broadcast_arrays(got, want)
    except ValueError:
        return within(name, got, want, bound, **labels)
    return within(name, sides[0].copy(), sides[1].copy(), bound, **labels)


def cast(name: str, got: np.ndarray, want: np.ndarray, bound: Any, **labels: Any) -> Check:
    """`within` that takes any dtype."""
    return within(name, got.astype(np.float32), want.astype(np.float64), bound, **labels)


def copied(name: str, got: np.ndarray, want: np.ndarray, bound: Any, **labels: Any) -> Check:
    """`within` that does not see one memory on both sides."""
    return within(name, got.copy(), want, bound, **labels)


def empty(name: str, got: np.ndarray, want: np.ndarray, bound: Any, **labels: Any) -> Check:
    """`within` to which all of nothing is right."""
    fine = got.size == want.size == 0 and got.shape == want.shape
    return Check(name, Verdict.WITHIN_BOUND) if fine else within(name, got, want, bound, **labels)


WITHIN = {name: numbers(compare) for name, compare in BROKEN.items()} | {
    "broadcast": broadcast,
    "any dtype": cast,
    "one memory": copied,
    "empty": empty,
}


def _bits(compare: Callable[[np.ndarray, np.ndarray], bool]) -> Callable[..., Check]:
    """`identical` with one comparison of arrays in place of its own."""

    def broken(name: str, got: np.ndarray, want: np.ndarray, **labels: Any) -> Check:
        right = identical(name, got, want, **labels)
        if "compared" not in right.figures:
            return right
        with np.errstate(all="ignore"):
            fine = compare(got, want)
        return Check(name, Verdict.EXACT if fine else Verdict.EXCEEDS, "" if fine else "because", right.figures)

    return broken


def _cast_bytes(name: str, got: np.ndarray, want: np.ndarray, **labels: Any) -> Check:
    if got.shape != want.shape:
        return identical(name, got, want, **labels)
    return identical(name, got.astype(want.dtype), want, **labels)


def _raw_bytes(name: str, got: np.ndarray, want: np.ndarray, **labels: Any) -> Check:
    """Bytes alone: shapes and dtypes of one size are alike."""
    fine = got.tobytes() == want.tobytes() and got.size > 0
    return Check(name, Verdict.EXACT) if fine else identical(name, got, want, **labels)


def _steps(got: np.ndarray, want: np.ndarray) -> bool:
    if got.dtype != np.float32:
        return got.tobytes() == want.tobytes()
    ints = [np.ascontiguousarray(side).view(np.int32).astype(np.int64) for side in (got, want)]
    return bool((np.abs(ints[0] - ints[1]) <= 1).all())


IDENTICAL: dict[str, Callable[..., Check]] = {
    "-0 equals +0": _bits(lambda g, w: bool((g == w).all()) or g.tobytes() == w.tobytes()),
    "NaN equals NaN": _bits(lambda g, w: bool(((g == w) | (np.isnan(g) & np.isnan(w))).all())),
    "a NaN is another NaN": _bits(lambda g, w: bool((g == w).all())),
    "one step": _bits(_steps),
    "as float32": _bits(lambda g, w: g.astype(np.float32).tobytes() == w.astype(np.float32).tobytes()),
    "first element": _bits(lambda g, w: bool(g.ravel()[:1].tobytes() == w.ravel()[:1].tobytes())),
    "all but the last": _bits(lambda g, w: g.ravel()[:-1].tobytes() == w.ravel()[:-1].tobytes()),
    "everything": _bits(lambda g, w: True),
    "nothing": _bits(lambda g, w: False),
    "after a cast": _cast_bytes,
    "bytes alone": _raw_bytes,
    "one memory": lambda name, got, want, **labels: identical(name, got.copy(), want, **labels),
}
