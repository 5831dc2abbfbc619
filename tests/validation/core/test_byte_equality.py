"""Equality of bytes: every byte of every size counts, whatever the elements are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from validation.core.byte_equality import difference

DTYPES = ("u1", "i1", "f2", "i4", "f4", "f8")


@given(st.integers(1, 67), st.sampled_from(DTYPES), st.data())
def test_any_one_bit_is_found_and_named(size: int, dtype: str, data: st.DataObject) -> None:
    then = np.arange(size).astype(dtype)
    now = then.copy()
    assert difference(now, then) is None
    byte = data.draw(st.integers(0, then.nbytes - 1))
    now.view(np.uint8)[byte] ^= 1 << data.draw(st.integers(0, 7))
    said = difference(now, then)
    assert said is not None
    assert said.startswith(f"differs in 1 of {then.nbytes} bytes, byte {byte} is ")


def test_bits_count_and_not_values() -> None:
    zeros, nan = np.zeros(3, np.float32), np.full(3, np.nan, np.float32)
    assert difference(-zeros, zeros) is not None
    assert difference(nan.copy(), nan) is None


def test_shape_and_dtype_count() -> None:
    zeros = np.zeros((2, 6), np.float32)
    for other in (zeros.reshape(6, 2), zeros.astype(np.int32), zeros[:1]):
        said = difference(other, zeros)
        assert said is not None
        assert "after it was float32 (2, 6)" in said


def test_arrays_that_are_not_in_one_piece() -> None:
    x = np.arange(24, dtype=np.int16).reshape(4, 6)
    assert difference(x[:, ::2], x[:, ::2].copy()) is None
    assert difference(x[:, ::2], x[:, 1::2].copy()) is not None
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) is None
