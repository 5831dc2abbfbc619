"""The table of paths is complete, in the order that plans and records know, and every row can be built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from strata.executors.base import KERNELS, StrataError
from strata.kernels.experts import DOWN, EXPERT_MODES, GATE_UP
from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.paths import PATHS, select, table
from strata.kernels.pool import MODES
from strata.kernels.registry import DESCRIPTORS

#: Names of all paths, written down before operations described themselves.
NAMES = (FilePath(__file__).parent / "paths.txt").read_text(encoding="utf-8").split()
#: Modes and tiers of each operation, and the lowest compute capability, times ten, that has their instructions.
ROWS = {
    "prompt_attention": (MODES, {"sm75": 75, "sm80": 80}),
    "decode_attention": (MODES, {"simt": 60}),
    "kv_pack": (MODES, {"simt": 60}),
    "expert_fused": (EXPERT_MODES, {"sm75": 75, "sm80": 80}),
    "expert_mmq": (EXPERT_MODES, {"sm75": 75, "sm80": 80}),
    "expert_decode": (EXPERT_MODES, {"simt": 61}),
    "router": (("fp32",), {"simt": 60}),
    "combine": (("fp32",), {"simt": 60}),
    "block_select_warp": (("fp32",), {"simt": 60}),
    "block_select": (("fp32",), {"simt": 60, "sm75": 75, "sm80": 80}),
    "block_topk": (("fp32",), {"simt": 60}),
    "rms_norm": (("plain", "residual"), {"simt": 60}),
    "gated": (("gelu_tanh", "swiglu"), {"simt": 60}),
    "softcap": (("fp32",), {"simt": 60}),
    "residual": (("fp32",), {"simt": 60}),
    "linear_dp4a": (LINEAR_FORMATS, {"simt": 61}),
    "linear": (LINEAR_FORMATS, {"sm75": 75, "sm80": 80}),
    "linear_f16": (("f16",), {"simt": 60}),
    "embedding": ((*LINEAR_FORMATS, "f16"), {"simt": 60}),
    "rope": (("fp32",), {"simt": 60}),
    "visible_cells": (("causal",), {"simt": 60}),
}


def test_names_and_their_order_are_those_written_down() -> None:
    """Plans go through paths in this order, and records name them."""
    assert list(PATHS) == NAMES


def test_there_is_one_path_for_each_operation_mode_and_tier() -> None:
    want = {f"{name}/{mode}/{tier}" for name, (modes, tiers) in ROWS.items() for mode in modes for tier in tiers}
    assert set(PATHS) == want
    assert len(EXPERT_MODES) == len(GATE_UP) * len(DOWN) == 12
    for name, path in PATHS.items():
        assert path.name == name
        assert path.min_capability == ROWS[path.operation][1][path.tier]


def test_paths_replace_the_baseline_of_their_mode() -> None:
    """An expert path that of its own tier, which has the same instructions."""
    for path in PATHS.values():
        due = {
            "prompt_attention": f"decode_attention/{path.mode}/simt",
            "expert_fused": f"expert_mmq/{path.mode}/{path.tier}",
            "block_select": "block_select_warp/fp32/simt",
            "linear": f"linear_dp4a/{path.mode}/simt",
        }.get(path.operation)
        assert path.baseline == due
        assert due is None or due in PATHS


def test_a_new_operation_moves_no_other_path() -> None:
    """Whatever its modes, when it is listed last."""
    for modes in (*{one.modes for one in DESCRIPTORS.values()}, ("another",)):
        made = list(table({**DESCRIPTORS, "new": replace(DESCRIPTORS["router"], name="new", modes=modes)}))
        assert [name for name in made if name.startswith("new/")] == [f"new/{mode}/simt" for mode in modes]
        assert [name for name in made if not name.startswith("new/")] == NAMES


def test_a_kernel_that_replaces_a_replacing_one_stands_after_it() -> None:
    newer = replace(DESCRIPTORS["expert_fused"], name="expert_newer", replaces="expert_fused")
    made = list(table({**DESCRIPTORS, "expert_newer": newer}))
    at = made.index("expert_fused/iq3_s/q2_0/sm75")
    assert made[at + 1] == "expert_newer/iq3_s/q2_0/sm75"
    assert [name for name in made if not name.startswith("expert_newer/")] == NAMES


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt_attention": {"replaces": "nothing"}}, "prompt_attention replaces 'nothing', expected one of decode_"),
        ({"prompt_attention": {"modes": ("fp8",)}}, "replaces decode_attention/fp8/simt, expected a path of the table"),
        ({"prompt_attention": {"replaces": "prompt_attention"}}, "replaces a path that replaces it"),
        (
            {"expert_fused": {"tiers": ("simt",)}},
            "/simt replaces expert_mmq, expected one of its tiers",
        ),
    ],
)
def test_a_path_replaces_one_that_exists(changes: dict[str, dict[str, object]], said: str) -> None:
    wrong = {name: replace(DESCRIPTORS[name], **change) for name, change in changes.items()}  # type: ignore[arg-type]
    with pytest.raises(StrataError, match=said):
        table({**DESCRIPTORS, **wrong})


def test_every_operation_has_a_source_and_a_module_of_its_name() -> None:
    for operation in {path.operation for path in PATHS.values()}:
        assert (KERNELS / f"{operation}.cu").is_file()
        assert (KERNELS / f"{operation}.py").is_file()


def test_patterns_select_in_table_order() -> None:
    assert [path.name for path in select("p*/q4_0/sm*")] == ["prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"]
    assert len(select("*")) == len(PATHS)
    with pytest.raises(
        ValueError, match="no path matches 'prompt_attention/q4/sm75'; the nearest is 'prompt_attention/q4_0/sm75'"
    ):
        select("prompt_attention/q4/sm75")
