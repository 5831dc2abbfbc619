"""What must have been launched for a path, and how it is timed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from strata.kernels.paths import PATHS
from tests.validation.stub import StubCard, StubExecutor
from validation.operations.attention.kernels import ATTENTION, Operation, device_milliseconds
from validation.operations.attention.pools import build
from validation.operations.kv_pack.case import Case

PATH = PATHS["prompt_attention/q4_0/sm75"]
INPUTS = build(Case("uniform", 1, 64, 2), "q4_0")
WANT = np.array([1.0, np.nan], np.float32)


@pytest.mark.parametrize("path", [path for path in PATHS.values() if path.operation in ATTENTION])
@pytest.mark.parametrize("group", [4, 8, 12])
def test_kernels_carry_mode_tier_and_group(path: object, group: int) -> None:
    operation = ATTENTION[path.operation]  # type: ignore[attr-defined]
    assert operation.kernels is not None
    kernels = operation.kernels(path, group)  # type: ignore[arg-type]
    assert len({kernel.entry for kernel in kernels}) == len(kernels) > 0
    assert any(dict(kernel.defines).get("GROUP") == group for kernel in kernels)


def test_prompt_attention_runs_one_block_for_each_query_and_kv_head() -> None:
    blocks = ATTENTION["prompt_attention"].blocks
    assert blocks is not None
    assert blocks(5, 2) == 10
    assert ATTENTION["decode_attention"].blocks is None


class Clock(StubCard):
    def time_launches(self, fn: Callable[[], object], reps: int) -> list[float]:
        fn()
        return [5.0, 1.0, 2.0, 9.0, 3.0][:reps]


class Out:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def host(self) -> np.ndarray:
        return self.values


def timed(values: np.ndarray) -> Operation:
    def run(*arguments: object) -> object:
        raise NotImplementedError

    return Operation(run, prepare=lambda executor, path, inputs: (lambda: None, Out(values)))  # type: ignore[arg-type]


def test_the_median_counts_and_the_timed_output_is_compared_bit_for_bit() -> None:
    got = device_milliseconds(timed(WANT), Clock(), PATH, INPUTS, 5, WANT)
    assert got is not None
    assert got["median"] == 3.0
    assert got["timed_output_is_the_checked_one"]
    other = device_milliseconds(timed(-WANT), Clock(), PATH, INPUTS, 1, WANT)
    assert other is not None
    assert not other["timed_output_is_the_checked_one"]


def test_without_a_device_clock_there_is_no_time() -> None:
    assert device_milliseconds(timed(WANT), StubExecutor(), PATH, INPUTS, 5, WANT) is None
