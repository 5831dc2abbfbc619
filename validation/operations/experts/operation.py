"""The operations on experts, on the seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.outcome import Outcome, Output, Reference, Run
from validation.core.recordable import Recordable
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.timed import Prepare
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds
from validation.numerics.fma import plain
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations.experts import (
    checks,
    conventional,
    far,
    far_baseline,
    fuzz,
    measured,
    mutant_cases,
    plan,
    preconditions,
    random_cases,
    recipes,
    record,
    repeats,
    required,
    sizes,
)
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs, build
from validation.operations.experts.kernels import OPERATIONS as KERNELS
from validation.operations.experts.recipes import RECIPES, ExpertRecipe
from validation.operations.experts.sampling import work
from validation.operations.experts.under_test import ExpertOperation

#: Far checks by operation.
_FAR: Mapping[str, Callable[[ExpertCase, Path, LanesExecutor], Sequence[Part]]] = {
    "expert_fused": far.parts,
    "expert_mmq": far_baseline.mmq,
    "expert_decode": far_baseline.decode,
}

#: Multiply-adds up to which lanes predict a card's bits.
PREDICTED_ON_LANES = 1 << 28

#: What records are of: the fused path, since the others are what is served without one.
_RECORDS: Mapping[str, Recordable] = {"expert_fused": record.FusedExperts()}


class ExpertsOperation(RowOperation):
    """One of them.

    Parameters
    ----------
    name
        `expert_fused`, `expert_mmq` or `expert_decode`.
    under_test
        The kernels of all, since one is another's baseline.
    """

    data = "expert"
    rank = 3
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    every_bit = True
    outputs = {"out": Output(checks.AXES)}  # noqa: RUF012
    kernels_handed = True
    prediction_decides = False

    def __init__(self, name: str, under_test: Mapping[str, ExpertOperation] = KERNELS) -> None:
        self.name, self.under_test = name, under_test
        self._own = under_test[name]
        self.record = _RECORDS.get(name)
        self.conventional = conventional.of(name)

    def recipes(self) -> Sequence[ExpertRecipe]:
        return list(RECIPES.values())

    def composed(self, name: str) -> ExpertRecipe | None:
        return recipes.find(name) if ":" in name else None

    def parse(self, text: str) -> ExpertCase:
        return ExpertCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.expert(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return [Planned(case) for case in required.cases(seed)]

    def random_recipe(self, turn: int, words: Sequence[int]) -> str:
        """A recipe of the table, and in every second turn one of drawn parts."""
        known = self.recipes()
        at, drawn_parts = divmod(turn, 2)
        return random_cases.recipe(words[-3:]).name if drawn_parts else known[at % len(known)].name

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> ExpertCase:
        return random_cases.case(recipe, words[0], words[1:])

    def mutant_cases(self, seed: int) -> Sequence[ExpertCase]:
        return mutant_cases.cases(seed)

    def far(self, case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return _FAR[self.name](case, path, executor)

    def kernels(self, path: Path, case: ExpertCase | None = None) -> Sequence[Kernel]:
        """All that the path may launch: which of them a case does depends on its data."""
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return self._own.kernels(path, None, None)

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    def inputs(self, trial: Trial) -> Inputs:
        made: Inputs = trial.memo.get(
            "expert inputs", (trial.case, trial.path.mode), lambda: build(trial.case, trial.path.mode)
        )
        return made

    def preconditions(self, trial: Trial) -> list[Check]:
        """Not kept in the memo: it is what tells that the memo gave this case's inputs."""
        return [preconditions.kept(trial.case, trial.inputs)]

    def refuses(self, executor: Executor, path: Path, inputs: Inputs) -> Check | None:
        """Of ids that name nobody, whether a path without rows for them says so, and computes nothing."""
        if not self._own.refuses_strays or inputs.named.all():
            return None
        try:
            self.run(executor, path, inputs)
        except StrataError as error:
            strays = inputs.ids[~inputs.named]
            due = (f"names expert {int(strays[0])}, ", f"{strays.size} such ids")
            said = all(part in str(error) for part in due)
            reason = f"it says {str(error)!r}, expected {' and '.join(due)}"
            return holds("refuses", said, reason, {"said": str(error), "all_bits": True})
        return holds("refuses", False, "ids that name nobody were taken")

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._own.outcome(executor, path, inputs)

    def first_run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        """With what gate and up come to, which later runs need not keep."""
        return self._own.outcome(executor, path, inputs, trace=True)

    def length(self, trial: Trial) -> int:
        tokens: int = trial.case.tokens
        return tokens

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]]:
        return {"out": (trial.case.tokens, trial.case.top, trial.case.n)}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.tokens(order)

    def launched(self, case: ExpertCase, run: Run) -> Sequence[Kernel]:
        return self._own.kernels(run.path, run.inputs, run.variant)

    def witnessed(self, case: ExpertCase, run: Run) -> list[Check]:
        """An entry may have several images, one for each format."""
        count = self._own.launches(run.inputs, run.variant)
        return checks.launched(run.executor, run.outcome.witnesses, self.launched(case, run), count)

    def ran(self, trial: Trial, run: Run) -> list[Check]:
        got = run.outcome.own
        found = [] if got.grouping is None else [checks.grouped(run.inputs, got.grouping)]
        found += checks.nobody(run.inputs, got)
        if not run.inputs.named.any():  # every row is nobody's, and all of it was looked at
            found[-1] = replace(found[-1], figures={"all_bits": True})
        return found

    def again(self, trial: Trial) -> list[Check]:
        return repeats.again(self, self._own, trial)

    def baseline(self, trial: Trial) -> ExpertsOperation | None:
        name = PATHS[trial.path.baseline].operation if trial.path.baseline else ""
        return ExpertsOperation(name, self.under_test) if name in self.under_test else None

    def prepare(self) -> Prepare | None:
        return self._own.prepare

    # ---- what is right -------------------------------------------------------------------------------------------

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return plain(output)

    def rules(self, trial: Trial, path: Path) -> Sequence[str] | None:
        """Of a path alone, on a case that lanes can do; integer products need no rule of a tensor core."""
        small = work(trial.case, trial.case.pairs) <= PREDICTED_ON_LANES
        asked = path.operation == trial.path.operation and trial.settings.predictor is not None
        return (DEFAULT_RULE,) if small and asked else None

    def reference(self, trial: Trial) -> Reference:
        base = self.baseline(trial) if trial.old is not None else None
        due = measured.known(trial, self._own.arithmetic, None if base is None else base._own.arithmetic)
        return Reference(due.pairs, {}, {}, own=due)

    def bounded(self, trial: Trial, reference: Reference) -> list[Check]:
        """Of pairs, not of rows: bits, each step, the whole, and the baseline."""
        return measured.against(trial, reference.own)


def judged(
    case: ExpertCase,
    path: Path,
    executor: Executor,
    settings: Settings | None = None,
    memo: Memo | None = None,
    kernels: Mapping[str, ExpertOperation] = KERNELS,
) -> Findings:
    """Findings of one expert path on one case. Raises StrataError when something cannot run.

    Parameters
    ----------
    kernels
        Of all operations, for tests that put others in their place.
    """
    operation = ExpertsOperation(path.operation, kernels)
    return operation.judge(Trial(operation, case, path, executor, settings or Settings(), memo or Memo()))


OPERATIONS = tuple(ExpertsOperation(name) for name in KERNELS)
