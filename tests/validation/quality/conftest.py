"""A tiny random model, in memory and as what FP64 gives of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from strata.engine.forward import LostValuesError
from validation.quality.fp64_file import Float32, Sizes
from validation.quality.fp64_model import Fp64Model, Int64
from validation.quality.model_file import random_weights

Float64 = NDArray[np.float64]

#: Three layers of which the second is global, four query heads on two KV heads; head_dim as short as a KV format takes.
SIZES = Sizes(
    layers=3,
    width=32,
    heads=4,
    kv_heads=2,
    head_dim=64,
    context=64,
    window=5,
    period=2,
    epsilon=1e-6,
    global_base=1e4,
    local_base=1e2,
)
VOCABULARY, HIDDEN = 50, 40


def close(got: Float64, want: Float64, steps: int) -> None:
    """Equal but for the roundings of `steps` FP64 operations, relative to the largest element or 1: Higham's gamma."""
    unit = steps * 2.0**-53
    assert got.dtype == np.float64
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= unit / (1 - unit) * np.abs(want).max(initial=1)


@dataclass
class Made:
    """Weights in memory."""

    sizes: Sizes = SIZES
    vocabulary: int = VOCABULARY
    arrays: dict[str, Float32] = field(default_factory=dict)

    def matrix(self, name: str, rows: slice | Int64 = slice(None)) -> Float32:
        return self.arrays[name.removesuffix(".weight")][rows]


@cache
def known(model: Fp64Model, kv: str, tokens: tuple[int, ...]) -> Float64:
    """The FP64 model's logits of a text."""
    return model.logits(model.states(np.array(tokens), kv))


@dataclass
class Fake:
    """A subject that gives what it is told to: the FP64 model's logits, with noise and whatever a fault does to them.

    noise: of each logit; wrong: added to logits of every position but the first; repeats: whether a second reading has
    the same bits; cut: positions that it keeps to itself; lost: whether it refuses; nan: positions without a number.
    """

    name: str
    model: Fp64Model
    kv: str = "exact"
    noise: float = 0.0
    seed: int = 0
    wrong: float = 0.0
    repeats: bool = True
    cut: int = 0
    lost: bool = False
    nan: tuple[int, ...] = ()
    served: list[str] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)

    def logits(self, tokens: Int64) -> Iterator[tuple[int, Float32]]:
        self.readings.append(self.name)
        if self.lost:
            raise LostValuesError("3 in norms")
        salt = 0 if self.repeats else len(self.readings)
        random = np.random.default_rng([self.seed, salt, *tokens.tolist()])
        exact = known(self.model, self.kv, tuple(tokens.tolist()))
        found = exact + self.noise * random.standard_normal(exact.shape)
        found[1:, ::2] += self.wrong
        found[list(self.nan)] = np.nan
        for first in range(0, len(tokens) - self.cut, 3):
            yield first, found[first : min(first + 3, len(tokens) - self.cut)].astype(np.float32)

    def last(self, tokens: Int64) -> Float32:
        rows = [row for _, slice_ in self.logits(tokens) for row in slice_]
        last: Float32 = rows[-1]
        return last

    def greedy(self, tokens: Int64, count: int) -> list[int]:
        text = list(tokens)
        for _ in range(count):
            text.append(int(np.argmax(self.last(np.array(text)))))
        return text[len(tokens) :]


@pytest.fixture(scope="session")
def made() -> Made:
    arrays = {name: one.astype(np.float32) for name, one in random_weights(5, SIZES, VOCABULARY, HIDDEN).items()}
    return Made(arrays=arrays)


@pytest.fixture(scope="session")
def model(made: Made) -> Fp64Model:
    return Fp64Model(made)
