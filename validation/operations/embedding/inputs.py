"""A matrix of blocks, ids and a factor, drawn as a recipe says.

Random bytes are valid blocks of every format: each index is in the range of its codebook. Only the FP16 numbers of a
block have to be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from strata.formats import FORMATS
from strata.kernels.embedding import HALVES
from validation.core.random_streams import Stream
from validation.operations.embedding.case import EmbeddingCase

#: First bytes of the FP16 numbers of a block, of formats that have others than one at byte 0.
_HALVES_AT: Mapping[str, tuple[int, ...]] = {"q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}
#: Exponents of plain FP16 numbers.
_PLAIN = (-9, 3)
#: By the name of a recipe: the square root of 640 as FP32; a third; and factors that leave the range of float32.
_FACTORS = {"bell": 25.298221588134766, "outside": 1.0 / 3.0, "faint": -1.5 * 2.0**-138, "loud": 1.25 * 2.0**119}
#: FP16 bits of infinities and NaN of both signs.
_NO_NUMBERS = (0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01)
#: Ids that are outside of every matrix, and how far others are behind its end.
_OUTERMOST, _BEHIND = ((1 << 31) - 1, -(1 << 31), -1), 3


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is embedded.

    Parameters
    ----------
    mode
        The format.
    matrix
        uint8 [vocab, row bytes].
    ids
        int32 [rows].
    width
        Values of a row.
    factor
        float32.
    """

    mode: str
    matrix: np.ndarray
    ids: np.ndarray
    width: int
    factor: np.float32

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some rows, in the given order."""
        return replace(self, ids=np.ascontiguousarray(self.ids[order]))

    @property
    def outside(self) -> np.ndarray:
        """bool [rows]: whose id is of no row of the matrix."""
        return (self.ids < 0) | (self.ids >= len(self.matrix))


def build(case: EmbeddingCase, mode: str) -> Inputs:
    """The inputs of a case in a mode whose blocks its width is a multiple of."""
    kind, stream = case.recipe.removeprefix("embedding_"), case.stream("embedding", mode)
    made = matrix(stream.child("matrix"), kind, mode, case.vocab, case.width)
    factor = np.float32(_FACTORS.get(kind, 1.0))
    return Inputs(mode, made, ids(case.stream("ids"), kind, case.rows, case.vocab), case.width, factor)


def matrix(stream: Stream, kind: str, mode: str, vocab: int, width: int) -> np.ndarray:
    """uint8 [vocab, row bytes] by the name of a recipe without `embedding_`."""
    if mode == HALVES:
        own = stream.child("plain")
        bits = _halves(own, kind, (vocab, width))
        return np.ascontiguousarray(bits.astype("<u2")).view(np.uint8)
    form = FORMATS[mode]
    blocks = stream.child("bytes").octets((vocab, width // form.values, form.nbytes))
    for at in _HALVES_AT.get(mode, (0,)):
        own = stream.child("plain", at)
        bits = _halves(own, kind, blocks.shape[:2])
        blocks[..., at : at + 2] = bits.astype("<u2")[..., None].view(np.uint8)
    return np.ascontiguousarray(blocks.reshape(vocab, -1))


def ids(stream: Stream, kind: str, rows: int, vocab: int) -> np.ndarray:
    """int32 [rows]: the last and the first row of the matrix, any others, and those outside where a recipe has such."""
    edges = [vocab - 1, vocab - 1, 0, 0]
    found = stream.child("any").below(vocab, rows)
    found[: len(edges)] = edges[:rows]
    if kind == "outside":
        strange = [*_OUTERMOST, *range(vocab, vocab + _BEHIND)]
        which = np.array(strange)[np.arange(rows) // 2 % len(strange)]
        found = np.where(np.arange(rows) % 2 == 0, which, found)
    return np.asarray(found[stream.child("order").permutation(rows)].astype(np.int32))


def _halves(stream: Stream, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """uint16: FP16 bits; of `raw` any, one in five of which is no number, but for those of the first row."""
    plain = _plain(stream, kind, shape)
    if kind != "raw":
        return plain
    bits = stream.child("any").below(1 << 16, shape)
    known = np.array(_NO_NUMBERS)[stream.child("which").below(len(_NO_NUMBERS), shape)]
    bits = np.where(stream.child("broken").below(5, shape) == 0, known, bits)
    bits[0] = plain[0]
    return bits.astype(np.uint16)


def _plain(stream: Stream, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """uint16: finite FP16 numbers of both signs; of `faint` every fourth is zero."""
    low, high = _PLAIN
    exponent = (15 + low + stream.child("exponent").below(high - low + 1, shape)) << 10
    bits = exponent | stream.child("fraction").below(1 << 10, shape)
    if kind == "faint":
        bits = np.where(stream.child("zero").below(4, shape) == 0, 0, bits)
    return np.asarray((bits | stream.child("sign").below(2, shape) << 15).astype(np.uint16))
