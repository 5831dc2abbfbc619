"""Attention in records: the checks that a case must have been asked are those that the runner asks."""

from __future__ import annotations

import pytest

from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor, healthy
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.attention.operation import under_test
from validation.operations.attention.record import BOUNDED, asked
from validation.operations.kv_pack.case import Case
from validation.run.runner import run_case

SMALL = Case("signed_decades", 1, 40, 2, n_head_kv=1, group=4)


@pytest.mark.parametrize(
    "case", [SMALL, Case("laws", 1, 143, 3, n_head_kv=1, group=4), Case("signed_decades", 1, 300, 256, 4, 1, 4)]
)
@pytest.mark.parametrize("name", ["prompt_attention/q4_0/sm75", "prompt_attention/int8/sm80"])
def test_the_checks_are_the_runner_s(name: str, case: Case) -> None:
    found = run_case(case, PATHS[name], StubExecutor(), Settings(), None, under_test(healthy()))
    assert {check["name"] for check in found["checks"]} == asked(PATHS[name], case)
    for check in found["checks"]:
        if Verdict(check["verdict"]).passes:
            assert check["verdict"] == ("WITHIN_BOUND" if check["name"] in BOUNDED else "EXACT"), check
            assert ("slack" in check["figures"]) == (check["name"] in BOUNDED)
