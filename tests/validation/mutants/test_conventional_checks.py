"""The two checks in common use, as they are commonly used."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors import open_executor
from strata.kernels.paths import PATHS
from validation.core import conventional
from validation.core.random_streams import Stream
from validation.mutants import conventional_checks

WANT = np.linspace(-1, 1, 64)


@pytest.mark.parametrize(
    ("got", "nmse", "close"),
    [
        (WANT, True, True),
        (WANT * 1.022, True, False),  # 4.8e-4 of the squares; 0.022 at the ends, where 0.02 is allowed
        (WANT * 1.03, False, False),
        (WANT + 0.009, True, True),
        (-WANT, False, False),
        (np.zeros(64), False, False),
        (np.full(64, np.nan), False, False),
    ],
)
def test_the_limits(got: np.ndarray, nmse: bool, close: bool) -> None:
    said = conventional.judge(got.astype(np.float32), WANT)
    assert (said["nmse_passes"], said["allclose_passes"]) == (nmse, close)


def test_the_data_fill_the_interval() -> None:
    x = conventional.uniform(Stream.of(1, "x"), (4096,))
    assert x.dtype == np.float32
    assert -1 <= x.min() < -0.99
    assert 0.99 < x.max() < 1


@pytest.mark.parametrize("name", ["decode_attention/q4_0/simt", "kv_pack/k8v4/simt"])
def test_healthy_kernels_pass(name: str) -> None:
    said = conventional_checks.run(PATHS[name], open_executor("lanes"), 1)
    assert said["nmse_passes"]
    assert said["allclose_passes"]
    assert said["nmse"] < conventional.NMSE
