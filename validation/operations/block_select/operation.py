"""Block selection on the seam: scores whose every bit is known and that FP64 bounds, and a choice without an error.

A path that replaces another may choose other cells, where scores are so near that rounding decides: `near_ties` proves
each such difference. Selections are exact in that every path's are those of the definition for the path's own scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import RULES, LanesExecutor, Rule
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import BLOCK
from validation.core import row_checks
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.handed import handed
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.timed import Prepare
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, identical
from validation.numerics.tensorcore_rules import rules_for
from validation.operations.block_select import (
    bound,
    conventional,
    far,
    fuzz,
    inputs,
    lengths,
    model,
    near_ties,
    plan,
    random_cases,
    record,
    reference,
    sampling,
    sizes,
    written,
)
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.choice import choose
from validation.operations.block_select.inputs import Inputs
from validation.operations.block_select.near_ties import Scored
from validation.operations.block_select.recipes import RECIPES
from validation.operations.block_select.scorers import SCORERS, Scorer


@dataclass(frozen=True, eq=False)
class Measured:
    """What the checks of scores need.

    Parameters
    ----------
    sound
        bool [rows, blocks]: scores that there are and of which something is promised.
    """

    sound: np.ndarray


class BlockSelect(RowOperation):
    """One of them.

    Parameters
    ----------
    name
        `block_select_warp` or `block_select`.
    under_test
        The kernels of both, since one is the other's baseline.
    """

    data = "block_select"
    rank = 6
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = {"ids": written.IDS, "scores": written.SCORES}  # noqa: RUF012

    def __init__(self, name: str, under_test: Mapping[str, Scorer] = SCORERS) -> None:
        self.name, self.under_test = name, under_test
        if name == "block_select":
            self.record = record.BlockSelection()
        self._own = under_test[name]

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> SelectCase:
        return SelectCase.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return plan.required(seed)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> SelectCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: SelectCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: SelectCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        if case is None:
            return self._own.kernels(path)
        return self._own.launched(path, max(1, int(lengths.cells(case).max()) // BLOCK), None)

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    def inputs(self, trial: Trial) -> Inputs:
        made: Inputs = trial.memo.get("block_select inputs", trial.case, lambda: inputs.build(trial.case))
        return made

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        return self._run(executor, path, inputs)

    def _run(
        self, executor: Executor, path: Path, given: Inputs, reach: int | None = None, topk: str | None = None
    ) -> Outcome:
        got = self._own.run(executor, path, given.q, given.keys, given.steps, given.cap, reach=reach, topk=topk)
        outputs = {"ids": written.ids_of(got, given.steps), "scores": written.scores_of(got, given.steps)}
        return Outcome(outputs, got.witnesses, got.guards_ok, {"strayed": written.strays(got, given.steps, True)})

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.q)

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]]:
        given = trial.inputs
        return {"ids": (len(given.q), given.cap), "scores": (len(given.q), len(given.keys))}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def launched(self, case: SelectCase, run: Run) -> Sequence[Kernel]:
        reach, topk = run.variant or (max(run.inputs.blocks, 1), None)
        return self._own.launched(run.path, reach, topk)

    def ran(self, trial: Trial, run: Run) -> list[Check]:
        outputs = run.outcome.outputs
        return [
            written.untouched(run.outcome),
            written.chosen(outputs["ids"], outputs["scores"], run.inputs.steps),
        ]

    def repeated_rows(self, trial: Trial) -> np.ndarray | None:
        """All queries, or on lanes and for large cases those that are measured alone."""
        return None if trial.executor.name != "lanes" or sampling.whole(trial.inputs) else trial.rows

    def again(self, trial: Trial) -> list[Check]:
        """The same rows with a reach of all that there is room for, by the top-k kernel that takes any reach.

        A case that reaches further than the short one can was the long one's already.
        """
        assert trial.again is not None
        rows = sampling.few(trial.rows) if trial.executor.name == "lanes" else np.arange(self.length(trial))
        given = trial.inputs.rows(rows)
        reach, topk = len(given.keys), "long"
        outcome = handed(self._run)(trial.executor, trial.path, given, reach, topk)
        run = Run(trial.executor, trial.path, given, outcome, (reach, topk))
        due = {name: out[rows] for name, out in trial.outcome.outputs.items()}
        checks = self.compared(trial, "reach", outcome.outputs, due, (rows,))
        asked = [*self.witnessed(trial.case, run), written.untouched(outcome)]
        again = replace(written.untouched(trial.again), name="strayed again")
        return [again, *checks, *(replace(one, name=f"{one.name} of reach") for one in asked)]

    def baseline(self, trial: Trial) -> BlockSelect | None:
        base = trial.path.baseline
        return BlockSelect(PATHS[base].operation, self.under_test) if base else None

    def prepare(self) -> Prepare | None:
        return self._own.prepare

    # ---- what is right -------------------------------------------------------------------------------------------

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return written.comparable(output)

    def named(self, outcome: Outcome, output: str, check: str) -> str:
        """Scores alone have a bound."""
        return check if check in ("bound", "self") else super().named(outcome, output, check)

    def referenced(self, trial: Trial) -> np.ndarray:
        return sampling.rows(trial.inputs, trial.case.stream("referenced"))

    def rules(self, trial: Trial, path: Path) -> Sequence[str]:
        return rules_for(path, trial.executor)

    def expected(self, trial: Trial) -> Expected | None:
        given, rule = trial.inputs, _rule(trial.executor, trial.path)
        if rule is None or not sampling.whole(given):
            return None
        scores = model.scores(trial.path, given.q, given.keys[: given.blocks], rule)
        if scores is None:
            return None
        whole = np.zeros((len(given.q), len(given.keys)), np.float32)
        whole[:, : given.blocks] = scores
        whole[lengths.behind(whole.shape[1], given.steps[:, 2])] = 0
        return Expected({"ids": choose(whole, given.steps, given.cap), "scores": whole})

    def reference(self, trial: Trial) -> Reference | None:
        """Scores that there are, of those of which something is promised; all others are judged by their bits alone."""
        given, rows = trial.inputs, trial.rows
        q, keys = given.q[rows], given.keys[: given.blocks]
        if not given.blocks:
            return None
        rule = bound.rule_of(trial.executor)
        limits = bound.limits(trial.path, q, keys, rule)
        there = ~lengths.behind(given.blocks, given.steps[rows, 2])
        sound = there & np.isfinite(limits.both)
        if not sound.any():
            return None
        true: np.ndarray = trial.memo.get("block_select reference", trial.case, lambda: reference.scores(q, keys))
        base = None
        if trial.old is not None:
            old = trial.memo.get(
                "block_select baseline bound",
                (trial.case, trial.old.path, rule),
                lambda: bound.limits(trial.old.path, q, keys, rule).both,  # type: ignore[union-attr]
            )
            base = {"scores": _room(old, sound, given)}
        values = {"scores": _room(true, sound, given)}
        return Reference(rows, values, {"scores": _room(limits.both, sound, given)}, base, Measured(sound))

    def bounded(self, trial: Trial, reference: Reference) -> list[Check]:
        """As usual, but of the scores of which something is promised."""
        sound = np.zeros(reference.values["scores"].shape, bool)
        sound[:, : reference.own.sound.shape[1]] = reference.own.sound
        old = None if trial.old is None else replace(trial.old, outcome=_kept(trial.old.outcome, reference.rows, sound))
        first = _kept(trial.outcome, reference.rows, sound)
        return row_checks.bounded(self, replace(trial, first=first, old=old), reference)

    def judged(self, trial: Trial) -> list[Check]:
        checks = [] if trial.expected is not None else self._sampled(trial)
        if trial.old is not None:
            checks.append(self._near_ties(trial))
        return checks

    def _sampled(self, trial: Trial) -> list[Check]:
        """Bits of some scores of some rows, where a case is too large for all of them."""
        given, rows, rule = trial.inputs, trial.rows, _rule(trial.executor, trial.path)
        if rule is None or not given.blocks:
            return []
        some = sampling.blocks(given, len(rows), trial.case.stream("sampled"))
        due = model.scores(trial.path, given.q[rows], given.keys[some], rule)
        if due is None:
            return []
        due[lengths.behind(given.blocks, given.steps[rows, 2])[:, some]] = 0
        got = trial.outcome.outputs["scores"][np.ix_(rows, some)]
        axes = self.outputs["scores"].axes
        return [identical("sampled bits", self.comparable(got), self.comparable(due), labels=(rows, some), axes=axes)]

    def _near_ties(self, trial: Trial) -> Check:
        """The cells that this path chooses and its baseline does not, and the other way round."""
        assert trial.old is not None
        given, rule, paths = trial.inputs, bound.rule_of(trial.executor), (trial.path, trial.old.path)

        def score(row: int, blocks: np.ndarray) -> Scored:
            q, keys = given.q[row : row + 1], given.keys[blocks]
            new, old = (bound.limits(path, q, keys, rule).both[0] for path in paths)
            return Scored(reference.scores(q, keys)[0], new, old)

        new, old = trial.outcome.outputs["ids"], trial.old.outcome.outputs["ids"]
        check = near_ties.check(new, old, given.steps, score)
        trial.found.figures["near_ties"] = dict(check.figures)
        return check


def _rule(executor: Executor, path: Path) -> Rule | None:
    """The rule of the bits that a path gives on an executor, None where none or more than one is known."""
    own: Rule | None = getattr(executor, "rule", None)
    known = rules_for(path, executor)
    return own or (RULES[known[0]] if len(known) == 1 else None)


def _room(part: np.ndarray, sound: np.ndarray, given: Inputs) -> np.ndarray:
    """float64 [rows, capacity]: `part` where something is promised, else 0."""
    out = np.zeros((len(part), len(given.keys)))
    out[:, : part.shape[1]] = np.where(sound, part, 0.0)
    return out


def _kept(outcome: Outcome, rows: np.ndarray, sound: np.ndarray) -> Outcome:
    """An outcome whose scores are +0 where nothing is promised of them."""
    scores = outcome.outputs["scores"].copy()
    scores[rows] = np.where(sound, scores[rows], np.float32(0))
    return replace(outcome, outputs={**outcome.outputs, "scores": scores})


OPERATIONS = tuple(BlockSelect(name) for name in SCORERS)
