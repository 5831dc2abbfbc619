"""Far cells stand behind every list, have weight zero, and V as large as the law allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.pool import MODE_FORMATS
from tests.validation.stub import Lawful
from validation.operations.attention import fp16_fields, zero_weight_cells
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import values
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.reference import unpack_q4_0

CASE = Case("laws", 2, 77, 3, 4, group=4)


def appended(mode: str, chunk: int = 32, folded: bool = True) -> tuple[Inputs, Inputs]:
    before = build(CASE, mode)
    after = zero_weight_cells.append(before, chunk, folded)
    assert isinstance(after, Inputs), after
    return before, after


@pytest.mark.parametrize("mode", MODE_FORMATS)
@pytest.mark.parametrize("chunk", [32, 64])
def test_lists_are_filled_and_attention_does_not_move(mode: str, chunk: int) -> None:
    before, after = appended(mode, chunk)
    after.pool.check()
    assert np.array_equal(after.steps[:, 3], after.widths)
    assert (after.widths % chunk).tolist() == [0, chunk // 2, 1]
    for query, width in enumerate(before.widths.tolist()):
        assert np.array_equal(after.ids[query, :width], before.ids[query, :width])
        more = after.ids[query, width : int(after.widths[query])]
        assert len(np.unique(more)) < len(more), "no far cell is listed twice"
        assert (more // 4 >= len(before.pool.table)).all()
        assert len(fp16_fields.slots(after, query, int(after.widths[query]))[0]) == len(
            fp16_fields.slots(before, query, width)[0]
        ) + len(more)
    assert zero_weight_cells.smallest_gap(after, before.widths) >= zero_weight_cells.GAP
    one, two = (Lawful()(each) for each in (before, after))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("mode", MODE_FORMATS)
def test_values_apart_are_the_largest_and_those_beside_no_larger_than_their_chunk(mode: str) -> None:
    before, after = appended(mode)
    bits = fp16_fields.halves(after.pool, "v") & 0x7FFF
    first = len(before.pool.k)
    beside, apart = bits[first, :, 0], bits[first, :, 1]
    assert (apart == 0x7BFF).all()
    if mode == "fp16":
        assert (beside == 0x7BFF).all()
        return
    for query, width in enumerate(before.widths.tolist()):
        tail = len(fp16_fields.slots(before, query, width // 32 * 32)[0])
        page, slot = (place[tail:] for place in fp16_fields.slots(before, query, width))
        assert (beside <= bits[page, :, slot].max(axis=0)).all()
    assert beside.any()
    _, plain = appended(mode, folded=False)
    assert (fp16_fields.halves(plain.pool, "v")[first, :, 0] & 0x7FFF == 0x7BFF).all()


def test_the_gap_of_no_cells_is_none() -> None:
    before, after = appended("int8")
    assert zero_weight_cells.smallest_gap(before, before.widths) == np.inf
    nothing = replace(after, pool=replace(after.pool, table=np.full_like(after.pool.table, -1)))
    assert zero_weight_cells.smallest_gap(nothing, before.widths) == -np.inf
    # A list whose last cell weighs something is not far.
    assert zero_weight_cells.smallest_gap(before, before.widths - 4) < zero_weight_cells.GAP


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_q4_0_rows_decode_to_their_codes(seed: int) -> None:
    draws = np.random.default_rng(seed)
    codes = draws.integers(-8, 8, (2, 3, 256)).astype(np.int8)
    scale = (draws.integers(0x3000, 0x4000, (2, 3, 8))).astype(np.uint16)
    want = codes * scale.view(np.float16).astype(np.float64).repeat(32, axis=-1)
    assert np.array_equal(unpack_q4_0(zero_weight_cells.q4_0(codes, scale).data), want)


def test_far_keys_point_against_every_head() -> None:
    before, after = appended("k8v4")
    cells = np.array([len(before.pool.table) * 4])
    keys = values(after.pool, cells)[0][0]
    for head in range(before.q.shape[1]):
        assert (before.q[:, head] * keys[head // 4] <= 0).all()
