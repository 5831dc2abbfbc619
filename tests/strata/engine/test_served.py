"""Which paths serve an engine: what dispatch says, the split of few and many rows, and lanes in a card's place."""

from __future__ import annotations

from typing import Any

import pytest

from strata.device import named
from strata.dispatch import Served
from strata.engine.served import FEW_ROWS, Plan, choose
from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.gates.gate import Decision
from strata.switches import PROMPT_OLD


class Card:
    """What `choose` asks of an executor that is a card."""

    capability = 90


def opened(*args: Any) -> Decision:
    return Decision(True, "open: for a test")


def locked(*args: Any) -> Decision:
    return Decision(False, "locked: for a test")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("strata.engine.served.this_machine", lambda: named(90))
    return Card()


def test_on_lanes_the_baselines_serve() -> None:
    plan = choose(LanesExecutor(), "int8", {"q8_0", "f16"}, environ={})
    assert plan.attention_path.name == "decode_attention/int8/simt"
    assert {form: plan.linear_path(form, 99).name for form in plan.linear} == {
        "q8_0": "linear_dp4a/q8_0/simt",
        "f16": "linear_f16/f16/simt",
    }
    assert len(plan.lines()) == 3


def test_on_a_card_few_rows_and_many_take_two_paths_of_the_same_bits(card: Any) -> None:
    plan = choose(card, "fp16", {"q5_0", "f16"}, environ={}, gate=opened)
    assert plan.attention_path.name == "prompt_attention/fp16/sm80"
    assert plan.linear_path("q5_0", FEW_ROWS + 1).name == "linear/q5_0/sm80"
    assert plan.linear_path("q5_0", FEW_ROWS).name == "linear_dp4a/q5_0/simt"
    assert {plan.linear_path("f16", rows).name for rows in (1, 99)} == {"linear_f16/f16/simt"}


def test_a_gate_that_is_locked_and_a_switch_send_everything_to_the_baseline(card: Any) -> None:
    plan = choose(card, "q4_0", {"q5_0"}, environ={}, gate=locked)
    assert plan.attention_path.name == "decode_attention/q4_0/simt"
    assert plan.linear_path("q5_0", 99).name == "linear_dp4a/q5_0/simt"
    assert all("locked: for a test" in line for line in plan.lines())
    asked = choose(card, "q4_0", {"q5_0"}, environ={PROMPT_OLD: "1"}, gate=opened)
    assert asked.attention_path.name == "decode_attention/q4_0/simt"
    assert f"{PROMPT_OLD}=1" in asked.attention.reason


def test_lanes_in_the_place_of_a_card_serve_its_attention_and_the_same_products_sooner() -> None:
    plan = choose(LanesExecutor("sm_90"), "k8v4", {"q4_k"}, 90, {}, opened)
    assert plan.attention_path.name == "prompt_attention/k8v4/sm80"
    assert plan.linear_path("q4_k", 99).name == "linear_dp4a/q4_k/simt"
    assert "the same bits as linear/q4_k/sm80" in plan.linear["q4_k"].reason


def test_lanes_of_another_rule_serve_a_card_only_what_has_no_rule() -> None:
    lanes = LanesExecutor("sm_80")
    with pytest.raises(StrataError, match="expected sm_90"):
        choose(lanes, "fp16", {"q8_0"}, 90, {}, opened)
    assert choose(lanes, "fp16", {"q8_0"}, 90, {}, locked).attention_path.name == "decode_attention/fp16/simt"


def test_a_card_is_what_it_is_and_one_that_runs_nothing_is_refused(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StrataError, match="capability 80 is asked for on a card"):
        choose(card, "fp16", {"q8_0"}, 80, {}, opened)
    monkeypatch.setattr("strata.engine.served.this_machine", lambda: named(50))
    with pytest.raises(StrataError, match="no path of prompt_attention/fp16 can run"):
        choose(card, "fp16", {"q8_0"}, environ={}, gate=opened)


def test_a_format_that_no_product_takes_is_refused() -> None:
    with pytest.raises(StrataError, match="mode 'f32'"):
        choose(LanesExecutor(), "fp16", {"f32"}, environ={})


def test_the_reason_of_each_path_is_a_line() -> None:
    lane = Served("decode_attention/fp16/simt", "why")
    plan = Plan(named(90), "fp16", lane, {"q8_0": Served("linear_dp4a/q8_0/simt", "because")})
    assert plan.lines() == ["why", "because"]
