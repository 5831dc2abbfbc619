"""The limits of the published test on rows of experts, as that test uses them."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors import open_executor
from strata.kernels.paths import PATHS
from validation.mutants import conventional_checks
from validation.operations.experts import conventional

WANT = np.tile(np.linspace(-1, 1, 64), (8, 1))


@pytest.mark.parametrize(
    ("got", "passes"),
    [
        (WANT, True),
        (WANT * 1.001, True),
        (WANT * 1.003, False),  # 3e-3 of the root mean square
        (WANT * 0, False),
        (WANT * np.nan, False),
    ],
)
def test_the_limits(got: np.ndarray, passes: bool) -> None:
    assert conventional.limits(got.astype(np.float32), WANT)["rows_passes"] is passes


def test_one_row_far_off_is_refused_by_the_worst_row() -> None:
    want = np.tile(WANT, (1000, 1))
    got = want.astype(np.float32)
    got[77, 0] += np.float32(0.04)
    assert np.sqrt(np.square(got - want).sum() / np.square(want).sum()) < 2e-3
    assert not conventional.limits(got, want)["rows_passes"]


@pytest.mark.parametrize(
    "name",
    ["router/fp32/simt", "combine/fp32/simt", "rms_norm/residual/simt", "gated/swiglu/simt", "softcap/fp32/simt"],
)
def test_healthy_kernels_pass(name: str) -> None:
    said = conventional_checks.run(PATHS[name], open_executor("lanes", flavor="checked"), 1)
    assert said["nmse_passes"]
    assert said["allclose_passes"]


@pytest.mark.parametrize("name", ["expert_mmq/iq3_xxs/iq4_nl/sm75", "expert_decode/iq3_s/q2_0/simt"])
def test_healthy_expert_kernels_pass_what_they_are_held_to(name: str) -> None:
    """Cut integer scales of IQ3_S exceed the limits on rows (docs/experts.md): that kernel is not held to them."""
    said = conventional_checks.run(PATHS[name], open_executor("lanes", flavor="checked"), 1)
    assert said["nmse_passes"]
    assert ("rows_passes" in said) == (PATHS[name].operation in conventional.LIMITED)
    assert said.get("rows_passes", True)
    assert "allclose_passes" not in said
