"""Pages of any size: the profiles' are powers of two, where a mask does the work of a remainder."""

from __future__ import annotations

import pytest

from strata.executors import open_executor
from strata.kernels.paths import PATHS
from validation.core.settings import Settings
from validation.operations.kv_pack.case import Case
from validation.run.runner import run_case

ATTENTION = [name for name, path in PATHS.items() if path.operation.endswith("_attention")]


@pytest.mark.parametrize("page_size", [3, 100])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_passes_on_pages_that_are_no_power_of_two(name: str, page_size: int) -> None:
    case = Case("uniform", 1, 131, 2, page_size)
    result = run_case(case, PATHS[name], open_executor("lanes", flavor="checked"), Settings())
    assert result["verdict"] == "WITHIN_BOUND", result["explain"]


@pytest.mark.parametrize("mode", ["fp16", "int8", "k8v4", "q4_0"])
def test_packing_passes_on_pages_that_are_no_power_of_two(mode: str) -> None:
    case = Case("pack_bell", 1, 67, 0, 3, group=1)
    result = run_case(case, PATHS[f"kv_pack/{mode}/simt"], open_executor("lanes"), Settings())
    assert result["verdict"] == "EXACT", result["explain"]
