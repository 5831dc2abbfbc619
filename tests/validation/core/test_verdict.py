"""The comparators' truth table: what each kind of value on each side must come to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from strata.executors.base import POISON_OUTPUT, POISON_WORKSPACE
from validation.core.verdict import (
    AXES,
    Check,
    Verdict,
    combine,
    float32_bits,
    holds,
    identical,
    short,
    within,
    written,
)

INF, NAN = np.inf, np.nan
W, X, V = Verdict.WITHIN_BOUND, Verdict.EXCEEDS, Verdict.VOID


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def f64(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


@pytest.mark.parametrize(
    ("got", "want", "bound", "verdict"),
    [
        (1.0, 1.0, 0.0, W),
        (1.5, 1.0, 0.5, W),
        (1.5, 1.0, 0.49, X),
        (0.5, 1.0, 0.49, X),
        (-1.0, 1.0, 1.0, X),
        (0.0, -0.0, 0.0, W),
        (-0.0, 0.0, 0.0, W),
        (NAN, 1.0, 1e30, X),
        (INF, 1.0, 1e30, X),
        (-INF, 1.0, 1e30, X),
        (1.0, NAN, 1e30, V),
        (NAN, NAN, 1e30, V),
        (1.0, INF, 1e30, V),
        (INF, INF, 1e30, V),
        (-INF, INF, 1e30, V),
        (1.0, 1.0, NAN, V),
        (1.0, 1.0, INF, V),
        (1.0, 1.0, -1.0, V),
        (NAN, 1.0, INF, V),
    ],
)
def test_truth_table_of_within(got: float, want: float, bound: float, verdict: Verdict) -> None:
    # Alone, and hidden among elements that are right.
    assert within("x", f32(got), f64(want), bound).verdict is verdict
    assert within("x", f32(0, 0, got, 0), f64(0, 0, want, 0), bound).verdict is verdict
    assert within("x", f32(0, got), f64(0, want), f64(0, bound)).verdict is verdict


@pytest.mark.parametrize(
    ("got", "want", "bound", "verdict"),
    [
        (f32(), f64(), 1.0, V),
        (np.zeros((2, 0), np.float32), np.zeros((2, 0)), 1.0, V),
        (f32(1), f64(1, 1), 1.0, X),
        (f32(1, 1), f64(1), 1.0, X),
        (f32(1).reshape(1, 1), f64(1), 1.0, X),
        (np.float32(1).reshape(()), f64(1), 1.0, X),
        (f64(1), f64(1), 1.0, X),
        (f32(1).astype(np.float16), f64(1), 1.0, X),
        (np.array([1], np.int32), f64(1), 1.0, X),
        (f32(1), np.array([1], np.int64), 1.0, V),
        (f32(1), f64(1).astype(np.float16), 1.0, V),
        (f32(1, 1), f64(1, 1), f64(1), V),
        (f32(1, 1), f64(1, 1), f64(1, 1, 1), V),
        (f32(1, 1), f32(1, 1), 0.0, W),
    ],
)
def test_shapes_and_dtypes_never_pass_by_accident(
    got: np.ndarray, want: np.ndarray, bound: float | np.ndarray, verdict: Verdict
) -> None:
    assert within("x", got, want, bound).verdict is verdict


FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


@given(arrays(np.float32, array_shapes(max_dims=3, max_side=4), elements=FINITE), st.data())
def test_within_is_all_and_not_most(got: np.ndarray, data: st.DataObject) -> None:
    want = got.astype(np.float64)
    assert within("x", got, want, 0.0).verdict is W
    index = tuple(data.draw(st.integers(0, side - 1)) for side in got.shape)
    wrong = want.copy()
    wrong[index] += 1 + abs(wrong[index])
    check = within("x", got, wrong, 0.5)
    assert check.verdict is X
    assert str(list(index)) in check.reason
    assert "1 of" in check.reason


def test_the_reason_names_element_value_reference_and_bound() -> None:
    got, want = np.zeros((2, 1, 3), np.float32), np.zeros((2, 1, 3))
    got[1, 0, 2] = 0.25
    check = within("x", got, want, 0.125, labels=(np.array([40, 70]),))
    assert (
        check.reason
        == "1 of 6 elements; at [70, 0, 2] value 0.25 bits 3e800000, reference 0 bits 00000000, bound 0.125"
    )
    assert check.figures["error"] == 0.25
    assert check.figures["slack"] == 2.0


def test_elements_have_names_and_predicted_bits_where_they_are_known() -> None:
    got, want = np.full((1, 1, 2), 0.25, np.float32), np.full((1, 1, 2), 1 / 3)
    place = "at query 40 head 0 dim 0 value 0.25 bits 3e800000, reference 0.333333333"
    check = within("x", got, want, 0.0, labels=(np.array([40]),), axes=AXES)
    assert f"{place} bits 3eaaaaab, bound 0" in check.reason
    check = within("x", got, want, 0.0, labels=(np.array([40]),), axes=AXES, predicted=-got)
    assert f"{place} predicted bits be800000, bound 0" in check.reason
    # Predictions of another shape are of other elements.
    assert "predicted" not in within("x", got, want, 0.0, axes=AXES, predicted=-got[0]).reason


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_short_float32_is_that_float32(value: float) -> None:
    assert np.float32(short(value)) == np.float32(value)
    assert int(float32_bits(value), 16) == int(np.float32(value).view(np.uint32))


def test_identical_gives_values_of_float32_and_the_place_of_the_failure() -> None:
    check = identical("x", f32(0.5, 1), f32(0.5, -2), labels=(np.array([3, 9]),), axes=("query",))
    assert check.reason == "1 of 2 differ; at query 9 got 1 bits 3f800000, expected -2 bits c0000000"
    assert check.at == (9,)
    check = identical("x", np.array([1], np.int8), np.array([2], np.int8))
    assert check.reason == "1 of 1 differ; at [0] got bits 01, expected 02"
    assert identical("x", f32(1), f32(1)).at is None


def test_the_worst_element_is_the_one_said() -> None:
    check = within("x", f32(1, 5, 2), f64(0, 0, 0), f64(0.5, 4.9, 0.5))
    assert "at [2]" in check.reason
    assert "at [1]" in within("x", f32(9, NAN, 9), f64(0, 0, 0), 1.0).reason


PATTERNS = st.integers(0, 2**32 - 1)


@given(st.lists(PATTERNS, min_size=1, max_size=6), st.data())
def test_identical_compares_bits(patterns: list[int], data: st.DataObject) -> None:
    one = np.array(patterns, np.uint32).view(np.float32)
    assert identical("x", one, one.copy()).verdict is Verdict.EXACT
    other = one.copy()
    place, bit = data.draw(st.integers(0, len(patterns) - 1)), data.draw(st.integers(0, 31))
    other.view(np.uint32)[place] ^= np.uint32(1 << bit)
    check = identical("x", one, other)
    assert check.verdict is X
    assert check.figures == {"compared": len(patterns), "differing": 1}
    assert f"at [{place}]" in check.reason


def test_identical_knows_minus_zero_payloads_shape_dtype_and_emptiness() -> None:
    assert identical("x", f32(0.0), f32(-0.0)).verdict is X
    assert identical("x", f32(NAN), f32(NAN)).verdict is Verdict.EXACT
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    check = identical("x", payload, f32(NAN))
    assert check.verdict is X
    assert "got nan bits 7fc00001, expected nan bits 7fc00000" in check.reason
    assert identical("x", f32(1), f64(1)).verdict is X
    assert identical("x", f32(1), np.array([0x3F800000], np.uint32)).verdict is X
    assert identical("x", f32(1, 1), f32(1)).verdict is X
    assert identical("x", f32(), f32()).verdict is V


def test_written_finds_either_poison_and_no_other_nan() -> None:
    out = np.zeros((2, 3), np.float32)
    assert written("x", out).verdict is Verdict.EXACT
    out[0, 0] = NAN
    assert written("x", out).verdict is Verdict.EXACT
    for poison in (POISON_OUTPUT, POISON_WORKSPACE):
        spoiled = out.copy()
        spoiled.view(np.uint32)[1, 2] = poison
        check = written("x", spoiled)
        assert check.verdict is X
        assert "[1, 2]" in check.reason
    assert written("x", out.astype(np.float64)).verdict is X
    assert written("x", out[:0]).verdict is V


def test_only_exact_and_within_bound_pass() -> None:
    assert {verdict for verdict in Verdict if verdict.passes} == {Verdict.EXACT, Verdict.WITHIN_BOUND}


@given(st.lists(st.sampled_from(list(Verdict)), max_size=6))
def test_combined_checks_pass_only_when_all_pass(verdicts: list[Verdict]) -> None:
    whole = combine(Check(str(i), verdict) for i, verdict in enumerate(verdicts))
    assert whole.passes == (bool(verdicts) and all(verdict.passes for verdict in verdicts))
    assert (whole is Verdict.EXACT) == (bool(verdicts) and set(verdicts) == {Verdict.EXACT})
    if Verdict.EXCEEDS in verdicts:
        assert whole is Verdict.EXCEEDS
    if not verdicts:
        assert whole is Verdict.NOT_RUN


def test_holds_says_why_not() -> None:
    assert holds("x", True, "no").reason == ""
    assert holds("x", False, "no") == Check("x", X, "no")


def test_an_array_is_no_proof_of_itself() -> None:
    one = f32(1, 2, 3)
    for check in (within("x", one, one, 1.0), within("x", one[:2], one[1:], 9.0), identical("x", one, one[:])):
        assert check.verdict is V
        assert check.reason == "both sides are the same memory"


def test_a_condition_is_yes_or_no() -> None:
    for condition in (NAN, 1, "no", None, np.ones(2)):
        assert holds("x", condition, "no").verdict is V  # type: ignore[arg-type]
    assert holds("x", np.bool_(True), "no").verdict is Verdict.EXACT  # type: ignore[arg-type]


def test_a_bound_that_is_none_names_its_element() -> None:
    """Whoever derived it must find the place."""
    want, limit = np.ones((3, 2)), np.full((3, 2), 0.5)
    limit[1, 1] = np.nan
    check = within("bound", np.ones((3, 2), np.float32), want, limit, labels=(np.array([7, 9, 11]),), axes=("row", "x"))
    assert check.verdict is Verdict.VOID
    assert check.reason == "the bound is not finite or is negative: at row 9 x 1 it is nan, reference 1"
    assert "at row 0 x 0 it is -1" in within("bound", np.ones((3, 2), np.float32), want, -1.0, axes=("row", "x")).reason
