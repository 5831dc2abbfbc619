"""What the comparators say of each kind of value on each side: the truth tables of `verdict.py`, as data.

Comparators are looked up when a row is asked, so that what is judged is what a run uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE
from validation.core import verdict
from validation.core.control import Control
from validation.core.verdict import Check

INF, NAN = float("inf"), float("nan")
#: The smallest float32 and float64 above zero, the largest float32, and one float32 step above 1.
TINY, TINY_64, HUGE, STEP = 2.0**-149, 5e-324, float(np.finfo(np.float32).max), 1 + 2.0**-23
PASS, WRONG, VOID, SAME = "WITHIN_BOUND", "EXCEEDS", "VOID", "EXACT"

#: name, got (float32), want (float64), bound, verdict.
WITHIN: tuple[tuple[str, float, float, float, str], ...] = (
    ("equal", 1.0, 1.0, 0.0, PASS),
    ("error at the bound", 1.25, 1.0, 0.25, PASS),
    ("error at the bound, below", 0.75, 1.0, 0.25, PASS),
    ("error one step above the bound", float(np.nextafter(np.float32(1.25), np.float32(2))), 1.0, 0.25, WRONG),
    ("bound one step below the error", 1.25, 1.0, float(np.nextafter(0.25, 0)), WRONG),
    ("bound one step below the error, below", 0.75, 1.0, float(np.nextafter(0.25, 0)), WRONG),
    ("one float32 step, no bound", STEP, 1.0, 0.0, WRONG),
    ("one float32 step, half its bound", STEP, 1.0, 2.0**-24, WRONG),
    ("half a float32 step of the reference", 1.0, 1 + 2.0**-24, 2.0**-24, PASS),
    ("half a float32 step of the reference, no bound", 1.0, 1 + 2.0**-24, 0.0, WRONG),
    ("one float64 step of the reference, no bound", 1.0, 1 + 2.0**-52, 0.0, WRONG),
    ("flipped sign", -1.0, 1.0, 1.0, WRONG),
    ("flipped sign, just allowed", -1.0, 1.0, 2.0, PASS),
    ("zero for a number", 0.0, 1.0, 0.5, WRONG),
    ("+0 for -0", 0.0, -0.0, 0.0, PASS),
    ("-0 for +0", -0.0, 0.0, 0.0, PASS),
    ("subnormal at the bound", TINY, 0.0, TINY, PASS),
    ("subnormal, half its bound", TINY, 0.0, TINY / 2, WRONG),
    ("subnormal, no bound", TINY, 0.0, 0.0, WRONG),
    ("negative subnormal, no bound", -TINY, 0.0, 0.0, WRONG),
    ("zero for a subnormal", 0.0, TINY, 0.0, WRONG),
    ("subnormals of both signs", TINY, -TINY, TINY, WRONG),
    ("float64 subnormal at the bound", 0.0, TINY_64, TINY_64, PASS),
    ("float64 subnormal, no bound", 0.0, TINY_64, 0.0, WRONG),
    ("largest of both signs at the bound", HUGE, -HUGE, 2 * HUGE, PASS),
    ("largest of both signs", HUGE, -HUGE, float(np.nextafter(2 * HUGE, 0)), WRONG),
    ("large, one step off", 2.0**100 * STEP, 2.0**100, 2.0**76, WRONG),
    ("NaN", NAN, 1.0, 1e30, WRONG),
    ("NaN for zero, no bound", NAN, 0.0, 0.0, WRONG),
    ("infinity", INF, 1.0, 1e300, WRONG),
    ("-infinity", -INF, 1.0, 1e300, WRONG),
    ("reference NaN", 1.0, NAN, 1e30, VOID),
    ("NaN on both sides", NAN, NAN, 1e30, VOID),
    ("reference infinity", 1.0, INF, 1e30, VOID),
    ("reference -infinity", 1.0, -INF, 1e30, VOID),
    ("infinity on both sides", INF, INF, 1e30, VOID),
    ("infinities of both signs", -INF, INF, 1e30, VOID),
    ("NaN for infinity", NAN, INF, 1e30, VOID),
    ("bound NaN", 1.0, 1.0, NAN, VOID),
    ("bound infinity", 1.0, 1.0, INF, VOID),
    ("bound -infinity", 1.0, 1.0, -INF, VOID),
    ("bound negative", 1.0, 1.0, -1.0, VOID),
    ("bound barely negative", 1.0, 1.0, -TINY_64, VOID),
    ("bound -0", 1.0, 1.0, -0.0, PASS),
    ("NaN, bound infinity", NAN, 1.0, INF, VOID),
    ("NaN, bound NaN", NAN, 1.0, NAN, VOID),
)

#: name, bits on both sides, verdict: float32 patterns.
IDENTICAL: tuple[tuple[str, int, int, str], ...] = (
    ("equal", 0x3F800000, 0x3F800000, SAME),
    ("one step", 0x3F800001, 0x3F800000, WRONG),
    ("flipped sign", 0xBF800000, 0x3F800000, WRONG),
    ("-0 for +0", 0x80000000, 0x00000000, WRONG),
    ("+0 for -0", 0x00000000, 0x80000000, WRONG),
    ("-0", 0x80000000, 0x80000000, SAME),
    ("subnormal for zero", 0x00000001, 0x00000000, WRONG),
    ("subnormal", 0x00000001, 0x00000001, SAME),
    ("infinity", 0x7F800000, 0x7F800000, SAME),
    ("infinities of both signs", 0xFF800000, 0x7F800000, WRONG),
    ("NaN", 0x7FC00000, 0x7FC00000, SAME),
    ("NaN of another payload", 0x7FC00001, 0x7FC00000, WRONG),
    ("NaN of another sign", 0xFFC00000, 0x7FC00000, WRONG),
    ("NaN for a number", 0x7FC00000, 0x3F800000, WRONG),
    ("number for a NaN", 0x3F800000, 0x7FC00000, WRONG),
)

#: name, one float32 pattern of an output, verdict.
WRITTEN: tuple[tuple[str, int, str], ...] = (
    ("number", 0x3F800000, SAME),
    ("zero", 0x00000000, SAME),
    ("NaN of arithmetic", 0x7FC00000, SAME),
    ("poison of outputs", POISON_OUTPUT, WRONG),
    ("poison of workspaces", POISON_WORKSPACE, WRONG),
    ("negated poison", POISON_OUTPUT | 0x80000000, SAME),
)

#: The shape in which a row's element is hidden among right ones, and where: every end of every axis.
SHAPE = (5, 3, 8)
PLACES = {"first": (0, 0, 0), "middle": (2, 1, 3), "last row": (4, 0, 0), "last head": (0, 2, 0), "last": (4, 2, 7)}
#: As many elements as hide one from a mean, a percentile or the first rows.
MANY = (64, 8, 64)

#: Where a bound is wide, of an array whose last element is wrong: in another query, head and dim than its own, and in
#: one that differs in one of them alone.
WIDE = {
    "others": (0, 0, 0),
    "other queries": (0, -1, -1),
    "other heads": (-1, 0, -1),
    "other dims": (-1, -1, 0),
    "the element before it": (-1, -1, -2),
}
#: Shapes whose sizes no power of two divides: what takes elements two, four or more at a time has some left over.
ODD = ((3,), (7, 1), (3, 5, 7), (1, 1, 257), (33, 3, 31), (4099,))

#: name, shape and dtype of got, want and bound, verdict: all hold ones.
Form = tuple[tuple[int, ...], str]
FORMS: tuple[tuple[str, Form, Form, Form, str], ...] = (
    ("same", ((3, 4), "f4"), ((3, 4), "f8"), ((3, 4), "f8"), PASS),
    ("float32 reference", ((3, 4), "f4"), ((3, 4), "f4"), ((), "f8"), PASS),
    ("got [1, n]", ((1, 4), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got [n, 1]", ((3, 1), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got scalar", ((), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got one element", ((1,), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got fewer rows", ((2, 4), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got more rows", ((4, 4), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got flat", ((12,), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got transposed", ((4, 3), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got empty", ((0, 4), "f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("want [1, n]", ((3, 4), "f4"), ((1, 4), "f8"), ((), "f8"), WRONG),
    ("want [n, 1]", ((3, 4), "f4"), ((3, 1), "f8"), ((), "f8"), WRONG),
    ("want scalar", ((3, 4), "f4"), ((), "f8"), ((), "f8"), WRONG),
    ("want empty", ((3, 4), "f4"), ((0, 4), "f8"), ((), "f8"), WRONG),
    ("both empty", ((0, 4), "f4"), ((0, 4), "f8"), ((), "f8"), VOID),
    ("both empty, no axis", ((0,), "f4"), ((0,), "f8"), ((0,), "f8"), VOID),
    ("got float64", ((3, 4), "f8"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got float16", ((3, 4), "f2"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got int32", ((3, 4), "i4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("got of the other byte order", ((3, 4), ">f4"), ((3, 4), "f8"), ((), "f8"), WRONG),
    ("want float16", ((3, 4), "f4"), ((3, 4), "f2"), ((), "f8"), VOID),
    ("want int32", ((3, 4), "f4"), ((3, 4), "i4"), ((), "f8"), VOID),
    ("bound [1, n]", ((3, 4), "f4"), ((3, 4), "f8"), ((1, 4), "f8"), VOID),
    ("bound [n, 1]", ((3, 4), "f4"), ((3, 4), "f8"), ((3, 1), "f8"), VOID),
    ("bound one element", ((3, 4), "f4"), ((3, 4), "f8"), ((1,), "f8"), VOID),
    ("bound of another shape", ((3, 4), "f4"), ((3, 4), "f8"), ((4, 3), "f8"), VOID),
    ("bound empty", ((3, 4), "f4"), ((3, 4), "f8"), ((0,), "f8"), VOID),
)


def said(check: Check) -> str:
    """The verdict of a check; a reason must go with it where it does not pass, and only there."""
    if bool(check.reason) == (check.verdict in (verdict.Verdict.EXACT, verdict.Verdict.WITHIN_BOUND)):
        return f"{check.verdict.value} with reason {check.reason!r}"
    return check.verdict.value


def _among(values: np.ndarray, place: tuple[int, ...], value: Any) -> np.ndarray:
    out = values.copy()
    out[place] = value
    return out


def _within(got: np.ndarray, want: np.ndarray, bound: Any) -> str:
    return said(verdict.within("control", got, want, bound))


def _identical(got: np.ndarray, want: np.ndarray) -> str:
    return said(verdict.identical("control", got, want))


def _patterns(shape: tuple[int, ...], place: tuple[int, ...], bits: int) -> np.ndarray:
    return _among(np.full(shape, 0x40490FDB, np.uint32), place, bits).view(np.float32)


def within() -> Iterator[Control]:
    """Rows of WITHIN alone and hidden at every end of an array, forms, and faults that hide among many elements."""
    right = np.linspace(-1, 1, 120).astype(np.float32).reshape(SHAPE)
    for row, got, want, bound, expected in WITHIN:
        alone = partial(_within, np.array([got], np.float32), np.array([want]), bound)
        yield Control(f"within/{row}", alone, expected)
        limit = bound if np.isfinite(bound) and bound >= 0 else 0.0
        for place, at in PLACES.items():
            arrays = (_among(right, at, got), _among(right.astype(np.float64), at, want))
            each = _among(np.full(SHAPE, limit), at, bound)
            yield Control(f"within/{row}, {place}", partial(_within, *arrays, each), expected)
    for row, of_got, of_want, of_bound, expected in FORMS:
        ones = [np.ones(shape, dtype) for shape, dtype in (of_got, of_want, of_bound)]
        yield Control(f"within/{row}", partial(_within, *ones), expected)
    yield from _among_many()
    same = np.ones((3, 4), np.float32)
    yield Control("within/one array on both sides", partial(_within, same, same, 1.0), VOID)
    yield Control("within/a view on both sides", partial(_within, same[:2], same[1:], 1.0), VOID)


def _among_many() -> Iterator[Control]:
    """One wrong element, row, head or dim among many that are right, and a fault too even for an angle to show."""
    want = np.linspace(-3, 3, int(np.prod(MANY))).reshape(MANY)
    right = want.astype(np.float32)
    bound = np.abs(want) * 2.0**-20 + 2.0**-20
    yield Control("within/many", partial(_within, right, want, bound), PASS)
    for place, at in (("first", (0, 0, 0)), ("middle", (31, 4, 32)), ("last", (-1, -1, -1))):
        wrong = _among(right, at, right[at] + np.float32(2.0**-16))
        yield Control(f"within/one of many, {place}", partial(_within, wrong, want, bound), WRONG)
        yield Control(f"within/NaN among many, {place}", partial(_within, _among(right, at, NAN), want, bound), WRONG)
    for name, where in (("row", np.s_[-1]), ("head", np.s_[:, -1]), ("dim", np.s_[..., -1])):
        for what, factor in (("zeros in the last", 0.0), ("flipped last", -1.0)):
            wrong = right.copy()
            wrong[where] *= np.float32(factor)
            yield Control(f"within/{what} {name}", partial(_within, wrong, want, bound), WRONG)
    scaled = right * np.float32(1 + 2.0**-12)
    yield Control("within/scaled by 1 + 2^-12", partial(_within, scaled, want, bound), WRONG)
    yield Control("within/negated", partial(_within, -right, want, bound), WRONG)
    yield Control("within/all NaN", partial(_within, np.full_like(right, NAN), want, bound), WRONG)
    voided = np.full(MANY, NAN)
    yield Control("within/all NaN on both sides", partial(_within, np.full_like(right, NAN), voided, bound), VOID)
    wrong = _among(right, (-1, -1, -1), 4.0)
    for whose, at in WIDE.items():
        wide = _among(bound, at, 1e30)
        yield Control(f"within/one wide bound does not serve {whose}", partial(_within, wrong, want, wide), WRONG)


def _odd() -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Name, shape and place of every element of odd arrays that could be left over."""
    for shape in ODD:
        size = int(np.prod(shape))
        for back in sorted({1, 2, 3, size // 2, size}):
            place = tuple(int(i) for i in np.unravel_index(size - back, shape))
            yield f"{'x'.join(map(str, shape))}, {back} from the end", shape, place


def odd() -> Iterator[Control]:
    """One wrong element of arrays of odd sizes, in each comparator, and of elements of every width."""
    for name, shape, place in _odd():
        want = np.linspace(1, 2, int(np.prod(shape))).reshape(shape)
        right = want.astype(np.float32)
        bound = np.full(shape, 2.0**-20)
        for what, value in (("a wrong element", 4.0), ("NaN", NAN)):
            wrong = _among(right, place, value)
            yield Control(f"within/{what} of {name}", partial(_within, wrong, want, bound), WRONG)
        bits = _among(right.view(np.uint32), place, POISON_OUTPUT).view(np.float32)
        yield Control(f"written/poison of {name}", partial(_written, bits), WRONG)
        for dtype in ("u1", "f2", "f4", "f8"):
            same = np.ones(shape, dtype)
            other = _among(same, place, 2)
            yield Control(f"identical/{dtype} of {name}", partial(_identical, other, same), WRONG)


def _written(out: np.ndarray) -> str:
    return said(verdict.written("control", out))


def identical() -> Iterator[Control]:
    """Rows of IDENTICAL at every end of an array, and forms."""
    for row, got, want, expected in IDENTICAL:
        for place, at in PLACES.items():
            arrays = _patterns(SHAPE, at, got), _patterns(SHAPE, at, want)
            yield Control(f"identical/{row}, {place}", partial(_identical, *arrays), expected)
    ones = np.ones((3, 4), np.float32)
    for dtype in ("f8", "f2", "i4", "u4", "i1", ">f4"):
        other = ones.astype(dtype)
        yield Control(f"identical/got {dtype}", partial(_identical, other, ones), WRONG)
        yield Control(f"identical/want {dtype}", partial(_identical, ones, other), WRONG)
    bits = ones.view(np.uint32).copy()
    yield Control("identical/the bits as integers", partial(_identical, bits, ones), WRONG)
    for shape in ((1, 4), (3, 1), (1,), (), (12,), (4, 3), (0, 4), (2, 4)):
        other = np.ones(shape, np.float32)
        yield Control(f"identical/got {list(shape)}", partial(_identical, other, ones), WRONG)
        yield Control(f"identical/want {list(shape)}", partial(_identical, ones, other), WRONG)
    empty = np.ones((0, 4), np.float32)
    yield Control("identical/both empty", partial(_identical, empty, empty.copy()), VOID)
    below = np.array([1.0, 1 + 2.0**-40])
    yield Control("identical/float64 beyond float32", partial(_identical, below, below[[0, 0]]), WRONG)
    halves = np.array([1.0, 1 + 2.0**-10], np.float16)
    yield Control("identical/one step of float16", partial(_identical, halves, halves[[0, 0]]), WRONG)
    codes = np.array([127, -128], np.int8)
    yield Control("identical/one code", partial(_identical, codes, codes[[0, 0]]), WRONG)
    strided = np.arange(24, dtype=np.float32).reshape(4, 6)
    yield Control("identical/strided", partial(_identical, strided[:, ::2], strided[:, ::2].copy()), SAME)
    yield Control("identical/one array on both sides", partial(_identical, ones, ones), VOID)
    many = np.linspace(-3, 3, int(np.prod(MANY)), dtype=np.float32).reshape(MANY)
    wrong = many.copy()
    wrong.view(np.uint32)[-1, -1, -1] ^= 1
    yield Control("identical/one bit of many", partial(_identical, wrong, many), WRONG)
    yield Control("identical/many", partial(_identical, many.copy(), many), SAME)


def written() -> Iterator[Control]:
    """Rows of WRITTEN at every end of an array, and forms."""
    for row, bits, expected in WRITTEN:
        for place, at in PLACES.items():
            yield Control(f"written/{row}, {place}", partial(_written, _patterns(SHAPE, at, bits)), expected)
    for dtype in ("f8", "f2", "i4", ">f4"):
        yield Control(f"written/{dtype}", partial(_written, np.ones(SHAPE, dtype)), WRONG)
    yield Control("written/empty", partial(_written, np.ones((0, 4), np.float32)), VOID)


def _held(condition: Any) -> str:
    return said(verdict.holds("control", condition, "no"))


def holds() -> Iterator[Control]:
    """A condition is yes or no."""
    rows: tuple[tuple[str, Any, str], ...] = (
        ("yes", True, SAME),
        ("no", False, WRONG),
        ("NumPy's yes", np.bool_(True), SAME),
        ("NumPy's no", np.bool_(False), WRONG),
        ("comparison with NaN", NAN <= 1, WRONG),
        ("NaN", NAN, VOID),
        ("one", 1, VOID),
        ("text", "no", VOID),
        ("nothing", None, VOID),
        ("array", np.ones(3), VOID),
    )
    for row, condition, expected in rows:
        yield Control(f"holds/{row}", partial(_held, condition), expected)
