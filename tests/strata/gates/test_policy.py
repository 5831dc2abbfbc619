"""The policy as published, and its ranges in words."""

from __future__ import annotations

from strata.gates.policy import NEWEST, POLICY, span
from strata.kernels.paths import PATHS


def test_every_tensor_core_tier_needs_a_record() -> None:
    assert set(POLICY.rules) == {path.tier for path in PATHS.values() if path.baseline is not None}
    free = [path for path in PATHS.values() if path.baseline is None and path.operation not in POLICY.baselines]
    assert {path.tier for path in free}.isdisjoint(POLICY.rules)
    assert set(POLICY.baselines) == {
        PATHS[str(path.baseline)].operation
        for path in PATHS.values()
        if path.baseline and PATHS[path.baseline].tier != "simt"
    }
    assert set(POLICY.required) == {(4096, 512), (1500, 512)}
    for path in PATHS.values():
        if path.tier in POLICY.rules:
            assert POLICY.rules[path.tier].serves[0] == POLICY.rules[path.tier].recorded[0] == path.min_capability


def test_no_device_is_served_by_two_tiers() -> None:
    (_, turing), (ampere, _) = POLICY.rules["sm75"].serves, POLICY.rules["sm80"].serves
    assert turing < ampere


def test_spans_in_words() -> None:
    assert [span(ends) for ends in ((75, 75), (80, NEWEST), (60, 72))] == ["7.5", "8.0 or newer", "6.0 to 7.2"]
