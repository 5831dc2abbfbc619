"""Conversions and arithmetic of lanes against NumPy, on every code path that a processor can choose."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.conftest import Maker
from tests.strata.executors.lanes.number_inputs import Case, cases, evaluate

CASES = {case.what: case for case in cases()}


def differing(case: Case, got: np.ndarray, want: np.ndarray) -> int:
    differ = got != want
    if case.nan:
        differ &= ~(np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32)))
    return int(differ.sum())


@functools.cache
def native(what: str) -> np.ndarray:
    return evaluate(LanesExecutor(), what, *CASES[what].inputs)


@pytest.mark.parametrize("what", CASES)
def test_bits_equal_numpy(what: str) -> None:
    case = CASES[what]
    assert differing(case, native(what), case.want(*case.inputs)) == 0


def test_the_inputs_are_many() -> None:
    assert len(CASES["half_value"].inputs[0]) == 65536
    assert len(CASES["half_bits"].inputs[0]) > 700_000
    assert len(CASES["exp2"].inputs[0]) > 1_000_000


@pytest.mark.parametrize("what", CASES)
def test_portable_code_gives_the_same_bits(portable: Maker, what: str) -> None:
    case = CASES[what]
    assert differing(case, evaluate(portable(), what, *case.inputs), native(what)) == 0


@pytest.mark.parametrize("what", CASES)
def test_ziglang_gives_the_same_bits(ziglang: Maker, what: str) -> None:
    case = CASES[what]
    assert differing(case, evaluate(ziglang(), what, *case.inputs), native(what)) == 0
