"""The table of paths is complete, and every row can be built."""

from __future__ import annotations

import pytest

from strata.executors.base import KERNELS
from strata.kernels.paths import MODES, PATHS, select

#: Tiers of each operation and the lowest compute capability, times ten, that has their instructions.
TIERS = {"prompt_attention": {"sm75": 75, "sm80": 80}, "decode_attention": {"simt": 60}, "kv_pack": {"simt": 60}}


def test_there_is_one_path_for_each_operation_mode_and_tier() -> None:
    want = {f"{operation}/{mode}/{tier}" for operation, tiers in TIERS.items() for mode in MODES for tier in tiers}
    assert set(PATHS) == want
    for name, path in PATHS.items():
        assert path.name == name
        assert path.min_capability == TIERS[path.operation][path.tier]


def test_prompt_attention_replaces_the_baseline_of_its_mode() -> None:
    for path in PATHS.values():
        if path.operation == "prompt_attention":
            assert path.baseline == f"decode_attention/{path.mode}/simt"
            assert path.baseline in PATHS
        else:
            assert path.baseline is None


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
