"""What is normed: rows, weights and residuals, drawn as a recipe says, by integer and exact operations alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.operations.experts.activations import ladder
from validation.operations.rms_norm.case import NormCase

#: log2 of the sizes of rows, and of residuals beside what is added to them.
_SIZES, _BESIDE = 24, 9
#: One column in so many is larger by this power of two; log2 of the sizes of weights of both signs.
_CHANNELS, _OUTLIER, _WEIGHTS = 29, 10, 20
#: log2 of the sizes of a ladder's rows, whose values are below 2**2 before: 2**16 squares of it are below 2**128.
LADDER = (-149, 54)
_LADDER_TOP = 62
#: log2 of the smallest magnitude whose square overflows, and of the number at which a sum does.
_ROOT, _MOST = 64, 128
#: Weights by turns of columns.
_STRANGE = frozen(
    np.array([0.0, -0.0, 2.0**-149, -(2.0**-130), 2.0**100, -(2.0**127), np.inf, -np.inf, np.nan, 1.0], np.float32)
)


@dataclass(frozen=True, eq=False)
class Inputs:
    """x: float32 [rows, n]; weight: float32 [n]; residual: float32 [rows, n], or None; eps: a float32."""

    x: np.ndarray
    weight: np.ndarray
    residual: np.ndarray | None
    eps: float

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some rows, in the given order."""
        residual = None if self.residual is None else np.ascontiguousarray(self.residual[order])
        return Inputs(np.ascontiguousarray(self.x[order]), self.weight, residual, self.eps)


def build(case: NormCase, mode: str) -> Inputs:
    """The inputs of a case in a mode."""
    stream, shape = case.stream("rows"), (case.rows, case.n)
    kind = case.recipe.removeprefix("rms_")
    x = stream.child("x").normals(shape)
    weight = 1 + stream.child("weight").normals(case.n, -2)
    sizes = stream.child("size").below(_SIZES, (case.rows, 1)) - _SIZES // 2
    if kind == "ladder":
        sizes = ladder(LADDER, case.rows)[:, None]
        if case.n <= 1 << 10:  # where the sum of so few is still far from its end
            sizes = ladder((LADDER[0], _LADDER_TOP - 6), case.rows)[:, None]
    if kind == "outliers":
        loud = np.arange(case.n) % _CHANNELS == int(stream.child("channel").below(_CHANNELS, ())) % case.n
        sizes = sizes + _OUTLIER * loud
        grown = stream.child("weight size").below(_WEIGHTS, case.n) - _WEIGHTS // 2
        weight = np.ldexp(stream.child("weights").normals(case.n), grown.astype(np.int32))
    x = np.ldexp(x, sizes.astype(np.int32)).astype(np.float32)
    if kind == "overflow":
        x = _overflowing(stream, case)
    elif kind == "zeros":
        x = _zeros(stream, case)
    elif kind == "broken":
        x = _broken(stream, x)
    elif kind == "weights":
        weight = _STRANGE[np.arange(case.n) % len(_STRANGE)]
    residual = None
    if mode == "residual":
        beside = stream.child("beside").below(_BESIDE, (case.rows, 1)) - _BESIDE // 2
        residual = np.ldexp(stream.child("residual").normals(shape), beside.astype(np.int32)).astype(np.float32)
    return frozen(Inputs(x, np.ascontiguousarray(weight, np.float32), residual, case.eps))


def _overflowing(stream: Stream, case: NormCase) -> np.ndarray:
    """Rows that take turns: one value whose square is the largest that is finite, and the first that is not; two such
    of one lane, whose sum overflows; and equal values whose sum is just below 2**128 and just above it, which no lane's
    own sum comes near where there are several."""
    x = stream.child("x").normals((case.rows, case.n))
    signs = np.where(stream.child("sign").below(2, x.shape) == 0, np.float32(1), np.float32(-1))
    first = np.float32(2.0**_ROOT)
    last = np.nextafter(first, np.float32(0))
    even = 2.0 ** (_MOST // 2) / np.sqrt(np.float64(case.n))
    for row in range(case.rows):
        turn, at = row % 5, int(stream.child("place", row).below(case.n // 4, ())) * 4
        if turn == 4 or turn == 3:
            x[row] = signs[row] * np.float32(even * (1 - 2.0**-12 if turn == 3 else 1 + 2.0**-12))
        elif turn == 2:
            x[row, at : at + 2] = signs[row, :2] * last
        else:
            x[row, at] = signs[row, 0] * (last if turn == 0 else first)
    return x


def _zeros(stream: Stream, case: NormCase) -> np.ndarray:
    """Zeros of both signs; in every second row one value stands among them."""
    x = np.where(stream.child("sign").below(2, (case.rows, case.n)) == 0, np.float32(0), np.float32(-0.0))
    rows = np.arange(0, case.rows, 2)
    x[rows, stream.child("place").below(case.n, len(rows))] = stream.child("x").normals(len(rows), 3)
    return x


def _broken(stream: Stream, x: np.ndarray) -> np.ndarray:
    """In every second row one value or all are NaN or infinite, in the first column, the last or any."""
    out = x.copy()
    what = np.array([np.nan, np.inf, -np.inf], np.float32)
    for turn, row in enumerate(range(1 if len(x) > 1 else 0, len(x), 2)):
        place = (0, x.shape[1] - 1, int(stream.child("place", row).below(x.shape[1], ())))[turn % 3]
        out[row, place] = what[turn // 3 % 3]
        if turn % 9 == 8:
            out[row] = what[turn // 9 % 3]
    return out
