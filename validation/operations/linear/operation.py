"""Dense products on the seam: every bit of products and codes is known on every tier, and FP64 bounds the products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from validation.core import row_checks
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.timed import Prepare
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check
from validation.numerics.fma import plain
from validation.operations.linear import (
    bound,
    conventional,
    far,
    fuzz,
    inputs,
    model,
    plan,
    random_cases,
    record,
    reference,
    sizes,
    units,
)
from validation.operations.linear.case import LinearCase
from validation.operations.linear.inputs import Inputs
from validation.operations.linear.kernels import MULTIPLIERS, UNITS, Multiplier
from validation.operations.linear.recipes import RECIPES

OUT = Output(("row", "output"))
CODES = Output(("row", "unit", "byte"), np.uint8)


@dataclass(frozen=True, eq=False)
class Measured:
    """What the checks of products need.

    Parameters
    ----------
    sound
        bool [rows, outputs]: of which products something is promised.
    """

    sound: np.ndarray


class Linear(RowOperation):
    """One of them.

    Parameters
    ----------
    name
        `linear_dp4a`, `linear` or `linear_f16`.
    under_test
        The kernels of all, since one is another's baseline.
    """

    data = "linear"
    rank = 7
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    every_bit = True

    def __init__(self, name: str, under_test: Mapping[str, Multiplier] = MULTIPLIERS) -> None:
        self.name, self.under_test = name, under_test
        self.outputs = {"out": OUT} if name == "linear_f16" else {"out": OUT, UNITS: CODES}
        self.conventional = conventional.of(name)
        if name == "linear":
            self.record = record.Products()
        self._own = under_test[name]

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> LinearCase:
        return LinearCase.parse(text)

    def takes(self, case: LinearCase, path: Path) -> bool:
        return case.fits(path.mode)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return plan.required(seed)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> LinearCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: LinearCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: LinearCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return self._own.kernels(path) if case is None else self._own.launched(path, case.rows)

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    def inputs(self, trial: Trial) -> Inputs:
        key = (trial.case, trial.path.mode)
        made: Inputs = trial.memo.get("linear inputs", key, lambda: inputs.build(*key))
        return made

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._own.run(executor, path, inputs)

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.x)

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]]:
        given = trial.inputs
        shapes: dict[str, tuple[int, ...]] = {"out": (len(given.x), given.outputs)}
        return shapes | ({UNITS: units.shape(*given.x.shape)} if UNITS in self.outputs else {})

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def launched(self, case: LinearCase, run: Run) -> Sequence[Kernel]:
        """A run in parts launches what each of them needs."""
        rows = len(run.inputs.x)
        counts = (rows,) if run.variant is None else (run.variant, rows - run.variant)
        return list(dict.fromkeys(one for count in counts for one in self._own.launched(run.path, count)))

    def again(self, trial: Trial) -> list[Check]:
        """The same rows in two launches, the second from one of them on."""
        rows = self.length(trial)
        if rows == 1:
            return []
        cut = 1 + int(trial.case.stream("parts").below(rows - 1, ()))
        outcome = handed(self._own.parts)(trial.executor, trial.path, trial.inputs, cut)
        run = Run(trial.executor, trial.path, trial.inputs, outcome, cut)
        checks = self.compared(trial, "parts", outcome.outputs, trial.outcome.outputs)
        return [*checks, *(replace(one, name=f"{one.name} of parts") for one in self._sound(trial, run))]

    def _sound(self, trial: Trial, run: Run) -> list[Check]:
        """Guards and witness of a further run."""
        asked = row_checks.ran(self, trial, run)
        return [check for check in asked if check.name in ("guards", "witness")]

    def baseline(self, trial: Trial) -> Linear | None:
        base = trial.path.baseline
        return Linear(PATHS[base].operation, self.under_test) if base else None

    def prepare(self) -> Prepare | None:
        return self._own.prepare

    # ---- what is right -------------------------------------------------------------------------------------------

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return plain(output) if output.dtype == np.float32 else output

    def expected(self, trial: Trial) -> Expected:
        """The bits of one mode are the same on every tier."""
        given = trial.inputs
        key = (trial.case, trial.path.mode)
        made: model.Bits = trial.memo.get("linear bits", key, lambda: model.bits(given.mode, given.matrix, given.x))
        if made.codes is None:
            return Expected({"out": made.out})
        return Expected({"out": made.out, UNITS: units.packed(made.codes)}, {"lost": made.codes.lost})

    def reference(self, trial: Trial) -> Reference | None:
        """Products that something is promised of; all others are judged by their bits alone."""
        key = (trial.case, trial.path.mode)
        made: tuple[np.ndarray, bound.Limits] = trial.memo.get(
            "linear reference", key, lambda: _reference(trial.inputs)
        )
        values, limits = made
        rows = np.flatnonzero(limits.sound.any(axis=1))
        if not len(rows):
            return None
        limit = {"out": limits.bound[rows]}
        base = limit if trial.old is not None else None
        return Reference(rows, {"out": values[rows]}, limit, base, Measured(limits.sound[rows]))

    def bounded(self, trial: Trial, reference: Reference) -> list[Check]:
        """As usual, but of the products of which something is promised."""
        sound: np.ndarray = reference.own.sound
        old = None if trial.old is None else replace(trial.old, outcome=_kept(trial.old.outcome, reference.rows, sound))
        first = _kept(trial.outcome, reference.rows, sound)
        return row_checks.bounded(self, replace(trial, first=first, old=old), reference)

    def judged(self, trial: Trial) -> list[Check]:
        """The baseline has the same bits."""
        if trial.old is None or trial.expected is None:
            return []
        return self.compared(trial, "baseline bits", trial.old.outcome.outputs, trial.expected.outputs)


def _reference(given: Inputs) -> tuple[np.ndarray, bound.Limits]:
    """float64 [rows, outputs] with 0 where nothing is promised, and the bounds."""
    w = reference.exact(given.mode, given.matrix)
    limits = bound.limits(given.mode, w, given.x)
    rows, outputs = (limits.sound.any(axis=axis) for axis in (1, 0))
    values = np.zeros(limits.bound.shape)
    kept = reference.Exact(w.values[outputs], w.mass[outputs])
    values[np.ix_(rows, outputs)] = reference.product(kept, given.x[rows])
    return np.where(limits.sound, values, 0.0), limits


def _kept(outcome: Outcome, rows: np.ndarray, sound: np.ndarray) -> Outcome:
    """An outcome whose products are +0 where nothing is promised of them."""
    out = outcome.outputs["out"].copy()
    out[rows] = np.where(sound, out[rows], np.float32(0))
    return replace(outcome, outputs={**outcome.outputs, "out": out})


OPERATIONS = tuple(Linear(name) for name in MULTIPLIERS)
