"""The bound of a score holds against exact arithmetic, is not idle, and promises nothing where nothing can be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.lanes import RULES, Rule
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import DIMS, HEADS
from tests.validation.operations.block_select.exact import SCORERS, score
from tests.validation.operations.block_select.test_model import EXPONENTS, drawn
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.block_select import bound, model, reference

RULE_NAMES = ("sm_75", "sm_75_block4", "sm_80", "sm_90")


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(SCORERS), st.integers(0, 2**32), EXPONENTS, st.booleans(), st.sampled_from(RULE_NAMES))
def test_every_scorer_stays_within_its_bound_of_the_exact_score(
    path: Path, seed: int, exponents: tuple[int, int], cancels: bool, rule: str
) -> None:
    """The kernel's of the true score, the reference's own, and both together."""
    q, keys = drawn(seed, exponents, cancels)
    got, near = model.scores(path, q, keys, RULES[rule]), reference.scores(q, keys)
    limits = bound.limits(path, q, keys, bound_rule(rule))
    assert got is not None
    for block, key in enumerate(keys):
        exact = score(q[0], key)
        assert abs(Fraction(float(got[0, block])) - exact) <= Fraction(float(limits.kernel[0, block]))
        assert abs(Fraction(float(near[0, block])) - exact) <= Fraction(float(limits.own[0, block]))
        assert abs(float(got[0, block]) - near[0, block]) <= limits.both[0, block]


def bound_rule(rule: str) -> Rule:
    """What a bound knows of a card: of Turing one reading, which covers the other."""
    return RULES["sm_75" if rule == "sm_75_block4" else rule]


@pytest.mark.parametrize("path", SCORERS, ids=lambda path: path.name)
def test_the_bound_is_within_twenty_times_of_what_happens(path: Path) -> None:
    stream = Stream.of(1, "selection")
    q, keys = stream.child("q").normals((8, HEADS, DIMS)), stream.child("keys").normals((64, DIMS))
    got = model.scores(path, q, keys, RULES["sm_90"])
    assert got is not None
    error, limit = np.abs(got - reference.scores(q, keys)), bound.limits(path, q, keys, RULES["sm_90"]).both
    assert (error <= limit).all()
    assert (20 * error > limit).any()


@pytest.mark.parametrize("path", SCORERS, ids=lambda path: path.name)
def test_heads_that_are_surely_negative_have_no_error(path: Path) -> None:
    q, keys = np.full((1, HEADS, DIMS), -1, np.float32), np.ones((1, DIMS), np.float32)
    assert bound.limits(path, q, keys, RULES["sm_90"]).both.tolist() == [[0.0]]


@pytest.mark.parametrize("path", SCORERS, ids=lambda path: path.name)
def test_nothing_is_promised_of_what_is_not_finite_or_may_overflow(path: Path) -> None:
    q, keys = np.ones((2, HEADS, DIMS), np.float32), np.ones((4, DIMS), np.float32)
    keys[1, 3], keys[2, 3], keys[3] = np.nan, np.inf, 2.0**120
    q[1, 2, 7] = -np.inf
    known = np.isfinite(bound.limits(path, q, keys, RULES["sm_90"]).both)
    assert known.tolist() == [[True, False, False, False], [False] * 4]


@pytest.mark.parametrize("path", SCORERS, ids=lambda path: path.name)
def test_bounds_of_blocks_do_not_depend_on_how_many_are_asked_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream.of(1, "selection")
    q, keys = stream.child("q").normals((2, HEADS, DIMS)), stream.child("keys").normals((9, DIMS))
    whole = bound.limits(path, q, keys, RULES["sm_80"])
    monkeypatch.setattr(bound, "_AT_ONCE", 2 * HEADS * 32 * 4)
    parts = bound.limits(path, q, keys, RULES["sm_80"])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=2.0**-40)


def test_another_operations_path_is_refused() -> None:
    q, keys = drawn(1, (0, 0), False)
    with pytest.raises(UnknownOperationError):
        bound.limits(PATHS["block_topk/fp32/simt"], q, keys, RULES["sm_90"])
