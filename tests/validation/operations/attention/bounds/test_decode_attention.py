"""The baseline's bound covers plain float32 arithmetic in another order, and stays small."""

from __future__ import annotations

import numpy as np
import pytest

from strata.kernels.pool import MODES
from tests.validation.stub import attention
from validation.numerics.roundoff import U
from validation.operations.attention.bounds import decode_attention as bounds
from validation.operations.attention.bounds.softmax import largest_error
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend, terms
from validation.operations.kv_pack.case import Case


def test_rounding_counts_what_the_docstring_counts() -> None:
    one = bounds.rounding(64)
    assert one.score == pytest.approx(15 * U, rel=2.0**-8)
    assert one.numerator == pytest.approx(66 * U, rel=2.0**-8)
    assert bounds.rounding(65).numerator == pytest.approx(67 * U, rel=2.0**-8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", ["signed_decades", "outliers", "scale_extremes", "climbing", "peaked"])
def test_float32_attention_stays_within_a_few_bounds(recipe: str, mode: str) -> None:
    # NumPy sums in another order than the kernel, so its constants differ; the shape of the bound must fit.
    inputs = build(Case(recipe, 4, 150, 2, 4), mode)
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, [0, 1])
    out = attention(inputs)
    for query in range(2):
        of = terms(inputs.q[query], inputs.pool, inputs.ids[query], int(inputs.widths[query]))
        exact = reference.out[query].reshape(2, 12, 256)
        bound = largest_error(of, exact, bounds.rounding(int(inputs.widths[query])))
        error = np.abs(out[query].reshape(exact.shape) - exact)
        assert (error <= 4 * bound).all()
        assert (error > bound / 300).any()
