"""Negative and positive controls of rope, embeddings and visible cells: see `experts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.kernels import embedding, rope, visible_cells
from strata.kernels.embedding import Embedded
from strata.kernels.paths import PATHS
from strata.kernels.rope import Roped
from strata.kernels.visible_cells import UNWRITTEN, Visible
from validation.controls.expert_changes import LANES
from validation.controls.experts import said
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.stub_executor import BLOCK, ENTRY, witness
from validation.operations.embedding import reference as embedding_reference
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.embedding.operation import Embedding
from validation.operations.rope import reference as rope_reference
from validation.operations.rope.case import RopeCase
from validation.operations.rope.operation import Rope
from validation.operations.visible_cells import reference as cells_reference
from validation.operations.visible_cells.case import CellsCase
from validation.operations.visible_cells.operation import VisibleCells

#: Changes what a stand-in gave; call: the how-manyth run it is, from 1 on.
Wrong = Callable[[Any, int], Any]


def _kernel(*_: object) -> Kernel:
    return Kernel(ENTRY, ENTRY, BLOCK)


def _changing(run: Callable[..., Any], wrong: Wrong | None) -> Callable[..., Any]:
    calls = 0

    def call(executor: Executor, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        made = run(*args)
        return made if wrong is None else wrong(made, calls)

    return call


def _turned(x: np.ndarray, steps: np.ndarray, cos: np.ndarray, sin: np.ndarray, in_place: bool) -> Roped:
    out = rope_reference.turn_bits(x, cos[steps[:, 0]], sin[steps[:, 0]])
    return Roped(out, [witness(LANES, (rope.blocks(*x.shape), 1, 1))], True)


def _embedded(form: str, matrix: np.ndarray, ids: np.ndarray, width: int, factor: np.float32) -> Embedded:
    out = embedding_reference.embed_bits(form, matrix, ids, factor)
    outside = int(((ids < 0) | (ids >= len(matrix))).sum())
    return Embedded(out, outside, [witness(LANES, (embedding.blocks_of(len(ids), width), 1, 1))], True)


def _seen(cells: np.ndarray, window: int) -> Visible:
    every, local = (cells_reference.steps(cells, most) for most in (None, window))
    ids = cells_reference.ids(cells, window)
    ids.view(np.uint32)[np.arange(window) >= local[:, 3:]] = UNWRITTEN
    return Visible(every, local, ids, [witness(LANES, (visible_cells.blocks(len(cells), window), 1, 1))], True)


def turning(wrong: Wrong | None = None) -> Rope:
    """The model in the place of rope, its result changed by `wrong`."""
    return Rope(_changing(_turned, wrong), _kernel)


def embedded(wrong: Wrong | None = None) -> Embedding:
    """The model in the place of embeddings, its result changed by `wrong`."""
    return Embedding(_changing(_embedded, wrong), _kernel)


def seeing(wrong: Wrong | None = None) -> VisibleCells:
    """The definition in the place of visible cells, its result changed by `wrong`."""
    return VisibleCells(_changing(_seen, wrong), _kernel)


def judged(operation: RowOperation, recipe: str) -> Findings:
    """A small case of a recipe on stand-ins."""
    case, path = {
        "rope": (RopeCase(recipe, 5, 6, 2, 16, 40), "rope/fp32/simt"),
        "embedding": (EmbeddingCase(recipe, 5, 8, 64, 9), "embedding/q5_1/simt"),
        "visible_cells": (CellsCase(recipe, 5, 3, 6, 5), "visible_cells/causal/simt"),
    }[operation.name]
    return operation.judge(Trial(operation, case, PATHS[path], LANES, Settings(), Memo()))


MADE: dict[str, Callable[[Wrong | None], RowOperation]] = {
    "rope": turning,
    "embedding": embedded,
    "visible_cells": seeing,
}


def _said(operation: str, recipe: str, wrong: Wrong | None, check: str) -> str:
    return said(judged(MADE[operation](wrong), recipe), check)


def _out(change: Callable[[np.ndarray], Any], when: Callable[[int], bool] = lambda call: True) -> Wrong:
    """The output changed in place, or another in its place, in some runs."""

    def wrong(made: Any, call: int) -> Any:
        if not when(call):
            return made
        out = made.out.copy()
        other = change(out)
        return made._replace(out=out if other is None else other)

    return wrong


def _cells(name: str, change: Callable[[np.ndarray], None], when: Callable[[int], bool] = lambda call: True) -> Wrong:
    """One output of visible cells changed in place, in some runs."""

    def wrong(made: Visible, call: int) -> Visible:
        if not when(call):
            return made
        out = getattr(made, name).copy()
        change(out)
        return made._replace(**{name: out})

    return wrong


def _bit(out: np.ndarray) -> None:
    out.view(np.uint32).reshape(-1)[-1] ^= 1


def _later(call: int) -> bool:
    return call > 1


def _put(index: Any, value: Any) -> Callable[[np.ndarray], None]:
    def change(out: np.ndarray) -> None:
        out[index] = value

    return change


def _add(index: Any, value: int) -> Callable[[np.ndarray], None]:
    def change(out: np.ndarray) -> None:
        out[index] += value

    return change


#: operation, fault, recipe, the check that must refuse it, what is wrong.
ROWS: tuple[tuple[str, str, str, str, Wrong], ...] = (
    ("rope", "one bit", "rope_decades", "bits", _out(_bit)),
    ("rope", "one bit in another order of rows", "rope_decades", "repeat", _out(_bit, lambda n: n == 2)),
    ("rope", "one bit in place", "rope_decades", "in place", _out(_bit, lambda n: n == 3)),
    ("rope", "zeros", "rope_angles", "bound", _out(np.zeros_like)),
    ("rope", "turned the other way", "rope_angles", "bound", _out(lambda out: out[..., ::-1].copy())),
    ("rope", "no rest of a rounded product", "rope_cancelling", "bits", _out(_put(np.s_[..., :8], 0))),
    ("rope", "-0 as +0", "rope_zeros", "bits", _out(lambda out: out + np.float32(0))),
    ("rope", "a NaN as zero", "rope_broken", "bits", _out(lambda out: np.where(np.isnan(out), np.float32(0), out))),
    ("rope", "nothing launched", "rope_decades", "witness", lambda made, call: made._replace(witnesses=[])),
    ("rope", "guards", "rope_decades", "guards", lambda made, call: made._replace(guards_ok=False)),
    (
        "rope",
        "guards in place",
        "rope_decades",
        "guards in place",
        lambda made, call: made._replace(guards_ok=call != 3),
    ),
    ("embedding", "one bit", "embedding_bell", "bits", _out(_bit)),
    ("embedding", "zeros", "embedding_bell", "bound", _out(np.zeros_like)),
    ("embedding", "without the factor", "embedding_bell", "bound", _out(lambda out: out / np.float32(25))),
    ("embedding", "ids outside not counted", "embedding_outside", "lost", lambda made, call: made._replace(lost=0)),
    (
        "embedding",
        "a row for an id outside",
        "embedding_outside",
        "bits",
        _out(lambda out: np.nan_to_num(out)),
    ),
    ("embedding", "subnormals as zero", "embedding_faint", "bits", _out(np.zeros_like)),
    ("embedding", "nothing launched", "embedding_bell", "witness", lambda made, call: made._replace(witnesses=[])),
    ("visible_cells", "a cell too early", "cells_chunk", "bits", _cells("ids_local", _add((-1, 0), -1))),
    ("visible_cells", "a cell of a row alone", "cells_chunk", "repeat", _cells("ids_local", _add((0, 0), 1), _later)),
    ("visible_cells", "a step too many", "cells_chunk", "steps_global", _cells("steps_global", _add((-1, 3), 1))),
    ("visible_cells", "another's cell", "cells_chunk", "steps_local", _cells("steps_local", _add((-1, 0), 1))),
    ("visible_cells", "a place behind the cells", "cells_chunk", "strayed", _cells("ids_local", _put((0, -1), 7))),
    ("visible_cells", "nothing launched", "cells_chunk", "witness", lambda made, call: made._replace(witnesses=[])),
)  # fmt: skip


def negative() -> Iterator[Control]:
    """Faults of rope, of embeddings and of visible cells."""
    for operation, name, recipe, check, wrong in ROWS:
        yield Control(f"{operation}/{name}", partial(_said, operation, recipe, wrong, check), f"EXCEEDS by {check}")


def positive() -> Iterator[Control]:
    """The models themselves pass."""
    for operation, recipe in (
        ("rope", "rope_angles"),
        ("rope", "rope_broken"),
        ("embedding", "embedding_outside"),
        ("visible_cells", "cells_filling"),
    ):
        yield Control(f"{operation}/healthy {recipe}", partial(_said, operation, recipe, None, ""), "EXACT: nothing")
