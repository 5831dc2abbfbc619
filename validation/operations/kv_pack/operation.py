"""Packing on the seam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import kv_pack
from strata.kernels.kv_pack import Packed
from strata.kernels.paths import Path
from strata.kernels.pool import MODE_FORMATS, Pool
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.negative_probes import bit_battery
from validation.core.operation import Trial
from validation.core.outcome import Arrays, Expected, Outcome, Output
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, holds, identical, within
from validation.operations.kv_pack import bound, conventional, far, plan, planes, recipes, reference, sizes, values
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.packing import ROTATED, Packing
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.plan import SMALL_CELLS
from validation.operations.kv_pack.pools import planes_of, same_planes
from validation.operations.kv_pack.random_cases import pool
from validation.operations.kv_pack.recipes import Recipe

_AXES = ("page", "head", "slot", "element")


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is packed, and where.

    Parameters
    ----------
    k, v
        float32 [cells, kv, 256], not rotated.
    table
        int32 [logical pages], physical pages, or -1.
    pages, page_size
        Physical pages, and cells of each.
    listed
        int64, the cells that are appended as a batch, in its order, where rows are appended in parts.
    """

    k: np.ndarray
    v: np.ndarray
    table: np.ndarray
    pages: int
    page_size: int
    listed: np.ndarray

    def empty(self, mode: str) -> Pool:
        """The pool before anything is written to it."""
        return kv_pack.empty_pool(mode, self.pages, self.page_size, self.k.shape[1], self.table)


class KvPack(RowOperation):
    """A row is a physical page: its bytes know nothing of where it lies.

    Parameters
    ----------
    packing
        The kernels, for tests that put others in their place.
    """

    name = data = "kv_pack"
    rank = 2
    outputs: Mapping[str, Output] = {
        name: Output(_AXES, whole=False, everywhere=name in ("k", "v")) for name in ("k", "v", "k_scale", "v_scale")
    }
    kernels_handed = True
    sizes = sizes.SIZES
    conventional = conventional.CHECKS

    def __init__(self, packing: Packing | None = None) -> None:
        self.packing = packing or Packing()

    def recipes(self) -> Sequence[Recipe]:
        return recipes.of_operation(self.data)

    def parse(self, text: str) -> Case:
        return Case.parse(text)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> Case:
        context, page, heads = pool(words)
        return Case(recipe, words[0], context, 0, page, heads, group=1)

    def small(self, case: Case) -> bool:
        return case.context <= SMALL_CELLS

    def far(self, case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: Case | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        entries = sorted({f"kv_pack_{form}" for form in MODE_FORMATS[path.mode]})
        entries += ["hadamard_256"] if any(ROTATED[path.mode]) else []
        return [kv_pack.kernel(entry) for entry in entries]

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    def inputs(self, trial: Trial) -> Inputs:
        case = trial.case
        k, v = (values.draw(case.recipe, case.stream(name), case.context, case.n_head_kv) for name in ("k", "v"))
        table, pages = page_table(case.stream("pages"), recipes.find(case.recipe).pages, case.context, case.page_size)
        first, last = max(case.context // 3, 1), case.context - 1
        listed = first + case.stream("order").permutation(max(last - first, 0))
        return Inputs(k, v, table, pages, case.page_size, listed)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        sizes = {"page_size": inputs.page_size, "table": inputs.table, "pages": inputs.pages}
        return _outcome(self.packing.pack(executor, path.mode, inputs.k, inputs.v, **sizes))

    def first_run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        """A whole pool, and the same rows appended in parts besides."""
        made, parts = self.run(executor, path, inputs), self._in_parts(executor, path, inputs)
        return replace(made, guards_ok=made.guards_ok and parts.guards_ok, own=parts)

    def _in_parts(self, executor: Executor, path: Path, inputs: Inputs) -> Packed:
        """The same rows appended as a prompt, a shuffled batch of listed cells and one single cell."""
        append, k, v, listed, last = self.packing.append, inputs.k, inputs.v, inputs.listed, len(inputs.k) - 1
        first = max(len(k) // 3, 1)
        made = append(executor, inputs.empty(path.mode), k[:first], v[:first], 0)
        if last < first:
            return made  # one cell: a second append would write it again
        if len(listed):
            made = _after(made, append(executor, made.pool, k[listed], v[listed], listed))
        return _after(made, append(executor, made.pool, k[last:], v[last:], last))

    def length(self, trial: Trial) -> int:
        return int(trial.inputs.pages)

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        """The same cells on physical pages in another order."""
        moved = np.argsort(order)
        table = np.where(inputs.table >= 0, moved[inputs.table], -1).astype(inputs.table.dtype)
        return replace(inputs, table=table)

    # ---- what is right -------------------------------------------------------------------------------------------

    def expected(self, trial: Trial) -> Expected:
        """Every stored byte by the reference packers, and how many values are lost."""
        inputs, mode, table = trial.inputs, trial.path.mode, trial.inputs.table
        turned = zip((inputs.k, inputs.v), ROTATED[mode], strict=True)
        stored = [reference.hadamard32(x) if rotated else x for x, rotated in turned]
        keys, rows = (planes.pack(x, form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
        want = place(keys, rows, mode, table, inputs.pages, inputs.page_size, onto=inputs.empty(mode))
        resident = table[np.arange(len(inputs.k)) // inputs.page_size] >= 0
        lost = sum(reference.lost(x[resident], form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
        trial.found.figures["lost"] = lost
        return Expected(planes_of(want), own=lost)

    def compared(
        self, trial: Trial, check: str, got: Arrays, due: Arrays, labels: tuple[np.ndarray, ...] = ()
    ) -> list[Check]:
        """All planes in one check."""
        return [same_planes("bytes" if check == "bits" else check, got, due)]

    def probed_bits(self, trial: Trial, expected: Expected) -> list[Check]:
        return [bit_battery(expected.outputs["k"])]

    def judged(self, trial: Trial) -> list[Check]:
        """The pool that was made in parts, what was lost, and the rotation kernel alone."""
        made, parts = trial.outcome, trial.outcome.own
        assert trial.expected is not None
        lost, got = trial.expected.own, made.counts["lost"]
        return [
            same_planes("in parts", planes_of(parts.pool), made.outputs),
            holds("lost", got == lost, f"{got} values reported lost, expected {lost}"),
            holds("lost in parts", parts.lost == lost, f"{parts.lost} values reported lost in parts, expected {lost}"),
            *self._rotation(trial.executor, trial.inputs.k),
        ]

    def _rotation(self, executor: Executor, x: np.ndarray) -> list[Check]:
        """The rotation kernel: the bits of its definition, and its distance from the exact transform."""
        got = self.packing.hadamard(executor, x)
        whole = np.isfinite(x).all(axis=-1)  # a row with a NaN or an infinity has no FP64 result to be near
        kept = x[whole]
        checks = [identical("rotation", got, reference.hadamard32(x))]
        if len(kept):
            limit = np.broadcast_to(bound.hadamard(kept), kept.shape)
            checks.append(within("rotation to FP64", got[whole], reference.hadamard(kept), limit))
        return checks


def _outcome(made: Packed) -> Outcome:
    return Outcome(planes_of(made.pool), made.witnesses, made.guards_ok, {"lost": made.lost})


def _after(one: Packed, two: Packed) -> Packed:
    return two._replace(lost=one.lost + two.lost, guards_ok=one.guards_ok and two.guards_ok)


def judged(
    case: Case,
    path: Path,
    executor: Executor,
    settings: Settings | None = None,
    memo: Memo | None = None,
    packing: Packing | None = None,
) -> Findings:
    """Findings of one packing path on one case. Raises StrataError when something cannot run.

    Parameters
    ----------
    packing
        The kernels, for tests that put others in their place.
    """
    operation = KvPack(packing)
    return operation.judge(Trial(operation, case, path, executor, settings or Settings(), memo or Memo()))


OPERATIONS = (KvPack(),)
