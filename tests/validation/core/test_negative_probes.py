"""A case whose verdict accepts a wrong answer, or cannot know one, is void."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.negative_probes import self_check
from validation.core.random_streams import Stream
from validation.core.verdict import Verdict

REFERENCE = Stream.of(1, "reference").normals((3, 4, 8)).astype(np.float64)
BOUND = 1e-5


def sound(candidate: np.ndarray) -> bool:
    return bool((np.abs(candidate - REFERENCE) <= BOUND).all())


def test_a_sound_judge_refuses_the_whole_battery() -> None:
    check = self_check(REFERENCE, BOUND, sound)
    assert check.verdict is Verdict.EXACT
    refused = check.figures["refused"]
    assert {"zeros", "nan", "infinity", "one element", "another query's rows", "permuted heads"} <= set(refused)
    assert {f"flipped head {head}" for head in range(4)} <= set(refused)
    assert check.figures["same as the right answer"] == []


@pytest.mark.parametrize(
    ("judge", "accepted"),
    [
        (lambda x: True, "zeros"),
        (lambda x: not (np.abs(x - REFERENCE) > BOUND).any(), "nan"),
        (lambda x: bool(np.nanmax(np.abs(x - REFERENCE)) <= BOUND), "nan"),
        (lambda x: bool((np.abs(x[:1] - REFERENCE[:1]) <= BOUND).all()), "nan"),
        (lambda x: bool(np.isfinite(x).all() and np.mean(np.abs(x - REFERENCE)) <= BOUND), "one element"),
        (lambda x: bool(np.isfinite(x).all() and np.abs(np.abs(x) - np.abs(REFERENCE)).max() <= BOUND), "flipped head"),
        (lambda x: bool((np.abs(np.sort(x, 1) - np.sort(REFERENCE, 1)) <= BOUND).all()), "permuted heads"),
        (lambda x: bool((np.abs(np.sort(x, 0) - np.sort(REFERENCE, 0)) <= BOUND).all()), "another query's rows"),
        (lambda x: bool((np.abs(np.sort(x, 2) - np.sort(REFERENCE, 2)) <= BOUND).all()), "shifted dimensions"),
    ],
)
def test_a_judge_with_a_fault_voids_the_case(judge: object, accepted: str) -> None:
    assert callable(judge)
    check = self_check(REFERENCE, BOUND, judge)
    assert check.verdict is Verdict.VOID
    assert accepted in check.reason


def test_a_judge_that_refuses_the_truth_voids_the_case() -> None:
    check = self_check(REFERENCE, BOUND, lambda x: False)
    assert check.verdict is Verdict.VOID
    assert "refuses the reference" in check.reason


def test_a_bound_wider_than_a_head_voids_the_case() -> None:
    small = REFERENCE.copy()
    small[:, 2] *= 1e-9
    check = self_check(small, BOUND, lambda x: bool((np.abs(x - small) <= BOUND).all()))
    assert check.verdict is Verdict.VOID
    assert "flipped head 2" in check.reason
    # A bound that follows the head's own size can judge it.
    own = np.maximum(np.abs(small) * 1e-6, 1e-16)
    assert self_check(small, own, lambda x: bool((np.abs(x - small) <= own).all())).verdict is Verdict.EXACT


def test_degenerate_truths_are_no_reason_to_void() -> None:
    zeros = np.zeros((1, 2, 4))
    check = self_check(zeros, 0.0, lambda x: bool((x == 0).all()))
    assert check.verdict is Verdict.EXACT
    assert "zeros" in check.figures["same as the right answer"]
    assert {"nan", "one element"} <= set(check.figures["refused"])
    equal_rows = np.ones((3, 2, 4))
    check = self_check(equal_rows, 1e-6, lambda x: bool((np.abs(x - 1) <= 1e-6).all()))
    assert check.verdict is Verdict.EXACT
    assert "another query's rows" in check.figures["same as the right answer"]


@pytest.mark.parametrize("reference", [np.zeros((0, 2, 4)), np.full((1, 1, 1), np.nan)])
def test_without_a_finite_reference_there_is_no_battery(reference: np.ndarray) -> None:
    assert self_check(reference, 1.0, lambda x: True).verdict is Verdict.VOID
