"""Sampled queries are the published ones and the edges; a part of a case is the same rows."""

from __future__ import annotations

import numpy as np

from validation.cases import Case
from validation.pools import EDGE_WIDTHS, build
from validation.sampling import rows_of, sampled


def test_sampled_queries_are_the_published_ones_and_the_edges() -> None:
    assert sampled(np.full(32, 9)).tolist() == list(range(32))
    chosen = sampled(np.full(512, 2051)).tolist()
    assert set(range(0, 512, 32)) <= set(chosen)
    assert 511 in chosen
    widths = np.arange(1, 1501)
    edges = {width - 1 for width in EDGE_WIDTHS if 1 <= width <= 1500}
    assert edges <= set(sampled(widths).tolist())


def test_rows_of_a_case_are_its_rows() -> None:
    inputs = build(Case("signed_decades", 1, 80, 6), "int8")
    part = rows_of(inputs, np.array([5, 2]))
    assert np.array_equal(part.q, inputs.q[[5, 2]])
    assert np.array_equal(part.ids, inputs.ids[[5, 2]])
    assert part.widths.tolist() == part.steps[:, 3].tolist() == [80, 77]
    assert part.pool is inputs.pool
