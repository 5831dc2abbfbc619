"""Numbers within their bound, no numbers where none are due, and wrong answers that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from validation.check.judgement import Due, asked, battery, pattern, same, unwritten
from validation.check.launching import POISONS, stale
from validation.core.verdict import Verdict

NAN, INF = np.nan, np.inf


def due(reference: list[float], limit: float = 0.0, dtype: str = "float32") -> Due:
    wide = np.array(reference, np.float64)
    return Due(dtype, wide, np.full(wide.shape, limit), ("n",))


def passes(got: list[float], own: Due) -> bool:
    with np.errstate(over="ignore"):
        array = np.array(got, own.dtype)
    return all(check.verdict.passes for check in asked("", array, own))


@pytest.mark.parametrize(
    ("got", "reference", "fine"),
    [
        ([1.0, NAN], [1.0, NAN], True),
        ([1.0, 0.0], [1.0, NAN], False),
        ([1.0, INF], [1.0, NAN], False),
        ([NAN, NAN], [1.0, NAN], False),
        ([INF, -INF], [INF, -INF], True),
        ([-INF, -INF], [INF, -INF], False),
        ([3e38, -INF], [INF, -INF], False),
        ([1.5, 2.0], [1.0, 2.0], False),
        ([INF], [1e39], True),
        ([-INF], [1e39], False),
        ([3.4e38], [1e39], False),
        ([INF], [3.4e38], False),
    ],
)
def test_what_is_no_number_must_be_none_of_the_same_kind(got: list[float], reference: list[float], fine: bool) -> None:
    assert passes(got, due(reference)) is fine


def test_near_the_largest_number_either_is_right() -> None:
    edge = float(np.finfo(np.float32).max)
    assert passes([edge], due([edge], 1e32))
    assert passes([INF], due([edge], 1e32))
    assert not passes([-INF], due([edge], 1e32))
    assert not passes([INF], due([edge], 0.0))


def test_a_half_overflows_where_halves_do() -> None:
    assert passes([INF], due([65520.0], dtype="float16"))
    assert not passes([INF], due([65000.0], dtype="float16"))
    assert passes([65000.0], due([65010.0], 32.0, "float16"))


def test_another_type_or_shape_is_a_wrong_answer() -> None:
    for array in (np.zeros(2, np.float16), np.zeros(3, np.float32)):
        assert [check.verdict for check in asked("y ", array, due([0.0, 0.0]))] == [Verdict.EXCEEDS]


def test_the_pattern_names_the_place() -> None:
    check = pattern("y not finite", np.zeros(2, np.float32), due([0.0, NAN]))
    assert check.reason == "1 of 2 elements; at n 1 value 0, reference nan"


def test_the_battery_refuses_a_bound_as_wide_as_the_data() -> None:
    reference = [1.0, -2.0, 3.0]
    assert battery("", due(reference, 1e-6), 0).verdict is Verdict.EXACT
    wide = battery("", due(reference, 4.0), 0)
    assert (wide.verdict, wide.reason) == (
        Verdict.VOID,
        "this case cannot tell right from wrong: zeros; at n 2 reference 3, bound 4",
    )


def test_the_battery_looks_at_rows_that_the_type_can_hold() -> None:
    """An infinity is right where the reference is beyond the type, so there it is no wrong answer."""
    assert battery("", due([1e39, 2.0, 1.0]), 0).verdict is Verdict.EXACT


def test_integers_are_said_as_integers_and_floats_with_their_bits() -> None:
    own = np.array([[1, 2], [3, 4]], np.int32)
    other = own.copy()
    other[1, 0] = -7
    assert same("ids", other, own, ("row", "rank")).reason == "1 of 4 differ; at row 1 rank 0 got -7, expected 3"
    assert same("ids", own, own, ("row", "rank")).verdict is Verdict.EXACT
    assert same("ids", own.astype(np.int64), own, ()).reason.startswith("array is int64")
    assert "bits 80000000" in same("y", np.zeros(1, np.float32), -np.zeros(1, np.float32), ("n",)).reason


def test_one_nan_is_as_good_as_another() -> None:
    odd = np.array([0xFFC12345, 0x3F800000], np.uint32).view(np.float32)
    assert same("y", odd, np.array([np.nan, 1], np.float32), ("n",)).verdict is Verdict.EXACT


def test_where_nothing_is_a_number_the_pattern_alone_must_refuse_zeros() -> None:
    assert battery("y ", due([NAN, INF]), 0).verdict is Verdict.EXACT
    assert battery("y ", due([NAN, INF]), 0).name == "y self"


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "int64"])
def test_what_nobody_wrote_holds_both_poisons(dtype: str) -> None:
    held = []
    for pattern_ in POISONS:
        words = np.full(8, pattern_, "<u4")
        held.append(words.view(dtype).copy())
    assert stale(*held).all()
    held[0][3] = 0
    assert stale(*held).sum() == held[0].size - 1
    same = np.arange(8).astype(dtype)
    assert not stale(same, same.copy()).any()
    check = unwritten("written", stale(*held), ("n",))
    assert check.verdict is Verdict.EXCEEDS
    assert check.reason.endswith("the first at n 0")


def test_outputs_that_are_no_number_prove_no_bits() -> None:
    """A NaN may be any NaN, so the case is within its bound and not exact."""
    check = pattern("y not finite", np.array([NAN, NAN], np.float32), due([NAN, NAN]))
    assert check.verdict is Verdict.WITHIN_BOUND
