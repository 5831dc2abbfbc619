"""The one-hot case: its FP64 answer is the one that is said to be due, with shared pages counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.pool import MODE_FORMATS
from validation.operations.attention import fp16_fields
from validation.operations.attention.one_hot import DIM, one_hot
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend
from validation.operations.kv_pack.case import Case


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(MODE_FORMATS)), st.integers(1, 90), st.integers(1, 3), st.sampled_from([1, 4, 16]))
def test_the_answer_is_a_quotient_of_counts_in_one_dim_of_one_kv_head(
    mode: str, cells: int, heads: int, page_size: int
) -> None:
    inputs = build(Case("laws", 9, cells, min(3, cells), page_size, n_head_kv=heads, group=4), mode)
    made = one_hot(inputs)
    assert not isinstance(made, str)
    changed, expected = made
    changed.pool.check()
    truth = attend(changed.q, changed.pool, changed.ids, changed.steps, np.arange(len(inputs.q))).out
    # FP64 weights are rounded quotients; one rounding to float32 hides that.
    assert np.array_equal(truth.astype(np.float32), expected)
    assert (expected[:, -4:, DIM] > 0).all()
    assert np.count_nonzero(expected) == 4 * len(inputs.q)
    for plane in ("k", "v"):
        unused = ~fp16_fields.in_use(inputs)
        one, two = (getattr(i.pool, plane).transpose(0, 2, 1, 3)[unused] for i in (inputs, changed))
        assert one.tobytes() == two.tobytes()


def test_a_shared_cell_counts_twice() -> None:
    inputs = build(Case("laws", 9, 16, 1, 4, group=4), "int8")
    assert inputs.pool.table[3] == inputs.pool.table[2]
    made = one_hot(inputs)
    assert not isinstance(made, str)
    assert made[1][0, -1, DIM] == np.float32(2) / np.float32(16)


def test_without_a_resident_cell_there_is_nothing_to_locate() -> None:
    inputs = build(Case("laws", 9, 16, 1, 4), "int8")
    gone = replace(inputs, pool=replace(inputs.pool, table=np.full_like(inputs.pool.table, -1)))
    assert one_hot(gone) == "the shortest list has no resident cell"
