"""The FP32 baseline: its batches, chunks and workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.executors.base import POISON_WORKSPACE, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import attention, decode_attention
from strata.kernels.decode_attention import BATCH, CELLS
from strata.kernels.paths import PATHS
from strata.kernels.pool import GROUPS, MODES
from tests.strata.kernels import small
from tests.strata.kernels.small import assert_right, make, run, same_bits


def path_of(mode: str) -> str:
    return f"decode_attention/{mode}/simt"


def test_queries_past_a_batch_have_the_bits_of_the_first_ones(checked: LanesExecutor) -> None:
    """33 and more queries take another pair of launches into the same workspace."""
    queries = BATCH + 3
    inputs = make("q4_0", queries=queries, context=queries, n_head_kv=1, group=4)
    inputs = small.with_widths(inputs, [(7 * query) % 30 for query in range(queries)])
    path = PATHS[path_of("q4_0")]
    result = decode_attention.run(checked, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    assert [witness.grid[2] for witness in result.witnesses[::2]] == [BATCH, 3]
    for query in (0, BATCH - 1, BATCH, queries - 1):
        row = slice(query, query + 1)
        alone = replace(inputs, q=inputs.q[row], ids=inputs.ids[row], steps=inputs.steps[row])
        assert same_bits(run(checked, path.name, alone), result.out[row])


@pytest.mark.parametrize("mode", MODES)
def test_chunks_merge_within_the_bound(checked: LanesExecutor, mode: str) -> None:
    """One cell less than a chunk, a chunk, one more, and an empty chunk behind it."""
    inputs = make(mode, "climbing", context=2 * CELLS + 1, queries=4, n_head_kv=1)
    inputs = small.with_widths(inputs, [CELLS - 1, CELLS, CELLS + 1, 2 * CELLS + 1])
    assert_right(checked, path_of(mode), inputs, run(checked, path_of(mode), inputs))


def test_the_workspace_may_hold_anything(checked: LanesExecutor) -> None:
    """Partial results that no chunk wrote are not read: a used workspace gives the bits of a new one."""
    inputs = make("int8", "absent_pages", queries=3)
    inputs = small.with_widths(inputs, [0, 65, 33])
    path = PATHS[path_of("int8")]
    ready = attention.prepare(checked, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    workspace = decode_attention.Workspace(checked, ready)
    outs = []
    for litter in (POISON_WORKSPACE, 0x7F7FFFFF):
        for buffer in (workspace.sums, workspace.maxima, workspace.weights):
            buffer.write(np.full(buffer.shape, litter, np.uint32).view(np.float32))
        out = checked.empty(ready.shape, np.float32, name="out")
        decode_attention.launch(checked, path, ready, out, workspace)
        outs.append(out.host())
    assert same_bits(*outs)
    assert workspace.guards_intact()


def test_the_fast_build_has_the_bits_of_the_checked_one(checked: LanesExecutor) -> None:
    inputs = make("k8v4")
    assert same_bits(run(LanesExecutor(), path_of("k8v4"), inputs), run(checked, path_of("k8v4"), inputs))


def test_the_sanitizers_find_nothing(checked: LanesExecutor) -> None:
    inputs = make("q4_0", "absent_pages", queries=1, context=70, n_head_kv=1)
    assert same_bits(
        run(LanesExecutor(flavor="sanitize"), path_of("q4_0"), inputs), run(checked, path_of("q4_0"), inputs)
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_get_their_numbers_from_mode_and_group(mode: str, group: int) -> None:
    chunk, merge = decode_attention.kernels(mode, group)
    assert chunk.shared_bytes == decode_attention.shared_bytes(mode, group) == dict(chunk.defines)["SHARED_BYTES"]
    assert chunk.shared_bytes <= 48 * 1024  # what every card gives without being asked
    assert merge.shared_bytes == 0
    assert merge == decode_attention.kernels("fp16", group)[1]  # knows no format: one for all modes
    assert dict(merge.defines)["GROUP"] == dict(chunk.defines)["GROUP"] == group


def test_kernels_that_do_not_exist_are_named() -> None:
    with pytest.raises(StrataError, match=r"group 6, expected one of \(4, 8, 12\)"):
        decode_attention.kernels("fp16", 6)
    with pytest.raises(StrataError, match="mode 'bf16'"):
        decode_attention.kernels("bf16", 12)
