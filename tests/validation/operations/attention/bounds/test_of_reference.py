"""The reference's derived bound holds for the reference in every order of its sums, and is no constant."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.pool import MODES
from validation.core.random_streams import Stream
from validation.operations.attention.bound import reference_bound
from validation.operations.attention.bounds import of_reference as bounds
from validation.operations.attention.certificate import certify
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend, terms
from validation.operations.kv_pack.case import Case

RECIPES = ["signed_decades", "outliers", "scale_extremes", "small_q", "peaked", "flat", "absent_pages", "zeros"]


def test_gamma_is_the_product_of_that_many_roundings() -> None:
    for count in (1, 256, 2051):
        exact = (1 + Fraction(1, 2**53)) ** count - 1
        assert exact <= Fraction(bounds.gamma(count)) <= exact * (1 + Fraction(count, 2**50))
    assert bounds.rounding(2051).numerator > bounds.rounding(10).numerator


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MODES),
    st.sampled_from(RECIPES),
    st.integers(1, 100),
    st.integers(0, 2**32),
    st.sampled_from([None, None, -140, -6, 0, 4, 60]),
)
def test_numpy_in_any_order_stays_within_the_bound_of_the_truth(
    mode: str, recipe: str, cells: int, seed: int, exponent: int | None
) -> None:
    case = Case(recipe, seed, cells, 1, 4)
    inputs = build(case, mode)
    if exponent is not None:
        inputs = replace(inputs, q=Stream.of(seed, "q").normals(inputs.q.shape, exponent))
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0])
    own = reference_bound(inputs, reference)
    of = terms(inputs.q[0], inputs.pool, inputs.ids[0], int(inputs.widths[0]))
    turned = one_by_one(of.q, of.k, of.v, Stream.of(seed, "order"))
    for enclosure in certify(case, inputs, np.array([0])).sampled:
        limit = Fraction(own[enclosure.index])
        assert enclosure.far(reference.out[enclosure.index]) <= limit
        assert enclosure.far(float(turned.reshape(-1, 256)[enclosure.index[1:]])) <= limit


def one_by_one(q: np.ndarray, k: np.ndarray, v: np.ndarray, stream: Stream) -> np.ndarray:
    """The same attention with every sum one term at a time, dims and cells in another order."""
    cells = k.shape[-1]
    scores, out = np.zeros((*q.shape[:2], cells)), np.zeros(q.shape)
    for dim in stream.child("dims").permutation(256).tolist():
        scores += q[:, :, dim, None] * k[:, None, dim]
    if cells == 0:
        return out
    scores /= 16
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = np.zeros(q.shape[:2])
    for cell in stream.child("cells").permutation(cells).tolist():
        total += weights[..., cell]
        out += weights[..., cell, None] * v[:, None, cell]
    return np.asarray(out / total[..., None])


def test_the_bound_is_per_element_and_of_the_size_of_fp64() -> None:
    inputs = build(Case("signed_decades", 3, 150, 2, 4), "int8")
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0, 1])
    own = reference_bound(inputs, reference)
    assert (own > bounds.UNIT * reference.magnitude).all()
    # Scores here are sums of less than 2**7, so a weight is good to gamma_256 of that, twice.
    assert (own < 4 * 2.0**7 * bounds.gamma(256) * np.abs(reference.magnitude).max()).all()
