"""What a pool refuses to be, and how it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.kernels.kv_pack import empty_pool
from strata.kernels.pool import FORMATS, GROUPS, HEAD_DIM, MODES, Pool, mode_formats

TABLE = np.array([1, -1, 0], np.int32)


def pool(mode: str) -> Pool:
    return empty_pool(mode, 2, 4, 3, TABLE)


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_of_every_mode_is_accepted(mode: str) -> None:
    pool(mode).check()


@pytest.mark.parametrize(
    ("mode", "change", "message"),
    [
        ("fp16", {"k": np.zeros((2, 3, 4, 255), np.float16)}, r"k is float16 \(2, 3, 4, 255\), expected float16"),
        ("fp16", {"v": np.zeros((2, 3, 4, 256), np.float32)}, r"v is float32 \(2, 3, 4, 256\), expected float16"),
        ("fp16", {"v": np.zeros((3, 3, 4, 256), np.float16)}, r"v is float16 \(3, 3, 4, 256\), expected float16 \(2,"),
        ("int8", {"k": np.zeros((2, 3, 4, 256), np.uint8)}, r"k is uint8 \(2, 3, 4, 256\), expected int8"),
        ("int8", {"k_scale": None}, "k_scale is nothing, expected float16"),
        ("int8", {"v_scale": np.zeros((2, 3, 4, 8), np.float16)}, r"v_scale is float16 \(2, 3, 4, 8\)"),
        ("int8", {"v_scale": np.zeros((2, 3, 4, 4), np.float32)}, r"v_scale is float32 \(2, 3, 4, 4\)"),
        ("k8v4", {"v_scale": np.zeros((2, 3, 4, 4), np.float16)}, "v_scale given, expected none"),
        ("q4_0", {"v": np.zeros((2, 3, 4, 256), np.uint8)}, r"expected uint8 \(2, 3, 4, 144\)"),
        ("fp16", {"n_head_kv": 2}, r"k is float16 \(2, 3, 4, 256\), expected float16 \(2, 2, 4, 256\)"),
        ("fp16", {"n_head_kv": 0}, "page_size 4 and n_head_kv 0 must be at least 1"),
        ("fp16", {"page_size": 0}, "page_size 0 and n_head_kv 3 must be at least 1"),
        ("fp16", {"table": TABLE.astype(np.int64)}, "table is int64"),
        ("fp16", {"table": TABLE[None]}, r"table is int32 \(1, 3\)"),
        ("fp16", {"table": TABLE + np.int32(1)}, "table names pages 0 to 2, expected -1 to 1"),
        ("fp8", {}, "mode 'fp8': expected one of fp16, int8, k8v4, q4_0"),
    ],
)
def test_what_is_wrong_is_named(mode: str, change: dict[str, Any], message: str) -> None:
    good = pool("fp16" if mode == "fp8" else mode)
    with pytest.raises(StrataError, match=message):
        replace(good, mode=mode, **change).check()


def test_a_pool_of_2_31_rows_is_refused() -> None:
    """Pool rows are 32-bit numbers in the kernels. The array is a view of one byte, not 256 GB."""
    plane = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (1 << 21, 2, 512, 144), (0, 0, 0, 0))
    with pytest.raises(StrataError, match="2147483648 rows, expected fewer than 2\\^31"):
        Pool("q4_0", 512, 2, plane, plane, None, None, TABLE).check()


def test_rows_have_the_bytes_of_the_specification() -> None:
    """Bytes of a cell of two KV heads, K and V together (spec: pools)."""
    per_cell = {}
    for mode in MODES:
        row = sum(fmt.row * np.dtype(fmt.dtype).itemsize + 2 * fmt.scales for fmt in mode_formats(mode))
        per_cell[mode] = 2 * row
    assert per_cell == {"fp16": 2048, "int8": 1056, "k8v4": 816, "q4_0": 576}
    assert HEAD_DIM == 256
    assert GROUPS == (4, 8, 12)
    assert sorted(fmt.code for fmt in FORMATS.values()) == [0, 1, 2]
