"""What must have been launched for a path."""

from __future__ import annotations

import pytest

from strata.kernels.paths import PATHS
from validation.operations.attention.kernels import ATTENTION


@pytest.mark.parametrize("path", [path for path in PATHS.values() if path.operation in ATTENTION])
@pytest.mark.parametrize("group", [4, 8, 12])
def test_kernels_carry_mode_tier_and_group(path: object, group: int) -> None:
    operation = ATTENTION[path.operation]  # type: ignore[attr-defined]
    assert operation.kernels is not None
    kernels = operation.kernels(path, group)  # type: ignore[arg-type]
    assert len({kernel.entry for kernel in kernels}) == len(kernels) > 0
    assert any(dict(kernel.defines).get("GROUP") == group for kernel in kernels)


def test_prompt_attention_runs_one_block_for_each_query_and_kv_head() -> None:
    blocks = ATTENTION["prompt_attention"].blocks
    assert blocks is not None
    assert blocks(5, 2) == 10
    assert ATTENTION["decode_attention"].blocks is None
