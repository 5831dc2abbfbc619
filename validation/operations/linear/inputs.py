"""The matrix and the rows of a case, drawn as its recipe says: integers and exact operations, the same everywhere.

The last row of every case takes the signs of the first output's weights: that product is as large as its numbers allow,
so that no case is too small to tell right from wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from strata.formats import FORMATS
from validation.core.random_streams import Stream
from validation.operations.experts import activations
from validation.operations.experts.recipes import Values
from validation.operations.linear import blocks
from validation.operations.linear.case import LinearCase
from validation.operations.linear.formats import GROUP, HALVES

#: Exponents of groups of rows over decades; one group in so many is zeros, and one row in so many.
_DECADES, _ZERO_GROUPS, _ZERO_ROWS = (-15, 15), 5, 4
#: Exponents of the first row and the last of a ladder; every third row has groups whose reciprocal may be infinite.
LADDER, _TINY = (-146, 100), 3
#: log2 of groups of a row of codes 127.
_SIZES = (-8, 8)
#: Of a row that cancels, log2 of what is left.
_LEFT = -10
#: Bits of what is no number, and log2 of numbers whose sums overflow.
_NO_NUMBERS, _HUGE = (0x7F800000, 0x7FC00000, 0xFF800000, 0xFFC00001, 0x7F800001), 125
#: Values that recipes of experts need at least.
_LEAST = 2 * GROUP


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is multiplied.

    Parameters
    ----------
    mode
        A format of blocks, or `f16`.
    matrix
        uint8 [outputs, row bytes], of FP16 uint16 [outputs, width].
    x
        float32 [rows, width].
    """

    mode: str
    matrix: np.ndarray
    x: np.ndarray

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some rows, in the given order."""
        return replace(self, x=np.ascontiguousarray(self.x[order]))

    @property
    def outputs(self) -> int:
        return len(self.matrix)

    @property
    def width(self) -> int:
        return int(self.x.shape[1])


def build(case: LinearCase, mode: str) -> Inputs:
    """The inputs of a case in a mode whose rows hold its width."""
    kind = case.recipe.removeprefix("linear_")
    matrix = blocks.matrix(case.stream("matrix", mode), kind, mode, case.outputs, case.width)
    x = _rows(case.stream("rows"), kind, case.rows, max(-(-case.width // GROUP) * GROUP, _LEAST), case.width)
    x = np.ascontiguousarray(x[:, : case.width])
    first = values(mode, matrix[:1])[0]
    x[-1] = np.where(first < 0, -np.abs(x[-1]), np.abs(x[-1]))
    return Inputs(mode, matrix, x)


def values(mode: str, matrix: np.ndarray) -> np.ndarray:
    """float32 [outputs, width]: the numbers of a matrix, rounded as its format rounds them."""
    if mode == HALVES:
        return np.asarray(matrix.view(np.float16).astype(np.float32))
    form = FORMATS[mode]
    return form.decode(matrix.reshape(len(matrix), -1, form.nbytes)).reshape(len(matrix), -1)


def _rows(stream: Stream, kind: str, rows: int, padded: int, width: int) -> np.ndarray:
    """float32 [rows, padded], of which the first `width` values are used."""
    x, groups = stream.child("bell").normals((rows, padded)), (rows, padded // GROUP)
    last = np.arange(rows) == rows - 1
    if kind == "decades":
        low, high = _DECADES
        x = _sized(x, low + stream.child("size").below(high - low + 1, groups))
        empty = stream.child("zero").below(_ZERO_GROUPS, groups) == 0
        empty[1::_ZERO_ROWS] = True
        empty[last, 0] = False
        empty[last, 1:] &= empty[last, 1:] & (np.arange(1, groups[1]) % 2 == 0)
        x[np.repeat(empty, GROUP, axis=1)] = 0
        return np.where(stream.child("sign").below(2, x.shape) == 0, x, -x)
    if kind == "extreme":
        return _extreme(stream, x)
    if kind == "cancelling":
        half, little = width // 2, np.ldexp(stream.child("little").normals((rows, width // 2)), _LEFT)
        x[~last, half : 2 * half] = (little - x[:, :half])[~last]
        return x
    if kind == "ladder":
        exponents = activations.ladder(LADDER, rows)
        exponents[-1] = LADDER[1]
        tiny = activations.draw(stream.child("tiny"), Values.TINY, rows, padded)
        some = (np.arange(rows) % _TINY == _TINY - 1) & ~last
        return np.where(some[:, None], tiny, _sized(x, np.repeat(exponents[:, None], groups[1], axis=1)))
    if kind == "broken":
        return _broken(stream, x, width)
    return x


def _sized(x: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """x with every group times a power of two of its own, rounded once where subnormal."""
    size = np.repeat(exponents, GROUP, axis=1).astype(np.int32)
    return np.asarray(np.ldexp(x.astype(np.float64), size).astype(np.float32))


def _extreme(stream: Stream, x: np.ndarray) -> np.ndarray:
    """Rows whose codes are all 127 in size, every second one of them of one sign; and from the second on every second
    row half way between codes."""
    rows, padded = x.shape
    low, high = _SIZES
    whole = (1 << 20) + stream.child("whole").below(1 << 20, (rows, padded // GROUP))
    exponent = low - 20 + stream.child("exponent").below(high - low + 1, whole.shape)
    size = np.repeat(np.ldexp(whole.astype(np.float64), exponent.astype(np.int32)), GROUP, axis=1).astype(np.float32)
    minus = stream.child("minus").below(2, x.shape) == 0
    minus[::4] = minus[::4, :1]
    ties = activations.draw(stream.child("ties"), Values.TIES, rows, padded)
    out = np.where(minus, -size, size)
    out[1:-1:2] = ties[1:-1:2]
    return out


def _broken(stream: Stream, x: np.ndarray, width: int) -> np.ndarray:
    """Of three rows one has a value that is no number, and one sums that overflow; never the last."""
    bits = x.view(np.uint32).copy()
    for turn, row in enumerate(range(0, len(x) - 1, 3)):
        for index in range(2 if turn == 0 else 1):
            place = int(stream.child("place", row, index).below(width, ()))
            bits[row, place] = _NO_NUMBERS[(turn + index) % len(_NO_NUMBERS)]
    out = bits.view(np.float32)
    out[1:-1:3] = np.ldexp(out[1:-1:3], _HUGE)
    return out
