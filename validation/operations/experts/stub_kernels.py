"""Stand-ins for expert kernels: the exact-bit model in their place, with faults to order. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.kernels.paths import Path
from validation.core.stub_executor import BLOCK as THREADS
from validation.core.stub_executor import ENTRY, witness
from validation.operations.experts import expected
from validation.operations.experts.arithmetic import FUSED, Arithmetic
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import Codes
from validation.operations.experts.under_test import ExpertOperation, Grouping, Outcome, Shape

#: Changes what a stand-in gives; shape: the work shape it was asked for.
Fault = Callable[[Outcome, Inputs, Shape | None], Outcome]


def outcome(inputs: Inputs, executor: Executor, arithmetic: Arithmetic = FUSED, **changes: Any) -> Outcome:
    """What a right kernel gives, of the model's bits. changes: fields of its witness."""
    ran = [witness(executor, (1, 1, 1), **changes)]
    return replace(due(inputs, arithmetic), witnesses=ran, grouping=grouping(inputs))


def due(inputs: Inputs, arithmetic: Arithmetic) -> Outcome:
    """The model's bits of all pairs, zeros for those of nobody, without what a run has besides."""
    pairs = np.flatnonzero(inputs.named)
    bits = expected.bits(inputs, pairs, arithmetic)
    count, (tokens, top) = inputs.pairs, inputs.ids.shape

    def spread(rows: np.ndarray) -> np.ndarray:
        out = np.zeros((count, rows.shape[1]), rows.dtype)
        out[pairs] = rows
        return out

    return Outcome(
        spread(bits.out).reshape(tokens, top, -1),
        [],
        True,
        count - len(pairs),
        spread(bits.gate).reshape(tokens, top, -1),
        spread(bits.up).reshape(tokens, top, -1),
        Codes(spread(bits.h.q), spread(bits.h.scale)),
        lost=(bits.lost_x, bits.h.lost, int((~np.isfinite(bits.out)).sum())),
    )


def grouping(inputs: Inputs) -> Grouping:
    """Rows by expert, in the order of pairs."""
    ids = np.where(inputs.named, inputs.ids, inputs.experts).reshape(-1)
    order = np.argsort(ids, kind="stable")[: int(inputs.named.sum())]
    slot = np.zeros(inputs.pairs, np.int32)
    slot[order] = np.arange(len(order))
    counts = np.bincount(ids[order], minlength=inputs.experts)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Grouping(slot, (order // inputs.top).astype(np.int32), offsets)


def kernel(
    fault: Fault | None = None, arithmetic: Arithmetic = FUSED, shapes: tuple[Shape, ...] = (), **changes: Any
) -> ExpertOperation:
    """A stand-in operation."""

    def run(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
        made = outcome(inputs, executor, arithmetic, **changes)
        if not trace:
            made = replace(made, gate=None, up=None)
        return made if fault is None else fault(made, inputs, shape)

    return ExpertOperation(
        run,
        arithmetic,
        lambda path, inputs, shape: [Kernel(ENTRY, ENTRY, THREADS)],
        lambda case: shapes,
        lambda inputs, shape: 1,
    )
