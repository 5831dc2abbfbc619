"""Block selection at the end of the largest sizes: the last scores of 2**33 bytes and the last cells of 2**35, and the
tensor scorer's thread blocks that walk over many tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strata.executors.base import Argument, Buffer, Kernel, Witness
from strata.executors.lanes import LanesExecutor
from strata.kernels import block_select, block_select_warp, selection, topk_kernels
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK, MOST_BLOCKS, MOST_QUERIES
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.inputs import Inputs, build
from validation.operations.block_select.scorers import SCORERS

#: Tiles that one thread block of the tensor scorer walks over: an odd number, so that each of a pair of places is used
#: first and last.
TILES_OF_ONE = 5

#: Of a kernel and its grid, the grid that is launched and its first block to run.
Cut = Callable[[Kernel, tuple[int, int, int]], tuple[tuple[int, int, int], int]]


class Partly(LanesExecutor):
    """Launches parts of grids, with buffers of which only what is touched takes memory."""

    def __init__(self, of: LanesExecutor, cut: Cut) -> None:
        super().__init__(rule=of.rule, flavor=of.flavor, seed=of.seed)
        self._cut = cut

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> Mapped:
        return Mapped(shape, dtype, name)

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        grid, first = self._cut(kernel, grid)
        return self.launch_end(kernel, grid, args, first)


def parts(case: SelectCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last query with the last blocks that there may be; and a launch of one thread block for many tiles, where the
    path has such."""
    found = [Part("far", lambda: _far(case, path, executor))]
    if path.operation == "block_select" and path.tier != "simt":
        found.append(Part("few blocks", lambda: _few_blocks(case, path, executor)))
    return found


def _query(case: SelectCase, blocks: int) -> Inputs:
    """One query that has so many blocks, and chooses half of its cells."""
    cells = blocks * BLOCK
    given = build(replace(case, context=cells, queries=1, top=cells // 2, options=()))
    return replace(given, steps=lengths.steps(np.array([cells]), np.array([cells // 2])))


def _tile(path: Path) -> int:
    """Blocks of a tile of a path, or of a warp's thread block."""
    return block_select_warp.WARPS if path.operation == "block_select_warp" else block_select.TILES[path.tier][1]


def _last(array: np.ndarray, name: str, rows: int) -> Mapped:
    """A buffer of so many rows, the last of which are those of an array."""
    made = Mapped((rows, *array.shape[1:]), array.dtype, name)
    made.view()[-len(array) :] = array
    return made


def _far(case: SelectCase, path: Path, executor: LanesExecutor) -> Check:
    tile = _tile(path)
    given = _query(case, tile)
    near = SCORERS[path.operation].run(executor, path, given.q, given.keys, given.steps, given.cap)

    def end(kernel: Kernel, grid: tuple[int, int, int]) -> tuple[tuple[int, int, int], int]:
        """The thread blocks that have the last tile, or rows of it."""
        some = -(-tile * 32 // block_select.THREADS) if kernel.entry == block_select.SPLITTER else 1
        return grid, grid[0] * grid[1] - some

    partly = Partly(executor, end)
    steps = given.steps.copy()
    steps[:, 1:3] = MOST_BLOCKS * BLOCK, MOST_BLOCKS
    q, keys = _last(given.q, "q", MOST_QUERIES), _last(given.keys[:tile], "keys", MOST_BLOCKS)
    cap = MOST_BLOCKS * BLOCK
    all_steps = _last(steps, "steps", MOST_QUERIES)
    inputs = selection.Inputs(q, keys, all_steps, MOST_QUERIES, MOST_BLOCKS, cap, MOST_BLOCKS)
    made = selection.outputs(partly, inputs)
    module: Any = block_select_warp if path.operation == "block_select_warp" else block_select
    work = module.workspace(partly, path, inputs)
    module.score(partly, path, inputs, made.scores, work)
    scores, ids = _view(made.scores), _view(made.ids)
    pairs = [("scores", scores[-1, -tile:].copy(), near.scores[0, :tile])]

    # The same scores at the beginning of their row, and the cells that they choose.
    scores[-1, :tile] = near.scores[0, :tile]
    chosen = _last(given.steps, "steps", MOST_QUERIES)
    topk_kernels.launch(partly, made.scores, chosen, made.ids, tile, "short")
    width = int(given.steps[0, 3])
    pairs.append(("ids", ids[-1, :width].copy(), near.ids[0, :width]))
    return same("far", pairs, [q, keys, all_steps, chosen, *made, *work])


def _view(buffer: Buffer) -> np.ndarray:
    assert isinstance(buffer, Mapped)
    return buffer.view()


def _few_blocks(case: SelectCase, path: Path, executor: LanesExecutor) -> Check:
    """All tiles by one thread block, of a query that has a part of the last one."""
    given = _query(case, TILES_OF_ONE * _tile(path) - 3)
    near = SCORERS[path.operation].run(executor, path, given.q, given.keys, given.steps, given.cap)

    def alone(kernel: Kernel, grid: tuple[int, int, int]) -> tuple[tuple[int, int, int], int]:
        return ((1, *grid[1:]) if kernel.entry == block_select.TENSOR_SCORER else grid), 0

    one = Partly(executor, alone)
    inputs = selection.prepare(one, given.q, given.keys, given.steps, given.cap)
    made, work = selection.outputs(one, inputs), block_select.workspace(one, path, inputs)
    block_select.score(one, path, inputs, made.scores, work)
    pairs = [("scores", _view(made.scores)[:, : given.blocks].copy(), near.scores[:, : given.blocks])]
    return same("few blocks", pairs, [*inputs[:3], *made, *work])
