"""Halves of a pool are read and written where the formats keep them, and shift by exact powers of two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.kernels.pool import MODE_FORMATS
from validation.operations.attention import fp16_fields
from validation.operations.attention.pools import build
from validation.operations.attention.reference import values
from validation.operations.kv_pack.case import Case

CASE = Case("laws", 2, 40, 2, 4)
BITS = st.integers(0, 0xFFFF)


@pytest.mark.parametrize("mode", MODE_FORMATS)
@pytest.mark.parametrize("plane", ["k", "v"])
def test_numbers_are_replaced_and_codes_stay(mode: str, plane: str) -> None:
    inputs = build(CASE, mode)
    bits = fp16_fields.halves(inputs.pool, plane)
    cells = inputs.ids[0, :12][inputs.pool.table[inputs.ids[0, :12] // 4] >= 0]
    before = values(inputs.pool, cells)["kv".index(plane)]
    doubled = fp16_fields.with_halves(inputs.pool, plane, fp16_fields.shifted(bits, 1))
    assert np.array_equal(values(doubled, cells)["kv".index(plane)], 2 * before)
    assert np.array_equal(values(doubled, cells)["vk".index(plane)], values(inputs.pool, cells)["vk".index(plane)])
    negative = fp16_fields.with_halves(inputs.pool, plane, fp16_fields.negated(bits))
    assert np.array_equal(values(negative, cells)["kv".index(plane)], -before)
    same = fp16_fields.with_halves(inputs.pool, plane, bits)
    for name in ("k", "v", "k_scale", "v_scale"):
        one, two = getattr(same, name), getattr(inputs.pool, name)
        assert (one is None and two is None) or one.tobytes() == two.tobytes()
    # What was given is not written to.
    assert np.array_equal(fp16_fields.halves(inputs.pool, plane), bits)


@given(BITS, st.integers(-4, 4))
def test_normal_numbers_shift_exactly_and_others_not_at_all(pattern: int, power: int) -> None:
    bits = np.array([pattern], np.uint16)
    field = int(fp16_fields.exponents(bits)[0])
    if field in (fp16_fields.SUBNORMAL, fp16_fields.SPECIAL):
        assert fp16_fields.shifted(bits, power) == bits
    elif 0 < field + power < fp16_fields.SPECIAL:
        want = float(bits.view(np.float16)[0]) * 2.0**power
        assert float(fp16_fields.shifted(bits, power).view(np.float16)[0]) == want


def test_slots_are_those_of_resident_cells_in_list_order() -> None:
    inputs = build(CASE, "int8")
    page, slot = fp16_fields.slots(inputs, 1, 40)
    want = [(int(inputs.pool.table[c // 4]), c % 4) for c in range(40) if inputs.pool.table[c // 4] >= 0]
    assert list(zip(page.tolist(), slot.tolist(), strict=True)) == want
    used = fp16_fields.in_use(inputs)
    assert set(zip(*(axis.tolist() for axis in np.nonzero(used)), strict=True)) == set(want)
    assert not used[0].any()
    assert not used[-1].any()
