"""Dense products of FP16 weights on lanes: every bit against the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import linear_f16
from strata.kernels.paths import PATHS
from validation.core.random_streams import Stream
from validation.operations.linear import model

PATH = PATHS["linear_f16/f16/simt"]


def drawn(seed: int, rows: int, outputs: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Any binary16 numbers, uint16 [outputs, width], and float32 rows of the size of 1."""
    stream = Stream.of(seed, "halves")
    weights = stream.child("weights").octets((outputs, 2 * width)).view("<u2").astype(np.uint16)
    weights = np.where((weights & 0x7C00) == 0x7C00, weights ^ 0x4000, weights)
    return weights, stream.child("rows").normals((rows, width))


def assert_product(executor: LanesExecutor, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    got = linear_f16.run(executor, PATH, weights, x)
    assert got.guards_ok
    due = model.bits("f16", weights, x).out
    assert np.array_equal(got.out.view(np.uint32), due.view(np.uint32))
    return got.out


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 19), st.integers(1, 19), st.integers(1, 80))
def test_drawn_sizes(checked: LanesExecutor, seed: int, rows: int, outputs: int, fours: int) -> None:
    assert_product(checked, *drawn(seed, rows, outputs, 4 * fours))


def test_numbers_that_are_none(checked: LanesExecutor) -> None:
    weights, x = drawn(1, 5, 9, 132)
    weights[1, 3], weights[2, 131], x[3, 0], x[4, 7] = 0x7C00, 0x7E01, np.inf, np.nan
    assert np.isnan(assert_product(checked, weights, x)[4]).all()


def test_rows_from_a_later_one_on(checked: LanesExecutor) -> None:
    weights, x = drawn(2, 21, 5, 36)
    due = model.bits("f16", weights, x).out
    placed, given_ = linear_f16.upload(checked, weights), checked.array(x)
    for first, rows in ((20, 1), (3, 17)):
        out = checked.empty((rows, 5), np.float32)
        linear_f16.launch(checked, placed, given_, out, rows, first)
        assert np.array_equal(out.host().view(np.uint32), due[first : first + rows].view(np.uint32))


def test_what_does_not_fit_is_refused(checked: LanesExecutor) -> None:
    weights, x = drawn(3, 1, 2, 8)
    with pytest.raises(
        StrataError, match=r"weights of f16 are float16 \(2, 8\), expected uint16 \[outputs, a multiple"
    ):
        linear_f16.run(checked, PATH, weights.view(np.float16), x)
    with pytest.raises(StrataError, match=r"weights of f16 are uint16 \(2, 6\)"):
        linear_f16.run(checked, PATH, weights[:, :6], x[:, :6])
    with pytest.raises(StrataError, match=r"rows are float32 \(1, 4\), expected float32 \[rows, 8\]"):
        linear_f16.run(checked, PATH, weights, x[:, :4])
