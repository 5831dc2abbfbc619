"""Block selection and attention in one run: the ids that the one writes are those that the other reads, in the memory
of the device, and no host has them in between."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, Witness
from strata.kernels import attention, block_select, block_select_warp, decode_attention, prompt_attention, selection
from strata.kernels.paths import Path
from strata.kernels.selection import DIMS
from validation.core.dry_run import DryRun
from validation.core.recordable import Launch
from validation.operations.attention.pools import Inputs, select
from validation.operations.attention.selected import Index, scorer_of
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import Widths, find

_SCORERS: dict[str, ModuleType] = {"block_select": block_select, "block_select_warp": block_select_warp}


class Chained(NamedTuple):
    """What a run gave.

    Parameters
    ----------
    out
        float32 [queries, heads, 256].
    ids
        int32 [queries, cap], as block selection left them.
    """

    out: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool
    ids: np.ndarray


class Ready(NamedTuple):
    """Both on prepared buffers.

    Parameters
    ----------
    launch
        Queues them, in order, for a buffer of the output's `shape`.
    ids
        Those that block selection writes and attention reads.
    buffers
        All that they touch beside the output.
    """

    launch: Callable[[Buffer], list[Witness]]
    shape: tuple[int, int, int]
    ids: Buffer
    buffers: list[Any]


def prepare(executor: Executor, path: Path, inputs: Inputs) -> Ready:
    """Buffers of both, and what launches them. Raises StrataError for inputs that do not fit."""
    index, chosen = inputs.index, scorer_of(path)
    assert index is not None
    scorer = _SCORERS[chosen.operation]
    given = selection.prepare(executor, index.q, index.keys, index.steps, inputs.ids.shape[1])
    made = selection.outputs(executor, given)
    work = scorer.workspace(executor, chosen, given)
    ready = attention.prepare(executor, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    fed = ready._replace(ids=made.ids)
    extra = [decode_attention.Workspace(executor, fed)] if path.operation == decode_attention.DESCRIPTOR.name else []

    def launch(out: Buffer) -> list[Witness]:
        ran: list[Witness] = scorer.launch(executor, chosen, given, made, work)
        if extra:
            return [*ran, *decode_attention.launch(executor, path, fed, out, extra[0])]
        return [*ran, *prompt_attention.launch(executor, path, fed, out)]

    return Ready(launch, fed.shape, made.ids, [*given[:3], *made, *work, *fed.buffers(), *extra])


def run(executor: Executor, path: Path, inputs: Inputs) -> Chained:
    """One run into fresh poisoned outputs."""
    ready = prepare(executor, path, inputs)
    out = executor.empty(ready.shape, np.float32, name="out")
    witnesses = ready.launch(out)
    intact = all(buffer.guards_intact() for buffer in [out, *ready.buffers])
    return Chained(out.host(), witnesses, intact, ready.ids.host())


def selects(case: Case) -> bool:
    """Whether block selection chooses the ids of a case."""
    return find(case.recipe).widths is Widths.SELECTED


def fed_by(path: Path, case: Case) -> list[Launch]:
    """What block selection launches in front of a path for a case; nothing where ids are given."""
    if not selects(case):
        return []
    ids, steps, _ = select(case, Widths.SELECTED, 0)
    # One number stands for all: arrays of the right shape that take no memory.
    q, keys = (np.broadcast_to(np.float32(0), (rows, DIMS)) for rows in (len(ids), max(1, int(steps[:, 2].max()))))
    return launches(path, Index(q, keys, steps), ids.shape[1])


def launches(path: Path, index: Index, cap: int) -> list[Launch]:
    """What block selection launches in front of a path of attention, in order."""
    stage: Any = DryRun()
    chosen = scorer_of(path)
    buffers = [stage.array(array) for array in (index.q, index.keys, index.steps)]
    given = selection.Inputs(*buffers, len(index.q), len(index.keys), cap, index.reach)
    scorer = _SCORERS[chosen.operation]
    scorer.launch(stage, chosen, given, selection.outputs(stage, given), scorer.workspace(stage, chosen, given))
    return list(stage.launches)
