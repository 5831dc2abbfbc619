"""What is combined: rows with their weights and a shared expert, drawn as a recipe says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.core.random_streams import Stream
from validation.operations.experts.activations import ladder
from validation.operations.experts.case import ExpertCase
from validation.operations.router.inputs import SPREADS, beside, closer

#: One column in so many of a sum without a shared expert holds -0 in every row, and of a broken one infinity.
_ZERO = 7
#: Exponents of ladders of rows, and of a gate, which is taken with both signs; and from one rank to the next, up for
#: rows and down for weights.
_SIZES, _GATES, _RANK = (-140, 60), (-140, 14), 8
_SHARED = 100
#: One token in so many has no shared expert's share, its gate being far below zero.
_SHUT = 4
#: log2 of the exponential from which on it is infinite: see include/exp2.cuh.
GATE_EDGE = 128.0
#: log2 of a shared expert behind gates near their edge, and of rows beside it.
_BEHIND, _BENEATH = 120, -10


@dataclass(frozen=True, eq=False)
class Sums:
    """What is combined. rows: float32 [tokens, top, n]; weights: float32 [tokens, top]; shared: float32 [tokens, n] and
    gate: float32 [tokens], or neither."""

    rows: np.ndarray
    weights: np.ndarray
    shared: np.ndarray | None
    gate: np.ndarray | None

    def tokens(self, order: np.ndarray) -> Sums:
        """The same for some tokens, in the given order."""
        parts = (None if x is None else x[order] for x in (self.rows, self.weights, self.shared, self.gate))
        return Sums(*parts)  # type: ignore[arg-type]


def sums(case: ExpertCase) -> Sums:
    """Inputs of a combine recipe."""
    stream, shape = case.stream("sums"), (case.tokens, case.top, case.n)
    sizes = stream.child("size").below(24, (case.tokens, case.top, 1)) - 12
    rows = np.ldexp(stream.child("rows").normals(shape), sizes.astype(np.int32)).astype(np.float32)
    weights = _weights(stream, case)
    kind = case.recipe.removeprefix("combine_")
    if kind == "alone":
        rows[..., ::_ZERO] = np.float32(-0.0)  # whose sum is +0
        return Sums(rows, weights, None, None)
    if kind == "counts":
        return Sums(_lost(stream, rows), weights, None, None)
    if kind == "cancelling" and case.top > 1:
        rows[:, 0] *= np.float32(1 << 20)
        rows[:, -1], weights[:, -1] = -rows[:, 0], weights[:, 0]
    shared = stream.child("shared").normals((case.tokens, case.n), 2)
    gate = stream.child("gate").normals(case.tokens, 4)
    if kind == "ladder":
        steps, size = _RANK * np.arange(case.top, dtype=np.int32)[:, None], ladder(_SIZES, case.tokens)[::-1, None]
        negative = np.arange(case.tokens) % 2 == 1
        rows = np.ldexp(stream.child("rows").normals(shape), np.minimum(size[..., None] + steps, SPREADS[1]))
        weights = np.ldexp(weights, -steps[:, 0])
        # Behind a gate that is all but shut the shared expert is so large that it counts.
        shared = np.ldexp(shared, np.minimum(size + _SHARED * negative[:, None], SPREADS[1]))
        gate = np.ldexp(np.where(negative, np.float32(-1), np.float32(1)), closer(_GATES, case.tokens))
        gate[1::8] = -2 * np.arange(1, case.tokens, 8)  # where a sigmoid goes from 1/8 to nothing, in even steps
        return Sums(rows, weights, shared, gate)
    if kind == "gates":
        negative = np.arange(case.tokens) % 2 == 0
        rows = np.ldexp(stream.child("rows").normals(shape), _BENEATH)
        shared = np.ldexp(shared, np.where(negative, _BEHIND, 0)[:, None].astype(np.int32))
        size = np.log(2) * np.repeat(beside(GATE_EDGE, -(-case.tokens // 2)), 2)[: case.tokens]
        return Sums(rows, weights, shared, np.where(negative, -size, size).astype(np.float32))
    gate[::_SHUT] = np.float32(-200)
    if kind == "broken":
        place = tuple(int(stream.child("place", axis).below(size, ())) for axis, size in enumerate(shape))
        rows[place] = np.nan
        weights[-1, 0] = 0
        rows[-1, 0, :] = np.inf
        rows[-1, 0, ::_ZERO] = 1  # where the infinity has a weight, and the output is one and no NaN
        rows[-1, -1, ::_ZERO] = np.inf
    return Sums(rows, weights, shared, gate)


def _lost(stream: Stream, rows: np.ndarray) -> np.ndarray:
    """Rows of which the first of each token, but for the last of several, holds 1, 2, 3 or 4 values that are not finite
    in every four columns, in turns of 1, 2, 4 and 8 fours."""
    tokens, _, columns = rows.shape
    four, at = np.arange(columns) // 4, np.arange(columns) % 4
    bad = (at + four // 15) % 4 < np.frexp(1.0 + four % 15)[1]
    what = np.array([np.nan, np.inf, -np.inf], np.float32)[stream.child("what").below(3, (tokens, columns))]
    out = rows.copy()
    broken = bad & (np.arange(tokens) < max(tokens - 1, 1))[:, None]
    out[:, 0][broken] = what[broken]
    return out


def _weights(stream: Stream, case: ExpertCase) -> np.ndarray:
    """float32 [tokens, top] that add up to about 1, falling from rank to rank, each a multiple of 2**-20."""
    parts = np.sort(stream.child("weights").below(1 << 16, (case.tokens, case.top)), axis=1)[:, ::-1] + 1
    whole = (parts << 20) // parts.sum(axis=1, keepdims=True)
    return np.asarray((whole.astype(np.float64) / (1 << 20)).astype(np.float32))
