"""Block selection in records: a row is one query, and its words are the cells that it chose, ascending.

A row is judged by the definition and by equality: a verifier holds it against the choice by FP64 scores, up to pairs of
blocks that their bounds cannot tell apart, and against the very cells that lanes choose under the card's rule. Scores
of `simt` paths follow no rule of a tensor core and are the same on every card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.kernels import block_select, selection, tiers
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK, HEADS
from validation.core.challenge import chosen
from validation.core.dry_run import DryRun
from validation.core.recordable import Asked, Checks, Claim, Examined, Launch, Predictor, Reason, Shown
from validation.core.untrusted import short
from validation.numerics.tensorcore_rules import readings
from validation.operations.block_select import bound, far, lawful, lengths, reference, sampling, written
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.inputs import Inputs, build, places
from validation.operations.block_select.recipes import RECIPES
from validation.operations.block_select.scorers import SCORERS

#: Checks that compare with a bound.
BOUNDED = ("bound", "baseline bound")
PREDICTIONS = (
    "prediction", "prediction of scores", "baseline prediction", "baseline prediction of scores",
)  # fmt: skip
TIMED = ("timed new", "timed old")
#: The rule under which paths without tensor cores are predicted for a card whose rule nobody knows: none of theirs.
ANY_RULE = "exact"
#: Recipes of whose scores FP64 and bounds may promise nothing.
UNPROMISED = ("select_broken", "select_huge")
#: Asked of every run, whatever its numbers; those of both outputs twice.
_RAN = ("written", "written of scores", "guards", "witness", "strayed", "choice")
_AGAIN = (
    "repeat", "repeat of scores", "strayed again",
    "reach", "reach of scores", "witness of reach", "strayed of reach",
)  # fmt: skip
_BITS = ("bits", "scores", "self bits", "self bits of scores")
_MEASURED = ("bound", "self", "baseline bound")
#: Scores that are predicted on lanes where all of a case are asked for.
_AFFORDABLE = 1 << 20


class BlockSelection:
    """Bits of the tensor-core tiers depend on the card's rule; lanes under it predict them, and those of all tiers."""

    on_lanes = True
    dtype = np.dtype(np.int32)
    axis = "place"

    def parse(self, text: str) -> SelectCase:
        return SelectCase.parse(text)

    def rows(self, case: SelectCase) -> int:
        return case.queries

    def width(self, case: SelectCase) -> int:
        return places(case)

    def rows_said(self, case: SelectCase) -> str:
        return f"{case.queries} queries"

    def place(self, case: SelectCase, row: int) -> str:
        return f"query {row} of {_cells(case)[row]} cells"

    def matrix(self, out: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(out, dtype="<i4")

    def asked(self, case: SelectCase, seed: str, index: int) -> list[Asked]:
        return [Asked(row) for row in chosen(seed, index, self.rows(case))]

    def build(self, case: SelectCase, mode: str) -> Inputs:
        return build(case)

    def arrays(self, inputs: Inputs) -> Mapping[str, np.ndarray | None]:
        return {"q": inputs.q, "keys": inputs.keys, "steps": inputs.steps}

    def kernels(self, path: Path, case: SelectCase) -> list[Kernel]:
        return SCORERS[path.operation].launched(path, _reach(case), None)

    def launches(self, path: Path, case: SelectCase, multiprocessors: int | None) -> list[Launch]:
        """Those of the host code that serves: grids depend on sizes alone."""
        stage: Any = DryRun(multiprocessors)
        q, keys, steps = (stage.empty((), np.float32) for _ in range(3))
        given = selection.Inputs(q, keys, steps, case.queries, case.blocks, places(case), _reach(case))
        made = selection.outputs(stage, given)
        block_select.launch(stage, path, given, made, block_select.workspace(stage, path, given))
        return list(stage.launches)

    def checks(self, path: Path, case: SelectCase, card: bool) -> Checks:
        """Bits are asked by a model where one rule gives them: of a card that follows one of two, of none."""
        needed = {*_RAN, *_AGAIN, *(f"baseline {name}" for name in _RAN), "near ties"}
        needed |= set() if card else _far(path, case)
        together: list[tuple[str, ...]] = [TIMED, *([PREDICTIONS] if card else [])]
        blocks = int(_cells(case).max()) // BLOCK
        bits = _BITS if sampling.modelled(case.queries, blocks) else ("sampled bits",) if blocks else ()
        if card and tiers.find(path.tier).tensor_cores:
            together.append(bits)
        else:
            needed |= set(bits)
        if blocks and case.recipe not in UNPROMISED:
            needed |= set(_MEASURED)
        else:
            together.append(_MEASURED)
        whole = case.queries * places(case)
        return Checks(frozenset(needed), tuple(together), frozenset(BOUNDED), ("bits", "prediction"), whole)

    def claim(self, checks: Sequence[Mapping[str, Any]]) -> Claim | None:
        """Of the cells: by the model of all, else by lanes of those that were predicted."""
        figures = {check["name"]: check["figures"] for check in checks if "compared" in check["figures"]}
        if "bits" in figures:
            return Claim((), figures["bits"]["compared"], figures["bits"]["differing"])
        if "prediction" not in figures:
            return None
        said = figures["prediction"]
        alone = [said["rule"]] if said["differing"] == 0 else []
        return Claim(tuple(said.get("readings", alone)), said["compared"], said["differing"])

    def claims(self, subject: Examined) -> Iterator[str]:
        known = {*readings(subject.executor), ANY_RULE}
        for index, ((_, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
            claim, verdicts = item["prediction"], dict(item["checks"])
            name = "bits" if "bits" in verdicts else "prediction"
            verdict = verdicts.get(name)
            if claim is None:
                if verdict in ("EXACT", "EXCEEDS"):
                    yield f"case {index}: {name} is {verdict}, and how many ids were compared is not said"
                continue
            compared, differing, width = claim["compared"], claim["differing"], places(case)
            most = case.queries * width
            if compared % width or not 0 < compared <= most or (name == "bits" and compared != most):
                yield f"case {index} compared {compared} ids, expected rows of {width}, at most {most}"
            if verdict is None or (verdict == "EXACT") != (differing == 0) or differing > compared:
                said = f"{differing} of {compared} ids differ"
                yield f"case {index} says that {said}, and its {name} is {verdict or 'not asked'}"
            odd = sorted(set(claim["readings"]) - known)
            if odd or (name == "bits" and claim["readings"]):
                followed = short(", ".join(odd or claim["readings"]))
                yield f"case {index} followed {followed}, which is no reading of this card that it was held against"
            elif name == "prediction" and differing == 0 and not claim["readings"]:
                yield f"case {index} has all ids as predicted, and by which reading is not said"

    def numbers(self, shown: Shown) -> Iterator[Reason]:
        """Every row is a choice that FP64 scores allow, up to pairs of blocks that their bounds cannot tell apart."""
        case, inputs, rule = shown.case, shown.inputs, bound.rule_of(shown.subject.executor)
        keys = inputs.keys[: inputs.blocks]
        for row in shown.rows:
            assert row.got is not None  # all rows are shown with their ids
            step, q = inputs.steps[row.row], inputs.q[row.row : row.row + 1]
            some = keys[: int(step[2])]
            limit = bound.limits(shown.path, q, some, rule).both[0]
            why = lawful.refusal(row.got, step, reference.scores(q, some)[0], limit)
            shown.bounded += 1
            if why:
                yield "numbers", f"row {row.row} ({self.place(case, row.row)}): {why}"

    def readings(self, subject: Examined) -> list[str]:
        """Those of the card; of one whose rule nobody knows, one for paths that follow none."""
        named = [name for name, _ in subject.arithmetic]
        plain = not any(tiers.find(path.tier).tensor_cores for path, _ in subject.pairs)
        return named or ([ANY_RULE] if plain else [])

    def affordable(self, case: SelectCase) -> bool:
        return case.queries * HEADS * _reach(case) <= _AFFORDABLE

    def predict(self, reading: str, predictor: Predictor | None, shown: Shown, rows: np.ndarray) -> np.ndarray:
        """The queries that are asked for, chosen on lanes from the scores that their path gives there."""
        assert predictor is not None
        given: Inputs = shown.inputs.rows(rows)
        run = SCORERS[shown.path.operation].run
        got = run(predictor(reading), shown.path, given.q, given.keys, given.steps, given.cap)
        return self.matrix(written.ids_of(got, given.steps))


def _far(path: Path, case: SelectCase) -> set[str]:
    """The checks of far addresses that lanes are asked."""
    nobody: Any = None  # they are named and not asked
    return {part.name for part in far.parts(case, path, nobody)} if RECIPES[case.recipe].far else set()


@lru_cache(maxsize=64)
def _cells(case: SelectCase) -> np.ndarray:
    """int64 [queries]: the cells of each query."""
    return lengths.cells(case)


def _reach(case: SelectCase) -> int:
    """Blocks that a launch covers."""
    return max(1, int(_cells(case).max()) // BLOCK)
