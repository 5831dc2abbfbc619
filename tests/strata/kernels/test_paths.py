"""The table of paths is complete, and every row can be built."""

from __future__ import annotations

import pytest

from strata.executors.base import KERNELS
from strata.kernels.paths import DOWN, GATE_UP, MODES, PATHS, limits, select

#: Modes and tiers of each operation, and the lowest compute capability, times ten, that has their instructions.
EXPERTS = [f"{gate_up}/{down}" for gate_up in GATE_UP for down in DOWN]
ROWS = {
    "prompt_attention": (MODES, {"sm75": 75, "sm80": 80}),
    "decode_attention": (MODES, {"simt": 60}),
    "kv_pack": (MODES, {"simt": 60}),
    "expert_fused": (EXPERTS, {"sm75": 75, "sm80": 80}),
    "expert_mmq": (EXPERTS, {"sm75": 75, "sm80": 80}),
    "expert_decode": (EXPERTS, {"simt": 61}),
    "router": (("fp32",), {"simt": 60}),
    "combine": (("fp32",), {"simt": 60}),
}


def test_there_is_one_path_for_each_operation_mode_and_tier() -> None:
    want = {f"{name}/{mode}/{tier}" for name, (modes, tiers) in ROWS.items() for mode in modes for tier in tiers}
    assert set(PATHS) == want
    assert len(EXPERTS) == 12
    for name, path in PATHS.items():
        assert path.name == name
        assert path.min_capability == ROWS[path.operation][1][path.tier]


def test_paths_replace_the_baseline_of_their_mode() -> None:
    """An expert path that of its own tier, which has the same instructions."""
    for path in PATHS.values():
        due = {
            "prompt_attention": f"decode_attention/{path.mode}/simt",
            "expert_fused": f"expert_mmq/{path.mode}/{path.tier}",
        }.get(path.operation)
        assert path.baseline == due
        assert due is None or due in PATHS


def test_integer_products_have_limits_of_their_own() -> None:
    for name in ("expert_fused/iq3_s/q2_0/sm75", "expert_mmq/iq3_s/q2_0/sm75"):
        product, other = limits(PATHS[name], "expert_down"), limits(PATHS[name], "expert_prepare")
        assert product.shared_bytes == 64 << 10
        assert product.needs == ("IMMA.8816.S8.S8",)
        assert "IMMA" in other.forbids
    assert limits(PATHS["expert_fused/iq3_s/q2_0/sm80"], "expert_gate_up").forbids == ("HMMA", "IMMA.8816")


def test_every_operation_has_a_source_and_a_module_of_its_name() -> None:
    for operation in {path.operation for path in PATHS.values()}:
        assert (KERNELS / f"{operation}.cu").is_file()
        assert (KERNELS / f"{operation}.py").is_file()


def test_patterns_select_in_table_order() -> None:
    assert [path.name for path in select("*/q4_0/sm*")] == ["prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"]
    assert len(select("*")) == len(PATHS)
    with pytest.raises(
        ValueError, match="no path matches 'prompt_attention/q4/sm75'; the nearest is 'prompt_attention/q4_0/sm75'"
    ):
        select("prompt_attention/q4/sm75")


def test_limits_of_what_the_assembler_makes_on_later_cards() -> None:
    path = PATHS["expert_fused/iq3_s/q2_0/sm75"]
    assert limits(path, "expert_down", 90) == limits(path, "expert_down", 75)
    later = limits(path, "expert_down", 120)
    assert later.needs == ("IMMA",)
    assert "LDGSTS" in later.forbids
    assert not any(word.startswith("IMMA") for word in later.forbids)
    assert [limits(path, "expert_prepare", arch).spill_bytes for arch in (75, 90, 120)] == [0, 0, 460]


def test_a_known_spill_is_of_one_format_on_one_architecture() -> None:
    allowed = {
        (name, entry, arch): limits(path, entry, arch).spill_bytes
        for name, path in PATHS.items()
        if path.operation == "expert_fused" and path.tier == "sm80"
        for entry in ("expert_gate_up", "expert_down")
        for arch in (80, 86, 89, 90, 120)
    }
    assert {key: spilled for key, spilled in allowed.items() if spilled} == {
        (f"expert_fused/iq2_xs/{down}/sm80", "expert_gate_up", 120): 16 for down in ("iq4_nl", "q2_0")
    }
