"""The tensor core is asked what the model answers, under every rule; a core with two answers is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import Argument, Buffer, ExecutorUnavailable, Kernel, StrataError, Witness
from strata.executors.cuda import CudaExecutor
from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.executor import HostBuffer
from tests.validation.stub import StubCard, StubExecutor
from validation.numerics import tensorcore
from validation.numerics.tensorcore import PRESETS
from validation.numerics.tensorcore_rules import rule_on
from validation.numerics.tensorcore_vectors import vector_operands, vectors
from validation.record import identify
from validation.record.identify import INPUTS, SPECIAL, answers, identification, instructions, names, tier_of

RULES = ("sm_75", "sm_75_block4", "sm_80", "sm_90")


def expected(rule: str, k: int) -> dict[str, str]:
    bits = tensorcore.dot(*vector_operands(vectors(k), k), PRESETS[rule])
    return {name: f"{int(value):08x}" for name, value in zip(names(k), bits, strict=True)}


@pytest.mark.parametrize("rule", RULES)
def test_lanes_give_the_model_s_bits(rule: str) -> None:
    found = identification(LanesExecutor(rule=rule), rule)
    want = expected(rule, 8) | ({} if rule.startswith("sm_75") else expected(rule, 16))
    assert found == {"vectors": want, "special": {}}


def test_the_vectors_tell_all_rules_apart() -> None:
    for k, rules in ((8, ("sm_75", "sm_75_block4", "sm_90")), (16, ("sm_80", "sm_90"))):
        assert len({tuple(expected(rule, k).items()) for rule in rules}) == len(rules)


@pytest.mark.parametrize(
    ("executor", "rule", "tier"),
    [
        (StubExecutor(), "sm_75", 75),
        (StubExecutor(), "sm_75_block4", 75),
        (StubExecutor(), "sm_90", 80),
        (StubExecutor(), "8,24", 80),
        (StubCard(arch="sm_75", capability=75), "sm_90", 75),
        (StubCard(arch="compute_75", capability=90), "sm_90", 75),
        (StubCard(arch="sm_86", capability=86), "sm_75", 80),
        (StubCard(arch="sm_120", capability=120), "sm_90", 80),
    ],
)
def test_tier_is_that_of_the_code_that_runs(executor: StubExecutor, rule: str, tier: int) -> None:
    assert tier_of(executor, rule) == tier


def test_an_instruction_that_the_tier_lacks_is_not_asked() -> None:
    with pytest.raises(ValueError, match="k is 16, expected one of"):
        answers(LanesExecutor(), 16, 75)


class _Torn(LanesExecutor):
    """A tensor core of which one output is off by its last bit."""

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        done = super().launch(kernel, grid, args, reached)
        out = args[3]
        assert isinstance(out, HostBuffer)
        values = out.host()
        values.view(np.uint32)[2, 77] ^= 1
        out.write(values)
        return done


def test_two_answers_to_one_dot_product_are_refused() -> None:
    with pytest.raises(StrataError, match="two answers to one dot product, k8_02"):
        answers(_Torn(), 8, 80)


def test_the_instructions_are_named_as_the_source_has_them() -> None:
    source = Path(identify.__file__).with_suffix(".cu").read_text()
    found = re.findall(r'FUNCTION\((\d+), "([a-z0-9.]+)"\)', source)
    assert found == [(str(row), name) for row, name in enumerate(SPECIAL)]
    assert len(set(INPUTS)) == len(INPUTS)
    assert len(INPUTS) <= 32  # one thread each


def test_a_card_answers_as_its_rule_and_its_special_functions_are_near() -> None:
    try:
        card = CudaExecutor()
    except ExecutorUnavailable as error:
        pytest.skip(str(error))
    rule = rule_on(card)
    if rule is None:
        pytest.skip(f"no rule is known for compute capability {card.capability}")
    found = identification(card, "sm_90")
    want: dict[str, str] = {}
    for k in instructions(tier_of(card, "sm_90")):
        want |= expected(rule, k)
    assert found["vectors"] == want
    assert list(found["special"]) == list(SPECIAL)
    x = np.array(INPUTS, np.uint32).view(np.float32).astype(np.float64)
    rcp = np.array([int(word, 16) for word in found["special"]["rcp.approx.f32"].split(",")], np.uint32)
    normal = np.abs(x) >= 2.0**-126  # what becomes of the others is the card's own
    # rcp.approx is within one unit in the last place (PTX ISA).
    assert (np.abs(rcp.view(np.float32) * x - 1) <= 2.0**-22)[normal].all()
