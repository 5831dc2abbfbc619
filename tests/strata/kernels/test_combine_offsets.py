"""Combining beyond 32 bits of offset, which no case of a size that can be computed has.

Blocks start as many items apart as THREADS says, so a kernel built with a large THREADS and launched with its usual
threads does a few late tokens and leaves out all between them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels import combine
from validation.draws import Stream
from validation.magnitude.mapped import Mapped
from validation.reference import combine as reference

RANKS, COLUMNS = 3, 512


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("values", [1 << 31, 1 << 32], ids=["31 bits", "32 bits"])
@pytest.mark.parametrize("of", [RANKS, 1], ids=["rows", "outputs"])
def test_late_tokens_are_combined_from_their_own_rows(lanes: LanesExecutor, values: int, of: int) -> None:
    """of: rows of a token in the array that is so long."""
    token = -(-values // (of * COLUMNS))
    tokens, stream = token + 1, Stream.of(1, "late")
    rows = stream.child("rows").normals((1, RANKS, COLUMNS))
    weights, gate = stream.child("weights").normals((1, RANKS)), stream.child("gate").normals(1)
    shared = stream.child("shared").normals((1, COLUMNS))
    buffers = []
    for name, made in (("rows", rows), ("weights", weights), ("shared", shared), ("gate", gate)):
        buffers.append(Mapped((tokens, *made.shape[1:]), np.float32, name))
        buffers[-1].view()[token] = made[0]
    out, lost = Mapped((tokens, COLUMNS), np.float32, "out"), lanes.array(np.zeros(1, np.int32), "lost", written=True)
    kernel = replace(combine.kernel(), defines=(("THREADS", token * COLUMNS // 4),))
    sizes = (np.int32(tokens), np.int32(RANKS), np.int32(COLUMNS))
    lanes.launch(kernel, (2, 1, 1), (*buffers, out, lost, *sizes))
    due = reference.combine_bits(rows, weights, shared, gate)
    assert np.array_equal(out.view()[token].view(np.uint32), due[0].view(np.uint32))
    assert due.any()
    assert not out.view()[: RANKS + 1].any()
    assert out.guards_intact()


def test_ranks_of_long_rows_are_added_from_where_they_lie(lanes: LanesExecutor) -> None:
    columns, some = (1 << 31) - 4, 4 * combine.THREADS
    stream = Stream.of(2, "long")
    ranks = RANKS + 1  # the last of which begins past 32 bits
    drawn, weights = stream.child("rows").normals((1, ranks, some)), stream.child("weights").normals((1, ranks))
    rows, out = Mapped((1, ranks, columns), np.float32, "rows"), Mapped((1, columns), np.float32, "out")
    rows.view()[..., :some] = drawn
    lost = lanes.array(np.zeros(1, np.int32), "lost", written=True)
    sizes = (np.int32(1), np.int32(ranks), np.int32(columns))
    lanes.launch(combine.kernel(), (1, 1, 1), (rows, lanes.array(weights, "weights"), None, None, out, lost, *sizes))
    due = reference.combine_bits(drawn, weights)
    assert np.array_equal(out.view()[:, :some].view(np.uint32), due.view(np.uint32))
