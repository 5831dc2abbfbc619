"""Words of rows: bytes are kept as they are, integers are told as numbers, and another type is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.core.row_words import DIGITS, WORDS, differing, of_bytes, said, words

PATTERNS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9)
TYPES = st.sampled_from(WORDS)


def row(patterns: list[int], dtype: np.dtype) -> np.ndarray:
    return np.array(patterns, np.uint32).view(dtype)


@given(PATTERNS, TYPES)
def test_no_bit_of_a_word_changes(patterns: list[int], dtype: np.dtype) -> None:
    data = words(row(patterns, dtype)).tobytes()
    assert data == b"".join(pattern.to_bytes(4, "little") for pattern in patterns)
    assert len(data.hex()) == DIGITS * len(patterns)
    back = of_bytes(data, dtype)
    assert back.dtype == dtype and back.view(np.uint32).tolist() == patterns


@given(PATTERNS, PATTERNS, TYPES)
def test_rows_differ_where_their_bits_do(one: list[int], other: list[int], dtype: np.dtype) -> None:
    size = min(len(one), len(other))
    due = [at for at in range(size) if one[at] != other[at]]
    assert differing(row(one[:size], dtype), row(other[:size], dtype)).tolist() == due


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint32, np.int16, np.bool_])
def test_rows_of_another_type_are_refused(dtype: type) -> None:
    with pytest.raises(StrataError, match=f"row of {np.dtype(dtype).name} in a record, expected float32 or int32"):
        words(np.zeros(3, dtype))


def test_rows_of_two_types_or_lengths_are_not_compared() -> None:
    with pytest.raises(StrataError, match="expected one type and length"):
        differing(np.zeros(3, np.float32), np.zeros(3, np.int32))
    with pytest.raises(StrataError, match=r"float32 \[3\] with float32 \[2\]"):
        differing(np.zeros(3, np.float32), np.zeros(2, np.float32))


def test_an_integer_is_told_as_a_number_and_a_float_by_its_bits() -> None:
    assert said(np.int32(-1)) == "-1"
    assert said(np.int32(0x3F800000)) == "1065353216"
    assert said(np.float32(1.0)) == "3f800000"
    assert said(np.float32(np.nan)) == "7fc00000"
