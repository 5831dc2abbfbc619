"""The top of block selection in the last of the most rows there may be, with ids beyond 2**32 of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import block_topk, topk_kernels
from strata.kernels.selection import BLOCK, MOST_BLOCKS, MOST_QUERIES
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase
from validation.operations.block_topk.inputs import build

#: Cells of a far query, of which it chooses half, and what is left of its last block.
_CELLS = 4 * 301 + 3


def parts(case: SelectCase, executor: LanesExecutor) -> Sequence[Part]:
    """The last queries of the most, by each kernel."""
    return [Part(f"far {name}", lambda name=name: _far(case, executor, name)) for name in topk_kernels.KERNELS]  # type: ignore[misc]


def _far(case: SelectCase, executor: LanesExecutor, name: str) -> Check:
    given = build(replace(case, context=_CELLS, queries=2, top=_CELLS // 2, options=()))
    steps = lengths.steps(np.full(2, _CELLS), np.full(2, _CELLS // 2))
    near = block_topk.run(executor, given.scores, steps, given.cap)
    scores = Mapped((MOST_QUERIES, MOST_BLOCKS), np.float32, "scores")
    scores.view()[-2:, : given.scores.shape[1]] = given.scores
    all_steps = Mapped((MOST_QUERIES, 4), np.int32, "steps")
    all_steps.view()[-2:] = steps
    ids = Mapped((MOST_QUERIES, MOST_BLOCKS * BLOCK), np.int32, "ids")
    arguments = (scores, all_steps, ids, np.int32(MOST_BLOCKS), np.int32(MOST_BLOCKS * BLOCK))
    executor.launch_end(topk_kernels.kernel(name), (MOST_QUERIES, 1, 1), arguments, MOST_QUERIES - 2)
    width = _CELLS // 2
    return same(f"far {name}", [("ids", ids.view()[-2:, :width].copy(), near.ids[:, :width])], [scores, all_steps, ids])
