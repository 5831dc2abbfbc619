"""Sampled queries are the published ones and the edges; a part of a case is the same rows."""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Stream
from validation.operations.attention.pools import EDGE_WIDTHS, build
from validation.operations.attention.sampling import EVERY_QUERY, SAMPLES, referenced, rows_of, sampled
from validation.operations.kv_pack.case import Case


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


def test_referenced_queries_are_all_of_few_and_of_many_no_regular_share_escapes() -> None:
    assert referenced(np.full(EVERY_QUERY, 9), Stream.of(1)).tolist() == list(range(EVERY_QUERY))
    widths = np.full(512, 2051)
    hit: dict[int, int] = {}
    for seed in range(40):
        rows = referenced(widths, Stream.of(seed))
        assert set(sampled(widths).tolist()) <= set(rows.tolist())
        # One in each share of the queries, besides those at its start.
        assert all(((rows >= 32 * share) & (rows < 32 * share + 32)).any() for share in range(SAMPLES))
        for remainder in range(4):
            hit[remainder] = hit.get(remainder, 0) + bool((rows % 4 == remainder).any())
    # 16 random rows miss one remainder of four in one run of a hundred; the regular ones hit it never.
    assert all(count >= 35 for count in hit.values())
