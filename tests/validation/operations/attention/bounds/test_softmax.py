"""The bound holds for every perturbation it admits, and is not much wider than the worst of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.numerics.roundoff import WIDENED
from validation.operations.attention.bounds.of_reference import EXP_ULPS, gamma
from validation.operations.attention.bounds.softmax import Rounding, largest_error
from validation.operations.attention.terms import Terms

NONE = Rounding(0, 0, 0, 0, 0, 0, 0)


def case(seed: int, cells: int, spread: float, decades: int = 0) -> tuple[Terms, np.ndarray]:
    stream = Stream.of(seed, "softmax")
    scores = stream.child("s").normals((2, 3, cells)).astype(np.float64) * spread
    v = stream.child("v").normals((2, cells, 5)).astype(np.float64)
    v *= 10.0 ** -stream.child("scale").below(decades + 1, v.shape)
    return terms_of(scores, v), weighted(scores, v)


def terms_of(scores: np.ndarray, v: np.ndarray) -> Terms:
    """Terms of the given scores and values; the bound looks at neither q nor K."""
    cells, nothing = scores.shape[-1], np.zeros(0)
    largest_v = np.abs(v).max(axis=(1, 2), initial=0.0)
    return Terms(
        scores,
        np.abs(scores) + 1,
        np.ones((2, cells)),
        np.ones((2, 3)),
        v,
        largest_v,
        nothing,
        nothing,
        np.arange(cells),
    )


def weighted(scores: np.ndarray, v: np.ndarray) -> np.ndarray:
    w = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(w @ v / w.sum(axis=-1, keepdims=True))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from([0.01, 1.0, 30.0, 1e6, 1e18]),
    st.sampled_from([1e-7, 1e-3, 0.3, 5.0]),
    st.integers(0, 3),
)
def test_no_admitted_perturbation_exceeds_the_bound(
    seed: int, cells: int, spread: float, size: float, decades: int
) -> None:
    terms, out = case(seed, cells, spread, decades)
    rounding = Rounding(size, 0, size, size, 0.1 * min(size, 1), 0.1 * min(size, 1), 0)
    bound = largest_error(terms, out, rounding)
    gap = terms.scores.max(axis=-1, keepdims=True) - terms.scores
    d = size * terms.products + size * gap + size
    stream = Stream.of(seed, "perturb")
    for turn in range(6):
        draw = stream.child(turn).normals(d.shape).astype(np.float64)
        e = d * (np.sign(draw) if turn < 3 else draw / 3)
        moved = terms.scores + e
        w = np.exp(moved - moved.max(axis=-1, keepdims=True))
        own = 1 + rounding.numerator * (1.0 - 2.0 * stream.child(turn, "n").below(2, (*w.shape, 5)))
        top = np.einsum("jgn,jgnd,jnd->jgd", w, own, terms.v)
        bottom = w.sum(axis=-1, keepdims=True) * (1 + rounding.denominator * (-1) ** turn)
        # `out` and the quotient are themselves formed in FP64, and `out` from scores of the same bits.
        slop = 4 * gamma(cells + 2 + 2 * EXP_ULPS) * np.abs(terms.v).max()
        assert (np.abs(top / bottom - out) <= bound + slop).all()


def test_the_bound_is_not_vacuous_for_a_small_perturbation() -> None:
    terms, out = case(3, 30, 1.0)
    size = 1e-5
    bound = largest_error(terms, out, Rounding(0, 0, 0, size, 0, 0, 0))
    # The worst perturbation raises every cell on one side of an output and lowers the others.
    worst = np.zeros(out.shape)
    for j, g, d in np.ndindex(*out.shape):
        sign = np.sign(terms.v[j, :, d] - out[j, g, d])
        moved = terms.scores[j, g] + size * sign
        w = np.exp(moved - moved.max())
        worst[j, g, d] = abs(w @ terms.v[j, :, d] / w.sum() - out[j, g, d])
    assert (worst <= bound).all()
    # Twice for the error of the largest score, and |v| + |out| for |v - out|.
    assert np.median(bound / worst) < 5


def test_huge_scores_with_a_clear_winner_have_a_small_bound() -> None:
    terms, _ = case(4, 20, 1e18)
    scores = terms.scores.copy()
    scores[..., 7] = 1e19
    clear = replace(terms, scores=scores, products=np.abs(scores) * 2)
    out = weighted(scores, terms.v)
    bound = largest_error(clear, out, Rounding(1e-6, 0, 1e-7, 1e-7, 1e-6, 1e-6, 0))
    assert (bound <= 1e-5 * (np.abs(out) + 1)).all()


def test_a_tie_that_rounding_may_turn_is_bounded_by_the_hull() -> None:
    terms, _ = case(5, 6, 1.0)
    scores = np.zeros((2, 3, 6))
    tied = replace(terms, scores=scores, products=np.full(scores.shape, 1e30))
    out = weighted(scores, terms.v)
    bound = largest_error(tied, out, Rounding(1e-6, 0, 0, 0, 0, 0, 0))
    assert np.isfinite(bound).all()
    hull = np.abs(terms.v).max(axis=1, keepdims=True) + np.abs(out)
    # The hull, raised for the roundings of its own evaluation; `score` alone is in error, so by nothing else.
    assert np.array_equal(bound, hull * WIDENED)


def test_no_error_and_no_cell_give_no_bound() -> None:
    terms, out = case(6, 9, 1.0)
    assert not largest_error(terms, out, NONE).any()
    empty = terms_of(np.zeros((2, 3, 0)), np.zeros((2, 0, 5)))
    assert not largest_error(empty, np.zeros((2, 3, 5)), Rounding(1, 1, 1, 1, 1, 0.1, 1)).any()


def test_every_error_widens_the_bound() -> None:
    terms, out = case(7, 9, 1.0)
    for name in ("score", "query", "exponent", "weight", "numerator", "denominator", "floor", "rescale"):
        one = largest_error(terms, out, Rounding(**(vars(NONE) | {name: 1e-6})))
        two = largest_error(terms, out, Rounding(**(vars(NONE) | {name: 2e-6})))
        assert (one >= 0).all()
        assert one.max() > 0
        assert (two >= one).all()
        assert two.max() > one.max()
    extra = largest_error(terms, out, NONE, scores=np.full(terms.scores.shape, 1e-6))
    # An error of every score is what an error of every weight is.
    assert np.array_equal(extra, largest_error(terms, out, replace(NONE, weight=1e-6)))


def test_errors_add_up() -> None:
    one = Rounding(1, 2, 3, 4, 5, 6, 7)
    assert one + one == Rounding(2, 4, 6, 8, 10, 12, 14)


def test_cells_of_one_chunk_share_their_rescaling() -> None:
    terms, out = case(7, 9, 1.0)
    rounding = replace(NONE, rescale=1e-6)
    assert not largest_error(terms, out, rounding, chunk=9).any()
    two, nine = (largest_error(terms, out, rounding, chunk=chunk) for chunk in (5, 1))
    assert two.max() > 0
    assert (nine >= two).all()


def test_the_bounds_own_rounding_is_all_that_widens_it() -> None:
    """A few thousand roundings of float64, 2**-53 each, and no more than a hundred-thousandth of a float32 rounding."""
    assert 1 + 4096 * 2.0**-53 <= WIDENED <= 1 + 2.0**-30
