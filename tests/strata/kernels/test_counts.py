"""Counts beyond 2^31, and calls whose counts would wrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine, router
from strata.kernels.counts import MOST, check_counted, counted
from strata.kernels.experts import Experts, Geometry, check_pairs, check_tokens, layout


def test_a_count_is_unsigned() -> None:
    lanes = LanesExecutor()
    for count in (0, 1, (1 << 31) - 1, 1 << 31, MOST):
        assert counted(lanes.array(np.array([count], np.uint32).view(np.int32))) == [count]
    assert counted(lanes.array(np.array([[-1, 2]], np.int32))) == [MOST, 2]


def test_what_a_count_cannot_hold_is_refused() -> None:
    check_counted(MOST, "a call")
    with pytest.raises(StrataError, match="a call: 4294967296 values, expected up to 4294967295 in one call"):
        check_counted(MOST + 1, "a call")


def virtual(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of any size in no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def test_experts_refuse_a_call_whose_lost_outputs_could_read_as_none() -> None:
    """2^20 pairs of 4,096 values are 2^32 outputs: all NaN, they would count as 0."""
    geometry = Geometry(4096, 64)
    check_pairs((1 << 20) - 1, geometry)
    experts = Experts("iq3_s", "q2_0", geometry, [np.zeros(layout("iq3_s", "q2_0", geometry).nbytes, np.uint8)])
    x, ids = virtual((1 << 18, 4096), np.float32), virtual((1 << 18, 4), np.int32)
    check_tokens(experts, x[:-1], ids[:-1])
    with pytest.raises(StrataError, match="1048576 pairs of 4096 values: 4294967296 values"):
        check_tokens(experts, x, ids)


def test_around_the_experts_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = LanesExecutor()
    monkeypatch.setattr(LanesExecutor, "array", lambda self, host, name="": None)
    with pytest.raises(StrataError, match="1048576 tokens of 4096 outputs: 4294967296 values"):
        combine.run(lanes, virtual((1 << 20, 1, 4096), np.float32), virtual((1 << 20, 1), np.float32))
    with pytest.raises(StrataError, match="4194304 tokens of 1024 logits: 4294967296 values"):
        router.run(lanes, virtual((1 << 22, 1024), np.float32), 1)
