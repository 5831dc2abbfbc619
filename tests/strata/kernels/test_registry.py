"""Every operation describes itself once, and whoever asks about another one hears so."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib import import_module

import pytest

from strata import switches
from strata.executors.base import KERNELS, StrataError
from strata.gates.policy import POLICY
from strata.kernels.descriptor import Descriptor, SwitchRule
from strata.kernels.path import Path
from strata.kernels.paths import PATHS
from strata.kernels.registry import DESCRIPTORS, find, first_gated, taking

GATED = ("prompt_attention", "expert_fused", "block_select", "linear")


def test_every_module_that_describes_an_operation_is_listed() -> None:
    named = [file.stem for file in KERNELS.glob("*.py") if re.search(r"^DESCRIPTOR = ", file.read_text(), re.MULTILINE)]
    assert sorted(named) == sorted(DESCRIPTORS)
    for name, described in DESCRIPTORS.items():
        assert described is import_module(f"strata.kernels.{name}").DESCRIPTOR
        assert described.name == name


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_an_operation_knows_no_other_and_not_the_registry(name: str) -> None:
    """What two have in common stands in a module of its own."""
    tree = ast.parse((KERNELS / f"{name}.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "strata.kernels":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strata.kernels."):
            found.add((node.module or "").rpartition(".")[2])
    assert "descriptor" in found
    assert found.isdisjoint({*DESCRIPTORS, "registry", "paths"})


def test_gated_are_those_that_replace_another() -> None:
    assert tuple(name for name, one in DESCRIPTORS.items() if one.gated) == GATED == tuple(POLICY.required)
    assert first_gated() == "prompt_attention"
    assert POLICY.ungated == tuple(name for name, one in DESCRIPTORS.items() if not one.gated)


def test_operations_by_what_they_take() -> None:
    assert taking("experts") == ("expert_mmq", "expert_fused", "expert_decode")
    assert taking("router", "combine") == ("router", "combine")
    assert sorted(taking(*{one.takes for one in DESCRIPTORS.values()})) == sorted(DESCRIPTORS)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: find("block_sort"), "operation 'block_sort': expected one of decode_attention, prompt_"),
        (lambda: taking("experts", "rows"), "no operation takes 'rows': expected one of attention, kv_pack, experts"),
    ],
)
def test_an_unknown_name_is_refused(ask: object, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        ask()  # type: ignore[operator]


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_kernels_are_of_the_operation_s_own_sources(name: str) -> None:
    """Each once, with limits for its entry, and at least one from the file of its name."""
    described = DESCRIPTORS[name]
    for path in (path for path in PATHS.values() if path.operation == name):
        made = described.compiled(path)
        assert len(set(made)) == len(made)
        assert set(described.kernels(path)) <= set(made)
        assert f"{name}" in {kernel.source for kernel in described.kernels(path)}
        for kernel in made:
            assert kernel.shared_bytes <= described.limits(path, kernel.entry, path.min_capability).shared_bytes


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_switches_that_it_names_exist_and_are_its_own(name: str) -> None:
    described = DESCRIPTORS[name]
    for rule in (*described.vetoes, *described.requests):
        assert switches.SWITCHES[rule.switch].operation == name
        assert switches.SWITCHES[rule.switch].takes(rule.value)
        assert set(rule.modes) <= set(described.modes)
        assert rule.tier is None or rule.tier in described.tiers


def test_a_rule_concerns_its_modes_and_its_tier() -> None:
    path = Path("o", "q4_0", "sm75", 75)
    for modes, tier, concerned in (
        ((), None, True),
        (("q4_0", "int8"), "sm75", True),
        (("int8",), None, False),
        ((), "sm80", False),
    ):
        assert SwitchRule("S", "1", modes, tier).concerns(path) == concerned


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tiers": ("sm90",)}, "tier 'sm90': expected one of"),
        ({"required": ()}, "prompt_attention requires 0 cases of a record, expected some"),
        ({"replaces": None}, "prompt_attention requires 1 cases of a record, expected none"),
    ],
)
def test_a_description_that_cannot_be_is_refused(changes: dict[str, object], said: str) -> None:
    described: Descriptor = DESCRIPTORS["prompt_attention"]
    with pytest.raises(StrataError, match=said):
        replace(described, **changes)  # type: ignore[arg-type]
