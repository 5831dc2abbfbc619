"""Visible cells on the seam: integers without an error, the same however a chunk is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import visible_cells
from strata.kernels.paths import Path
from strata.kernels.visible_cells import Visible
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.visible_cells import (
    conventional,
    far,
    fuzz,
    inputs,
    plan,
    random_cases,
    reference,
    sizes,
    written,
)
from validation.operations.visible_cells.case import CellsCase
from validation.operations.visible_cells.inputs import Inputs
from validation.operations.visible_cells.recipes import RECIPES

#: Rows of a case at most that the repeat takes: each is a launch of its own.
_REPEATED = 24


def launched(executor: Executor, cells: np.ndarray, window: int) -> Visible:
    """One launch for the queries of cells, int64 [T], that follow one another."""
    return visible_cells.run(executor, int(cells[0]), len(cells), window)


class VisibleCells(RowOperation):
    """Parameters: what writes cells, and its kernels, for tests that put another in their place.

    The repeat has its rows in another order, which takes a launch for each run of cells that follow one another.
    """

    name = data = "visible_cells"
    rank = 32
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = written.OUTPUTS

    def __init__(
        self,
        see: Callable[[Executor, np.ndarray, int], Visible] = launched,
        kernel: Callable[[], Kernel] = visible_cells.kernel,
    ) -> None:
        self.see, self._kernel = see, kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> CellsCase:
        return CellsCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> CellsCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: CellsCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, executor)

    def kernels(self, path: Path, case: CellsCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel()]

    def inputs(self, trial: Trial) -> Inputs:
        return inputs.build(trial.case)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        chunks = [self.see(executor, cells, inputs.window) for cells in inputs.chunks()]
        outputs, strayed = written.outputs(chunks)
        witnesses = [witness for one in chunks for witness in one.witnesses]
        return Outcome(outputs, witnesses, all(one.guards_ok for one in chunks), {"strayed": strayed})

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.cells)

    def shapes(self, trial: Trial) -> dict[str, tuple[int, ...]]:
        rows = len(trial.inputs.cells)
        return {"ids_local": (rows, trial.inputs.window), "steps_global": (rows, 4), "steps_local": (rows, 4)}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def repeated_rows(self, trial: Trial) -> np.ndarray | None:
        """The first and the last of many, and some between them."""
        rows = len(trial.inputs.cells)
        if rows <= _REPEATED:
            return None
        some = trial.case.stream("repeated").permutation(rows - 2)[: _REPEATED - 2] + 1
        return np.sort(np.concatenate([[0, rows - 1], some]))

    def blocks(self, case: CellsCase, run: Run) -> int:
        return sum(visible_cells.blocks(len(cells), run.inputs.window) for cells in run.inputs.chunks())

    def expected(self, trial: Trial) -> Expected:
        cells, window = trial.inputs.cells, trial.inputs.window
        outputs = {
            "ids_local": reference.ids(cells, window),
            "steps_global": reference.steps(cells, None),
            "steps_local": reference.steps(cells, window),
        }
        return Expected(outputs, {"strayed": 0})


OPERATIONS = (VisibleCells(),)
