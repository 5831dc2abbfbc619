"""What the operations of block selection share: their sizes, their inputs, checked once, and their result.

A query of an indexer looks at every complete block of `BLOCK` cells of its context and gives it a score,

    score = sum over the heads h, in order, from +0, of relu(q_h . key),    relu(d) = d for d > 0, and else +0,

key being the block's pooled key; a NaN stays a NaN through relu, so that it is seen. Which cells a query then attends
to is said in `strata.kernels.topk_kernels`.

Cells behind the last complete block have no key of their own here, and no score: they are chosen first by definition.
Published kernels score them with a key of their own and add 1e9. That is the same wherever scores stay below
1e9, and where they do not the incomplete block would lose, to a larger score or to a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, Buffer, Executor, StrataError, Witness

#: Heads of a query of the indexer, and the dims of each and of a key.
HEADS = 4
DIMS = 128
#: Cells of a block.
BLOCK = 4
#: Cells of complete blocks that a query usually chooses.
TOP = 2048
#: Queries of a launch, and blocks of a cache, at most: those of 1,048,576 cells.
MOST_QUERIES = 8192
MOST_BLOCKS = 1 << 18
#: Bits of every 32-bit word of an output that nothing was written to.
UNWRITTEN = POISON_OUTPUT


class Result(NamedTuple):
    """What a run left behind.

    Parameters
    ----------
    scores
        float32 [n_q, capacity]; of row i the first n_bid are scores, and every word behind them is `UNWRITTEN`.
    ids
        int32 [n_q, cap]; of row i the first `width` are cells, ascending, and every word behind is `UNWRITTEN`.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    scores: np.ndarray
    ids: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool


class Inputs(NamedTuple):
    """Inputs as buffers of one executor, and the sizes that the launches need; see `prepare`."""

    q: Buffer
    keys: Buffer
    steps: Buffer
    queries: int
    capacity: int
    cap: int
    reach: int


class Outputs(NamedTuple):
    """scores: float32 [n_q, capacity]; ids: int32 [n_q, cap]."""

    scores: Buffer
    ids: Buffer


#: Launches a path on prepared inputs, writing the outputs: what is timed.
Runner = Callable[[Inputs, Outputs], list[Witness]]


def usual_width(cells: int, top: int = TOP) -> int:
    """How many cells a query with `cells` cells usually chooses: those of `top`, and an incomplete block."""
    return min(cells, top + BLOCK - 1)


def steps_of(cells: Sequence[int] | np.ndarray, top: int = TOP) -> np.ndarray:
    """The usual steps, int32 [n_q, 4], of queries that have so many cells each."""
    rows = [(n - 1, n, n // BLOCK, usual_width(n, top)) for n in map(int, cells)]
    return np.array(rows, np.int32).reshape(-1, 4)


def check_steps(steps: np.ndarray, queries: int, capacity: int, cap: int | None, reach: int | None) -> tuple[int, int]:
    """The row stride of ids and the reach of a launch, given or by default.

    Parameters
    ----------
    steps
        int32 [n_q, 4]: position, cells n_kv = position + 1, complete blocks n_bid = n_kv // 4, and width, the cells to
        choose.
    queries, capacity
        n_q, and the blocks that there is room for.
    cap
        Row stride of ids, the largest width by default.
    reach
        Blocks that a launch covers, by default the largest n_bid. It decides grids and kernels, and changes no bit.

    Raises
    ------
    StrataError
        For steps that contradict each other or the sizes.
    """
    for name, value in (("row stride of ids", cap), ("reach", reach)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
            raise StrataError(f"a {name} of {value!r}, expected a whole number")
    check_array("steps", steps)
    if not 1 <= queries <= MOST_QUERIES:
        raise StrataError(f"{queries} queries, expected 1 to {MOST_QUERIES}")
    if not 1 <= capacity <= MOST_BLOCKS:
        raise StrataError(f"room for {capacity} blocks, expected 1 to {MOST_BLOCKS}")
    if steps.shape != (queries, 4) or steps.dtype != np.int32:
        raise StrataError(f"steps is {steps.dtype} {steps.shape}, expected int32 [{queries}, 4]")
    positions, cells, blocks, widths = (column.astype(np.int64) for column in steps.T)
    cap = max(1, int(widths.max())) if cap is None else cap
    if not 1 <= cap <= BLOCK * MOST_BLOCKS:
        raise StrataError(f"a row stride of {cap} ids, expected 1 to {BLOCK * MOST_BLOCKS}")
    _refuse((cells != positions + 1) | (cells < 0), "cells", cells, "position + 1, and 0 or more")
    _refuse(blocks != cells // BLOCK, "complete blocks", blocks, f"a {BLOCK}th of its cells")
    _refuse(blocks > capacity, "complete blocks", blocks, f"up to {capacity}, for which there is room")
    _refuse((widths < 0) | (widths > cells) | (widths > cap), "as width", widths, f"0 to its cells, and to {cap}")
    longest = max(1, int(blocks.max()))
    reach = longest if reach is None else reach
    if not longest <= reach <= capacity:
        raise StrataError(f"a reach of {reach} blocks, expected {longest}, the longest query's, to {capacity}")
    return cap, reach


def check_array(name: str, value: object) -> None:
    """Raises StrataError for what is no plain array of NumPy: a mask would be left out without a word."""
    if type(value) is not np.ndarray:
        raise StrataError(f"{name} is a {type(value).__name__}, expected a numpy.ndarray")


def _refuse(wrong: np.ndarray, what: str, values: np.ndarray, expected: str) -> None:
    if wrong.any():
        query = int(np.argmax(wrong))
        raise StrataError(f"query {query} has {int(values[query])} {what}, expected {expected}")


def prepare(
    executor: Executor,
    q: np.ndarray,
    keys: np.ndarray,
    steps: np.ndarray,
    cap: int | None = None,
    reach: int | None = None,
) -> Inputs:
    """Checks the inputs and copies them to the executor.

    Parameters
    ----------
    q
        float32 [n_q, 4, 128].
    keys
        float32 [capacity, 128], one of each block that there is room for.
    steps, cap, reach
        See `check_steps`.

    Raises
    ------
    StrataError
        For shapes, dtypes, sizes and steps that do not fit.
    """
    check_array("q", q)
    check_array("keys", keys)
    if q.ndim != 3 or q.dtype != np.float32 or q.shape[1:] != (HEADS, DIMS):
        raise StrataError(f"q is {q.dtype} {q.shape}, expected float32 [queries, {HEADS}, {DIMS}]")
    if keys.ndim != 2 or keys.dtype != np.float32 or keys.shape[1] != DIMS:
        raise StrataError(f"keys are {keys.dtype} {keys.shape}, expected float32 [blocks, {DIMS}]")
    queries, capacity = q.shape[0], keys.shape[0]
    cap, reach = check_steps(steps, queries, capacity, cap, reach)
    arrays = (executor.array(q, "q"), executor.array(keys, "keys"), executor.array(steps, "steps"))
    return Inputs(*arrays, queries, capacity, cap, reach)


def outputs(executor: Executor, inputs: Inputs) -> Outputs:
    """Fresh poisoned outputs."""
    return Outputs(
        executor.empty((inputs.queries, inputs.capacity), np.float32, poison=UNWRITTEN, name="scores"),
        executor.empty((inputs.queries, inputs.cap), np.int32, poison=UNWRITTEN, name="ids"),
    )


def run(executor: Executor, runner: Runner, inputs: Inputs, workspace: Sequence[Buffer] = ()) -> Result:
    """One run into fresh outputs. workspace: other buffers that the runner writes to."""
    made = outputs(executor, inputs)
    witnesses = runner(inputs, made)
    buffers = [*inputs[:3], *made, *workspace]
    return Result(made.scores.host(), made.ids.host(), witnesses, all(one.guards_intact() for one in buffers))


def strayed(array: np.ndarray, written: np.ndarray) -> int:
    """How many words behind the first `written[i]` of each row i of an output no longer hold `UNWRITTEN`."""
    behind = np.arange(array.shape[1])[None, :] >= written[:, None]
    return int((behind & (array.view(np.uint32) != UNWRITTEN)).sum())
