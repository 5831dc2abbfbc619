"""Queries of visible cells: the cell of each, and the window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from validation.operations.visible_cells.case import CellsCase


@dataclass(frozen=True, eq=False)
class Inputs:
    """cells: int64 [T], of each query; window: cells that a query of a local layer sees at most."""

    cells: np.ndarray
    window: int

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some queries, in the given order."""
        return replace(self, cells=np.ascontiguousarray(self.cells[order]))

    def chunks(self) -> list[np.ndarray]:
        """The cells of each launch that they take: one for each run of cells that follow one another."""
        return np.split(self.cells, np.flatnonzero(np.diff(self.cells) != 1) + 1)


def build(case: CellsCase) -> Inputs:
    """The inputs of a case: one chunk."""
    return Inputs(case.first + np.arange(case.rows, dtype=np.int64), case.window)
