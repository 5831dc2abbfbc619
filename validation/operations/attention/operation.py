"""Prompt and decode attention on the seam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path as FilePath

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import GROUPS, MODE_FORMATS
from strata.kernels.selection import strayed
from validation.core.case import CaseError
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Operation, Trial
from validation.core.outcome import Outcome, Output, Reference, Run
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.timed import Prepare
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import AXES, Check, Verdict
from validation.numerics.interval import Enclosure, certificate, certified
from validation.numerics.tensorcore_rules import rules_for
from validation.operations.attention import (
    captured,
    chain,
    conventional,
    far,
    fuzz,
    gates,
    metamorphic,
    plan,
    preconditions,
    random_cases,
    record,
    selected,
    sizes,
)
from validation.operations.attention.bound import Limits, limits
from validation.operations.attention.bounds.prompt_attention import PUBLISHED_QUERIES
from validation.operations.attention.captured import build_captured
from validation.operations.attention.certificate import Certificate, NotFiniteError, certify
from validation.operations.attention.chain import Chained
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.kernels import Operation as Kernels
from validation.operations.attention.pools import Inputs, build, unchosen
from validation.operations.attention.reference import Reference as Attended
from validation.operations.attention.reference import attend
from validation.operations.attention.sampling import referenced, rows_of
from validation.operations.kv_pack import recipes
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.plan import SMALL_CELLS
from validation.operations.kv_pack.recipes import Recipe

#: Far checks by operation.
_FAR = {"prompt_attention": far.prompt, "decode_attention": far.decode}
#: On lanes a larger case (in cells times query heads) is repeated on the queries that have a reference only.
REPEAT_LIMIT = 1 << 22


@dataclass
class Measured:
    """What outputs of a case are held against besides its reference.

    Parameters
    ----------
    truth
        What the gates take.
    limits
        Derived bounds.
    enclosures
        Of single outputs by exact arithmetic, once they are made.
    """

    truth: gates.Truth
    limits: Limits
    enclosures: list[Enclosure] = field(default_factory=list)


class Attention(RowOperation):
    """One of the two.

    Parameters
    ----------
    name
        `prompt_attention` or `decode_attention`.
    under_test
        The kernels of both, since one is the other's baseline.
    """

    data = "prompt_attention"
    rank = 1
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    outputs = {  # noqa: RUF012
        "out": Output(AXES),
        "ids": Output(("query", "place"), np.int32, whole=False, everywhere=False),
    }
    kernels_handed = True
    baseline_asked = ("guards", "witness", "selection")

    def __init__(self, name: str, under_test: Mapping[str, Kernels] = ATTENTION) -> None:
        self.name, self.under_test = name, under_test
        if name == "prompt_attention":
            self.record = record.Attention()
            self.soak_turns = 2

    def recipes(self) -> Sequence[Recipe]:
        return recipes.of_operation(self.data)

    def parse(self, text: str) -> Case:
        return Case.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def required(self, seed: int) -> Sequence[Planned]:
        return plan.required(seed)

    def random_recipe(self, turn: int, words: Sequence[int]) -> str:
        known = [recipe.name for recipe in self.recipes() if recipe.name != "captured"]
        return known[turn % len(known)]

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> Case:
        return random_cases.case(recipe, words, checked)

    def takes(self, case: Case, path: Path) -> bool:
        """A case that the `gguf` package packs needs a mode with its format."""
        return case.option("packer", "") != "gguf" or "q4_0" in MODE_FORMATS[path.mode]

    def small(self, case: Case) -> bool:
        return case.context <= SMALL_CELLS

    def far(self, case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return _FAR[self.name](case, path, executor)

    def kernels(self, path: Path, case: Case | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        made = self.under_test[self.name].kernels
        groups = GROUPS if case is None else (case.group,)
        own = [kernel for group in groups for kernel in (made(path, group) if made else ())]
        if case is None or not self.under_test[self.name].selects:
            return own
        return [*own, *dict.fromkeys(one.kernel for one in chain.fed_by(path, case))]

    def relation_names(self, path: Path) -> Sequence[str]:
        return metamorphic.of_path(path)

    def captured(self, file: FilePath, seed: int, profile: str) -> Sequence[Planned]:
        """Every captured layer over all its tokens. Raises CaptureError for a file that kernels cannot take."""
        held = captured.load(file)
        facts = held.metadata
        heads = (facts.n_head_kv, facts.n_head // facts.n_head_kv)
        return plan.captured(seed, sorted(held.layers), facts.tokens, heads, profile)

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    def inputs(self, trial: Trial) -> Inputs:
        """Synthetic inputs, or those of a capture, packed as the case asks. Raises CaseError without a query."""
        case, path = trial.case, trial.path
        if case.queries < 1:
            raise CaseError("case: queries is 0, expected at least 1 for attention")

        def made() -> Inputs:
            if case.recipe == "captured":
                return build_captured(case, path.mode, trial.executor, trial.settings.capture)
            return build(case, path.mode)

        found: Inputs = trial.memo.get("inputs", (case, path.mode), made)
        return found

    def preconditions(self, trial: Trial) -> list[Check]:
        """Not kept in the memo: it is what tells that the memo gave this case's inputs."""
        found = [preconditions.kept(trial.case, trial.path.mode, trial.inputs)]
        index = trial.inputs.index
        return found if index is None else [*found, selected.certain(index, trial.path, trial.executor)]

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        got = self.under_test[path.operation].run(executor, path, self._handed(inputs))
        if not isinstance(got, Chained):
            return Outcome({"out": got.out}, got.witnesses, got.guards_ok)
        outputs = {"out": got.out, "ids": selected.canonical(got.ids, inputs.widths)}
        return Outcome(outputs, got.witnesses, got.guards_ok, {"strayed": strayed(got.ids, inputs.widths)})

    def _handed(self, inputs: Inputs) -> Inputs:
        """Of kernels that choose ids themselves, none are told those that are right."""
        return unchosen(inputs) if self.under_test[self.name].selects else inputs

    def ran(self, trial: Trial, run: Run) -> list[Check]:
        """Whether block selection chose the cells of the definition, wrote them all and nothing behind them."""
        if run.inputs.index is None or not self.under_test[self.name].selects:
            return []
        return [selected.chosen(run.inputs.ids, run.inputs.widths, run.outcome)]

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.q)

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {"out": trial.inputs.q.shape}
        return found | {name: trial.inputs.ids.shape for name in trial.outcome.outputs if name == "ids"}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return rows_of(inputs, order)

    def blocks(self, case: Case, run: Run) -> int | None:
        own, index = self.under_test[run.path.operation], run.inputs.index
        made = own.blocks
        if made is None:
            return None
        fed = chain.launches(run.path, index, run.inputs.ids.shape[1]) if index is not None and own.selects else []
        return made(len(run.inputs.q), case.n_head_kv) + sum(prod(one.grid) for one in fed)

    def repeated_rows(self, trial: Trial) -> np.ndarray | None:
        """All queries, or on lanes and for large cases those with a reference alone."""
        work = int(trial.inputs.widths.sum()) * trial.case.n_head
        return None if trial.executor.name != "lanes" or work <= REPEAT_LIMIT else trial.rows

    def baseline(self, trial: Trial) -> Attention | None:
        base = trial.path.baseline
        return Attention(PATHS[base].operation, self.under_test) if base else None

    def prepare(self) -> Prepare | None:
        own = self.under_test[self.name].prepare
        return own and (lambda executor, path, inputs: own(executor, path, self._handed(inputs)))

    # ---- what is right -------------------------------------------------------------------------------------------

    def referenced(self, trial: Trial) -> np.ndarray:
        return referenced(trial.inputs.widths, trial.case.stream("referenced"))

    def rules(self, trial: Trial, path: Path) -> Sequence[str]:
        return rules_for(path, trial.executor)

    def reference(self, trial: Trial) -> Reference:
        case, path, inputs, rows, key = trial.case, trial.path, trial.inputs, trial.rows, (trial.case, trial.path.mode)
        made: Attended = trial.memo.get(
            "reference", key, lambda: attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, rows)
        )
        limit = limits(path, inputs, made, trial.executor, trial.memo, key)
        known = None if trial.predicted is None else trial.predicted["out"]
        truth = gates.Truth(made, limit.path, limit.base, case.queries >= PUBLISHED_QUERIES, known)
        base = None if limit.base is None else {"out": limit.base}
        return Reference(rows, {"out": made.out}, {"out": limit.path}, base, Measured(truth, limit))

    def trusted(self, trial: Trial, reference: Reference) -> list[Check]:
        """Whether the reference encloses the true value of some outputs, the path's worst one among them."""
        own: Measured = reference.own
        key, rows, out = (trial.case, trial.path.mode), reference.rows, trial.outcome.outputs["out"]
        try:
            proof: Certificate = trial.memo.get("certificate", key, lambda: certify(trial.case, trial.inputs, rows))
            own.enclosures = [*proof.sampled, proof.at(*gates.worst(out[rows], own.truth))]
        except NotFiniteError as error:
            return [Check("certificate", Verdict.VOID, str(error))]
        return [certificate(own.truth.reference.out, own.limits.own, own.enclosures)]

    def located(self, trial: Trial, reference: Reference, check: Check) -> Check:
        return gates.located(check, reference.own.truth)

    def bounded(self, trial: Trial, reference: Reference) -> list[Check]:
        """The gates, whether the baseline is right itself, and whether the gates refuse wrong answers."""
        own: Measured = reference.own
        new = trial.outcome.outputs["out"]
        old = None if trial.old is None else trial.old.outcome.outputs["out"]
        checks = gates.gates(new, old, own.truth)
        checks.append(certified("certified", new[reference.rows], own.limits.kernel, own.enclosures))
        if old is not None:
            checks.append(gates.baseline_within_bound(old, own.truth))
        checks.append(gates.battery(old, own.truth))
        trial.found.figures |= gates.figures(new, old, own.truth.reference)
        return checks

    def relations(self, trial: Trial) -> list[Check]:
        if not recipes.find(trial.case.recipe).relations:
            return []
        path, executor = trial.path, trial.executor
        ground = metamorphic.ground(path, trial.inputs, trial.outcome.outputs["out"], executor)
        return metamorphic.checks(ground, lambda changed: self.run(executor, path, changed).outputs["out"])


def judged(
    case: Case,
    path: Path,
    executor: Executor,
    settings: Settings | None = None,
    memo: Memo | None = None,
    kernels: Mapping[str, Kernels] = ATTENTION,
) -> Findings:
    """Findings of one attention path on one case. Raises StrataError when something cannot run.

    Parameters
    ----------
    kernels
        Of both operations, for tests that put others in their place.
    """
    operation = Attention(path.operation, kernels)
    return operation.judge(Trial(operation, case, path, executor, settings or Settings(), memo or Memo()))


def under_test(kernels: Mapping[str, Kernels]) -> dict[str, Operation]:
    """Both operations with other kernels in the place of their own."""
    return {name: Attention(name, kernels) for name in kernels}


OPERATIONS = tuple(Attention(name) for name in ATTENTION)
