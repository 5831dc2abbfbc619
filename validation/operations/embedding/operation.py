"""Embeddings on the seam: every bit is known, NaN and infinities among them, and FP64 bounds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import embedding
from strata.kernels.embedding import HALVES, Embedded
from strata.kernels.paths import Path
from validation.core.entry import Planned
from validation.core.far_checks import Part
from validation.core.operation import Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.embedding import (
    bound,
    conventional,
    far,
    fuzz,
    inputs,
    plan,
    random_cases,
    reference,
    sizes,
)
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.embedding.inputs import Inputs
from validation.operations.embedding.recipes import RECIPES

OUTPUTS = {"out": Output(("row", "column"))}


class Embedding(RowOperation):
    """Parameters: what embeds, and its kernels by format, for tests that put another in their place."""

    name = data = "embedding"
    rank = 31
    fuzz = fuzz.KIND
    sizes = sizes.SIZES
    conventional = conventional.CHECKS
    every_bit = True
    outputs = OUTPUTS

    def __init__(
        self,
        embed: Callable[..., Embedded] = embedding.run,
        kernel: Callable[[str], Kernel] = embedding.kernel,
    ) -> None:
        self.embed, self._kernel = embed, kernel

    def recipes(self) -> Sequence[NamedRecipe]:
        return list(RECIPES.values())

    def parse(self, text: str) -> EmbeddingCase:
        return EmbeddingCase.parse(text)

    def takes(self, case: EmbeddingCase, path: Path) -> bool:
        return case.fits(path.mode)

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return plan.planned(seed, profile)

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> EmbeddingCase:
        return random_cases.case(recipe, words[0], words[1:])

    def far(self, case: EmbeddingCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
        return far.parts(case, path, executor)

    def kernels(self, path: Path, case: EmbeddingCase | None = None) -> Sequence[Kernel]:
        if path.operation != self.name:
            raise UnknownOperationError(path, "kernel", (self.name,))
        return [self._kernel(path.mode)]

    def inputs(self, trial: Trial) -> Inputs:
        return inputs.build(trial.case, trial.path.mode)

    def run(self, executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        got = self.embed(executor, inputs.mode, inputs.matrix, inputs.ids, inputs.width, inputs.factor)
        return Outcome({"out": got.out}, got.witnesses, got.guards_ok, {"lost": got.lost})

    def length(self, trial: Trial) -> int:
        return len(trial.inputs.ids)

    def shapes(self, trial: Trial) -> dict[str, tuple[int, ...]]:
        return {"out": (len(trial.inputs.ids), trial.inputs.width)}

    def permuted(self, inputs: Inputs, order: np.ndarray) -> Inputs:
        return inputs.rows(order)

    def blocks(self, case: EmbeddingCase, run: Run) -> int:
        return embedding.blocks_of(len(run.inputs.ids), run.inputs.width)

    def comparable(self, output: np.ndarray) -> np.ndarray:
        return plain(output)

    def expected(self, trial: Trial) -> Expected:
        given: Inputs = trial.inputs
        out = reference.embed_bits(given.mode, given.matrix, given.ids, given.factor)
        return Expected({"out": out}, {"lost": int(given.outside.sum())})

    def reference(self, trial: Trial) -> Reference:
        """Of the rows that are finite throughout: FP64 says nothing of the others."""
        assert trial.expected is not None
        given: Inputs = trial.inputs
        rows = np.flatnonzero(np.isfinite(trial.expected.outputs["out"]).all(axis=1))
        known = given.matrix[np.where(given.outside, 0, given.ids)]
        with np.errstate(invalid="ignore", over="ignore"):
            exact = reference.embed(given.mode, known, float(given.factor))[rows]
        offset = given.mode != HALVES and FORMATS[given.mode].offset
        return Reference(rows, {"out": exact}, {"out": bound.embedded(exact, offset)})


OPERATIONS = (Embedding(),)
