"""The policy as published, and its ranges in words."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.gates.policy import POLICY, Policy, Rule
from strata.kernels.paths import PATHS
from strata.kernels.required import Required
from strata.kernels.tiers import NEWEST, TIERS


def test_every_path_that_replaces_another_needs_a_record() -> None:
    assert set(POLICY.rules) == set(TIERS)
    assert set(POLICY.ungated) == {path.operation for path in PATHS.values() if path.baseline is None}
    assert set(POLICY.required) == {path.operation for path in PATHS.values() if path.baseline}
    (attention,) = POLICY.required["prompt_attention"]
    assert (attention.recipe, attention.keys) == ("signed_decades", ("context", "queries"))
    assert set(attention.sizes) == {(4096, 512), (1500, 512)}
    experts = {(one.recipe, size) for one in POLICY.required["expert_fused"] for size in one.sizes}
    assert {one.keys for one in POLICY.required["expert_fused"]} == {("tokens", "experts", "top", "n", "ff")}
    assert experts == {
        ("experts_decades", (256, 64, 10, 2560, 640)),
        ("experts_decades", (150, 4, 2, 2560, 640)),
        ("experts_broken", (9, 7, 3, 256, 128)),
        ("experts_stray", (9, 7, 3, 256, 128)),
        ("experts_edges", (577, 8, 1, 256, 128)),
        ("experts_ties", (9, 7, 3, 256, 128)),
        ("experts_golden", (9, 7, 3, 256, 128)),
    }
    assert POLICY.rules == {
        "sm75": Rule((75, 79), (75, 75)),
        "sm80": Rule((80, NEWEST), (80, NEWEST)),
        "simt": Rule((60, NEWEST), (70, NEWEST)),
    }
    for path in PATHS.values():
        if path.baseline is not None:
            assert POLICY.rules[path.tier].serves[0] == path.min_capability


def test_no_device_is_served_by_two_tiers_of_tensor_cores() -> None:
    (_, turing), (ampere, _) = POLICY.rules["sm75"].serves, POLICY.rules["sm80"].serves
    assert turing < ampere


def test_what_is_missing_is_named() -> None:
    asked = Required("r", ("a", "b"), ((4096, 1), (2, 3)))
    whole = ["recipe=r seed=1 a=4096 b=1 c=5", "recipe=r b=3 a=2"]
    assert asked.missing(whole) == ""
    assert asked.missing(whole[:1]) == "r at 2/3"
    assert asked.missing(["recipe=q a=4096 b=1", "recipe=r a=4096 b=10", "nonsense"]) == "r at 4,096/1 and 2/3"


def test_all_that_an_operation_requires_is_asked() -> None:
    policy = Policy({}, {"a": (Required("r", ("k",), ((1,),)), Required("s", ("k",), ((2,), (3,))))})
    assert policy.missing("a", ["recipe=r k=1", "recipe=s k=3", "recipe=s k=2"]) == ""
    assert policy.missing("a", (text for text in ["recipe=r k=1", "recipe=s k=2"])) == "s at 3"
    assert policy.missing("a", []) == "r at 1"
    with pytest.raises(StrataError, match="'b' has no row of required cases, expected one of a"):
        policy.missing("b", [])
