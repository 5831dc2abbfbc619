"""What the two attention operations share: their inputs, checked once, and their result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, StrataError, Witness
from strata.kernels.pool import GROUPS, HEAD_DIM, Pool, PoolBuffers, to_executor


@dataclass(frozen=True)
class Result:
    """What a run of attention gave.

    Parameters
    ----------
    out
        float32 [queries, heads, 256].
    witnesses
        One for each launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    witnesses: list[Witness] = field(default_factory=list)
    guards_ok: bool = True


class Inputs(NamedTuple):
    """Inputs as buffers of one executor, and the sizes that the launches need.

    Parameters
    ----------
    q
        float32 [queries, heads, 256].
    pool
        The pool's arrays.
    ids
        int32 [queries, cap], logical cells.
    steps
        int32 [queries, 4], of which entry 3 is the number of ids to read.
    mode
        The pool's.
    queries
        How many queries there are.
    kv_heads
        KV heads.
    group
        Query heads that share a KV head.
    cap
        Ids of a row.
    page_size
        Cells of a page.
    """

    q: Buffer
    pool: PoolBuffers
    ids: Buffer
    steps: Buffer
    mode: str
    queries: int
    kv_heads: int
    group: int
    cap: int
    page_size: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the output: queries, heads and 256."""
        return self.queries, self.kv_heads * self.group, HEAD_DIM

    def buffers(self) -> list[Buffer]:
        """Every buffer."""
        planes = [plane for plane in self.pool if plane is not None]
        return [self.q, self.ids, self.steps, *planes]


#: Launches a path on prepared inputs, writing `out`: what is timed.
Runner = Callable[[Inputs, Buffer], list[Witness]]


def prepare(executor: Executor, q: np.ndarray, pool: Pool, ids: np.ndarray, steps: np.ndarray) -> Inputs:
    """Check the inputs and copy them to an executor.

    Parameters
    ----------
    executor
        Where the buffers are made.
    q
        float32 [queries, heads, 256], with 4, 8 or 12 query heads a KV head.
    pool
        Keys and values.
    ids
        int32 [queries, cap], logical cells.
    steps
        int32 [queries, 4], of which entry 3 is the number of ids to read.

    Raises
    ------
    StrataError
        For a dtype, a shape, a width or an id that does not fit.
    """
    pool.check()
    if q.ndim != 3 or q.dtype != np.float32 or q.shape[2] != HEAD_DIM or q.shape[0] < 1:
        raise StrataError(f"q is {q.dtype} {q.shape}, expected float32 [queries, heads, {HEAD_DIM}]")
    n_q, n_head, _ = q.shape
    group, rest = divmod(n_head, pool.n_head_kv)
    if rest or group not in GROUPS:
        raise StrataError(f"{n_head} query heads on {pool.n_head_kv} KV heads: expected {GROUPS} query heads a KV head")
    if ids.ndim != 2 or ids.dtype != np.int32 or ids.shape[0] != n_q or ids.shape[1] < 1:
        raise StrataError(f"ids is {ids.dtype} {ids.shape}, expected int32 [{n_q}, cap]")
    if steps.shape != (n_q, 4) or steps.dtype != np.int32:
        raise StrataError(f"steps is {steps.dtype} {steps.shape}, expected int32 [{n_q}, 4]")
    widths = steps[:, 3]
    if int(widths.min()) < 0 or int(widths.max()) > ids.shape[1]:
        raise StrataError(
            f"widths from {int(widths.min())} to {int(widths.max())}, expected 0 to the row stride {ids.shape[1]}"
        )
    valid = np.arange(ids.shape[1])[None, :] < widths[:, None]
    used = ids[valid]
    cells = pool.table.size * pool.page_size
    if used.size and (int(used.min()) < 0 or int(used.max()) >= cells):
        raise StrataError(
            f"ids from {int(used.min())} to {int(used.max())}, expected 0 to {cells - 1}, the cells of the page table"
        )
    return Inputs(
        executor.array(q, "q"),
        to_executor(executor, pool),
        executor.array(ids, "ids"),
        executor.array(steps, "steps"),
        pool.mode,
        n_q,
        pool.n_head_kv,
        group,
        ids.shape[1],
        pool.page_size,
    )


def run(executor: Executor, runner: Runner, inputs: Inputs) -> Result:
    """One run into a fresh poisoned output.

    Parameters
    ----------
    executor
        Where the inputs lie.
    runner
        What launches on the inputs and writes the output.
    inputs
        See `prepare`.
    """
    out = executor.empty(inputs.shape, np.float32, name="out")
    witnesses = runner(inputs, out)
    intact = all(buffer.guards_intact() for buffer in [out, *inputs.buffers()])
    return Result(out.host(), witnesses, intact)
