"""Scores and steps, drawn as a recipe says: bits from integers, the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from strata.kernels.selection import BLOCK
from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase

#: Levels of scores of which many are equal.
_LEVELS = 7
#: Bits of NaN: quiet and signalling, of both signs, the smallest and the largest payload among them.
_NAN = frozen(np.array([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFC00000, 0xFF800001, 0xFFFFFFFF], np.uint32))
#: Infinities, the largest numbers, and those before them.
_OUTERMOST = frozen(
    np.array([0x7F800000, 0x7F7FFFFF, 0x7F7FFFFE, 0xFF800000, 0xFF7FFFFF, 0xFF7FFFFE, 0x3F800000], np.uint32)
)
#: Zeros of both signs, twice as many as others, and the smallest numbers of both.
_ZEROS = frozen(np.array([0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000000, 0x80000000], np.uint32))
#: What all octets of a score hold but the one that differs: a number whose last octets count.
_BASE = 0x40506070
_OCTETS = 4
#: What lies where no query has a block: an infinity, which would be chosen before all others.
_UNREAD = np.uint32(0x7F800000)
_SPARE = 3


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is chosen from.

    Parameters
    ----------
    scores
        float32 [queries, capacity].
    steps
        int32 [queries, 4]: position, cells, complete blocks, and width.
    cap
        Places of a row of ids.
    """

    scores: np.ndarray
    steps: np.ndarray
    cap: int

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some queries, in the given order."""
        return replace(self, scores=self.scores[order], steps=np.ascontiguousarray(self.steps[order]))

    @property
    def blocks(self) -> int:
        """The complete blocks of the longest query."""
        return int(self.steps[:, 2].max())


def build(case: SelectCase) -> Inputs:
    """The inputs of a case."""
    stream = case.stream("topk")
    n_kv = lengths.cells(case)
    bits = np.full((case.queries, case.blocks), _UNREAD, np.uint32)
    used = max(int(n_kv.max()) // BLOCK, 1)
    bits[:, :used] = _bits(case, stream, (case.queries, used))
    bits[lengths.behind(case.blocks, n_kv // BLOCK)] = _UNREAD
    widths = case.widths(n_kv)
    if case.recipe == "topk_lengths":
        widths = _widths(stream.child("widths"), n_kv, widths)
    cap = case.widest + int(stream.child("spare").below(_SPARE + 1, ()))
    return Inputs(bits.view(np.float32), lengths.steps(n_kv, widths), cap)


def _bits(case: SelectCase, stream: Stream, shape: tuple[int, int]) -> np.ndarray:
    """uint32 of `shape`."""
    kind = case.recipe.removeprefix("topk_")
    bell = stream.child("bell").normals(shape).view(np.uint32)
    if kind == "levels":
        level = stream.child("level").below(_LEVELS, shape) - _LEVELS // 2
        return level.astype(np.float32).view(np.uint32)
    if kind == "equal":
        return np.broadcast_to(bell[:, :1], shape)
    if kind == "zeros":
        return _some(stream, _ZEROS, shape)
    if kind == "nan":
        broken = stream.child("broken").below(3, shape) == 0
        broken[0] = True
        return np.where(broken, _some(stream, _NAN, shape), bell)
    if kind == "infinities":
        return _some(stream, _OUTERMOST, shape)
    if kind == "subnormals":
        sign = stream.child("sign").below(2, shape).astype(np.uint32) << np.uint32(31)
        return stream.child("fraction").below(1 << 6, shape).astype(np.uint32) | sign
    if kind == "digits":
        at = 8 * (np.arange(shape[0]) % _OCTETS)[:, None]
        low = np.where(at < 24, 256, 128)  # the highest octet without the sign, and no NaN
        value = stream.child("digit").words(shape) % np.where(at < 24, low, low - 1).astype(np.uint64)
        held = _BASE & ~(0xFF << at)
        return (held | (value.astype(np.int64) << at)).astype(np.uint32)
    return bell


def _some(stream: Stream, known: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.asarray(known[stream.child("which").below(len(known), shape)])


def _widths(stream: Stream, n_kv: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """int64 [queries]: the usual width, none, all but one, a part of the tail, the tail and a little, or anything."""
    tail = n_kv % BLOCK
    anything = (stream.child("any").words(len(n_kv)) % (usual.astype(np.uint64) + np.uint64(1))).astype(np.int64)
    kinds = np.stack([usual, 0 * usual, n_kv - 1, tail - 1, tail, tail + 1, tail + BLOCK, anything])
    which = stream.child("kind").below(len(kinds), len(n_kv))
    return np.asarray(np.clip(kinds[which, np.arange(len(n_kv))], 0, usual))
