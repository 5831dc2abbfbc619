"""Visible cells at the last rows of so many that ids, or steps, have more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import visible_cells
from strata.kernels.visible_cells import EACH, THREADS, WORDS
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.visible_cells import reference
from validation.operations.visible_cells.case import CellsCase

_PART = THREADS * EACH
#: Rows and window, of which ids are many and of which steps are.
_WIDE, _LONG = (3, (1 << 31) - 1), ((1 << 30) + 5, 7)


def parts(case: CellsCase, executor: LanesExecutor) -> Sequence[Part]:
    """The last blocks of a launch with the widest window, and of one with the most rows."""
    return [
        Part("far ids", partial(_far, executor, "far ids", *_WIDE, 2)),
        Part("far steps", partial(_far, executor, "far steps", *_LONG, 3)),
    ]


def _far(executor: LanesExecutor, name: str, rows: int, window: int, blocks: int) -> Check:
    """The last `blocks` of a launch whose last row is that of the last cell."""
    first = visible_cells.LAST + 1 - rows
    every, local = (Mapped((rows, WORDS), np.int32, part) for part in ("steps_global", "steps_local"))
    ids = Mapped((rows, window), np.int32, "ids_local")
    grid = visible_cells.blocks(rows, window)
    begin = executor.array(np.array([first], np.int32), "first")
    args = (begin, every, local, ids, np.int32(rows), np.int32(window))
    executor.launch_end(visible_cells.kernel(), (grid, 1, 1), args, grid - blocks)
    last = visible_cells.LAST
    if window > _PART:  # the end of the last row, whose steps an earlier block writes
        width = min(window, last + 1)
        some = width % _PART + _PART
        due = np.arange(last + 1 - some, last + 1, dtype=np.int64).astype(np.int32)
        pairs = [("ids", ids.view()[-1, width - some : width], due)]
    else:
        cells = np.arange(last + 1 - blocks, last + 1, dtype=np.int64)
        pairs = [
            ("ids", ids.view()[-blocks:], reference.ids(cells, window)),
            ("steps_global", every.view()[-blocks:], reference.steps(cells, None)),
            ("steps_local", local.view()[-blocks:], reference.steps(cells, window)),
        ]
    return same(name, pairs, [begin, every, local, ids])
