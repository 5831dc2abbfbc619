"""Which rule predicts what."""

from __future__ import annotations

import pytest

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS
from tests.validation.stub import StubCard, StubExecutor
from validation.numerics.tensorcore_rules import DEFAULT_RULE, readings, rule_for, rule_on, rules_for

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


def test_turing_has_two_readings_and_every_other_card_one() -> None:
    turing = StubCard(capability=75)
    assert readings(turing) == ("sm_75", "sm_75_block4") == rules_for(TENSOR, turing)
    assert rules_for(PLAIN, turing) == ("sm_75",)
    assert readings(StubCard(arch="compute_75", capability=90)) == ("sm_90",)
    assert readings(StubCard(capability=121)) == () == rules_for(TENSOR, StubCard(capability=121))
    assert {RULES[name].block for name in readings(turing)} == {4, 8}


def test_the_default_is_the_measured_card() -> None:
    assert DEFAULT_RULE == "sm_90"
