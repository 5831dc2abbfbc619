"""Checks in common use on visible cells: a mask of queries by cells, in the middle of a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import visible_cells
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of
from validation.operations.visible_cells import reference

ROWS, WINDOW, FIRST = 16, 64, 100


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    first = FIRST + int(stream_of(seed).child("first").below(FIRST, ()))
    got, due = visible_cells.run(executor, first, ROWS, WINDOW), reference.ids(first + np.arange(ROWS), WINDOW)
    sides = []
    for ids in (got.ids_local, due):
        mask = np.zeros((ROWS, first + ROWS + 1))
        np.put_along_axis(mask, np.clip(ids, 0, mask.shape[1] - 1).astype(np.int64), 1.0, axis=1)
        sides.append(mask)
    return judge(sides[0], sides[1])


CHECKS = Conventional(_run, flavor="checked")
