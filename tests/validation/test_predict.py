"""Which rule predicts what."""

from __future__ import annotations

import pytest

from strata.kernels.paths import PATHS
from tests.validation.stub import StubCard, StubExecutor
from validation.predict import DEFAULT_RULE, rule_for, rule_on

TENSOR, PLAIN = PATHS["prompt_attention/q4_0/sm75"], PATHS["decode_attention/q4_0/simt"]


@pytest.mark.parametrize(("capability", "rule"), [(75, "sm_75"), (80, "sm_80"), (89, "sm_89"), (90, "sm_90")])
def test_established_cards_have_their_rule(capability: int, rule: str) -> None:
    assert rule_on(StubCard(capability=capability)) == rule
    assert rule_for(TENSOR, StubCard(capability=capability)) == rule


def test_ptx_for_an_older_target_follows_the_card() -> None:
    assert rule_for(TENSOR, StubCard(arch="compute_75", capability=90)) == "sm_90"


@pytest.mark.parametrize("executor", [StubCard(capability=121), StubExecutor()])
def test_elsewhere_only_paths_without_tensor_cores_are_predicted(executor: StubExecutor) -> None:
    assert rule_on(executor) is None
    assert rule_for(TENSOR, executor) is None
    assert rule_for(PLAIN, executor) == "exact"


def test_the_default_is_the_measured_card() -> None:
    assert DEFAULT_RULE == "sm_90"
