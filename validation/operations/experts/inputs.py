"""The inputs of an expert case: blobs, tokens and ids, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from strata.cpus import usable
from strata.formats import FORMATS
from validation.operations.experts import activations, blobs, routing
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import find
from validation.operations.experts.reference import BLOCK, Weights


class Matrices(NamedTuple):
    """One expert, decoded. gate, up: [ff, n]; down: [n, ff]."""

    gate: Weights
    up: Weights
    down: Weights


@dataclass(frozen=True, eq=False)
class Inputs:
    """gate_up, down: format names; blobs: uint8 [experts, bytes of one]; x: float32 [tokens, n]; ids: int32
    [tokens, top], of which those outside of 0..experts-1 name nobody."""

    gate_up: str
    down: str
    ff: int
    blobs: np.ndarray
    x: np.ndarray
    ids: np.ndarray

    @property
    def n(self) -> int:
        return int(self.x.shape[1])

    @property
    def experts(self) -> int:
        return len(self.blobs)

    @property
    def top(self) -> int:
        return int(self.ids.shape[1])

    @property
    def pairs(self) -> int:
        return int(self.ids.size)

    @property
    def named(self) -> np.ndarray:
        """bool [tokens, top]: whether an id is an expert's."""
        return np.asarray((self.ids >= 0) & (self.ids < self.experts))

    @property
    def sound(self) -> np.ndarray:
        """bool [tokens, top]: pairs that name an expert and whose token is finite."""
        return np.asarray(self.named & np.isfinite(self.x).all(axis=1)[:, None])

    def parts(self, expert: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """uint8: the bytes of gate, of up and of down of one expert."""
        half = self.ff * FORMATS[self.gate_up].row_bytes(self.n)
        blob = self.blobs[expert]
        return blob[:half], blob[half : 2 * half], blob[2 * half :]

    def matrices(self, expert: int) -> Matrices:
        """The weights of one expert, decoded by `strata.formats`."""
        gate, up, down = self.parts(expert)
        return Matrices(
            decoded(self.gate_up, gate, self.ff),
            decoded(self.gate_up, up, self.ff),
            decoded(self.down, down, self.n),
        )

    def tokens(self, rows: np.ndarray) -> Inputs:
        """The same for some tokens, in the given order."""
        return replace(self, x=self.x[rows], ids=self.ids[rows])


def decoded(form: str, data: np.ndarray, rows: int) -> Weights:
    """A matrix of `rows` rows from its bytes."""
    made = FORMATS[form]
    q, scale = made.quants(data.reshape(rows, -1, made.nbytes))
    return Weights(q.reshape(rows, -1), scale.reshape(rows, -1))


def mode_formats(mode: str) -> tuple[str, str]:
    """Formats of gate and up, and of down, of a mode such as `iq3_xxs/iq4_nl`."""
    gate_up, _, down = mode.partition("/")
    return gate_up, down


def build(case: ExpertCase, mode: str) -> Inputs:
    """The inputs of a case in a mode."""
    recipe = find(case.recipe)
    gate_up, down = mode_formats(mode)
    size = blobs.blob_bytes(gate_up, down, case.n, case.ff)
    made = np.empty((case.experts, size), np.uint8)
    stream = case.stream("blobs")

    def fill(experts: Sequence[int]) -> None:
        for expert in experts:
            made[expert] = blobs.blob(stream, recipe.weights, expert, gate_up, down, case.n, case.ff)

    threads = usable()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, (range(first, case.experts, threads) for first in range(threads))))
    x = activations.draw(case.stream("x"), recipe.values, case.tokens, case.n)
    ids = routing.draw(case.stream("ids"), recipe.routing, case.tokens, case.experts, case.top)
    assert case.n % BLOCK == 0
    return Inputs(gate_up, down, case.ff, made, np.ascontiguousarray(x), np.ascontiguousarray(ids))
