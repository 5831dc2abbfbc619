"""Queries, keys and steps of a case, drawn as its recipe says: integers and exact operations, the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.kernels.selection import BLOCK, DIMS, HEADS
from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.operations.block_select import lengths
from validation.operations.block_select.case import SelectCase

#: Bits of a NaN of each sign and of both infinities.
_BROKEN = frozen(np.array([0x7FC00001, 0xFFA00000, 0x7F800000, 0xFF800000], np.uint32))
#: Keys of which a case of ties has many each.
_KEYS = 5
#: Exponents of heads and of keys, on both sides of 0.
_DECADES = 20
#: Exponents of rows that lie apart: heads as they are, far above and below; keys near 0, and at two distances below.
#: No product overflows, and some are subnormal.
_HEADS_APART, _KEYS_APART = ((0, 0), (100, 115), (-66, -60)), ((-16, -4), (-66, -60), (-98, -40))
#: Exponents of huge and tiny rows: the largest of q, and of keys.
_HUGE, _TINY = ((58, 62), (56, 63)), ((-90, -60), (-85, -40))
#: The row of a head below the smallest scale that there is, and one key so large that it counts.
_BELOW, _ABOVE = -118, 90
#: Places by which places beyond a row of ids that anyone chooses go on, at most.
_SPARE = 3
#: log2 of a key that nobody may read: every query that did would choose its block.
_UNREAD = 40


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a scorer is given.

    Parameters
    ----------
    q
        float32 [queries, HEADS, DIMS].
    keys
        float32 [capacity, DIMS].
    steps
        int32 [queries, 4]: position, cells, complete blocks, and width.
    cap
        Places of a row of ids.
    """

    q: np.ndarray
    keys: np.ndarray
    steps: np.ndarray
    cap: int

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some queries, in the given order."""
        return replace(self, q=np.ascontiguousarray(self.q[order]), steps=np.ascontiguousarray(self.steps[order]))

    @property
    def blocks(self) -> int:
        """The complete blocks of the longest query."""
        return int(self.steps[:, 2].max())


def build(case: SelectCase) -> Inputs:
    """The inputs of a case."""
    stream = case.stream("select")
    n_kv = lengths.cells(case)
    q = stream.child("q").normals((case.queries, HEADS, DIMS))
    used = max(int(n_kv.max()) // BLOCK, 1)
    q, keys = _rows(case, stream, q, stream.child("keys").normals((used, DIMS)))
    room = np.empty((case.blocks, DIMS), np.float32)
    room[:used] = keys
    if case.blocks > used:  # one row again and again: it is never read
        room[used:] = np.ldexp(stream.child("unread").normals(DIMS), _UNREAD)
    return Inputs(np.ascontiguousarray(q), room, lengths.steps(n_kv, case.widths(n_kv)), places(case))


def places(case: SelectCase) -> int:
    """Places of a row of ids: as many as its widest query chooses, and up to `_SPARE` more."""
    return case.widest + int(case.stream("select").child("spare").below(_SPARE + 1, ()))


def _rows(case: SelectCase, stream: Stream, q: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind = case.recipe.removeprefix("select_")
    if kind == "decades":
        return _scaled(stream, "q", q, (-_DECADES, _DECADES)), _scaled(stream, "keys", keys, (-_DECADES, _DECADES))
    if kind == "apart":
        return _apart(stream, "q", q, _HEADS_APART), _apart(stream, "keys", keys, _KEYS_APART)
    if kind == "near":
        return q, _near(stream, keys)
    if kind == "ties":
        return q, keys[stream.child("which").below(min(_KEYS, len(keys)), len(keys))]
    if kind == "equal":
        return q, np.broadcast_to(keys[0], keys.shape)
    if kind == "zeros":
        keys = -np.abs(keys)
        keys[:: 2 * BLOCK + 1] = 0
        return np.abs(q), keys
    if kind == "heads":
        return _opposed(stream, q), keys
    if kind == "cancelling":
        return _cancelling(stream, q, keys)
    if kind == "broken":
        return _broken(stream, "q", q, HEADS * DIMS), _broken(stream, "keys", keys, 2 * DIMS)
    if kind == "huge":
        return _scaled(stream, "q", q, _HUGE[0]), _scaled(stream, "keys", keys, _HUGE[1])
    if kind == "tiny":
        return _tiny(stream, q, keys)
    if kind == "split":
        return _low_halves(stream, "q", q), _low_halves(stream, "keys", keys)
    return q, keys


def _scaled(stream: Stream, name: str, x: np.ndarray, ends: tuple[int, int]) -> np.ndarray:
    """Each row of x times a power of two between two."""
    low, high = ends
    exponent = low + stream.child("size", name).below(high - low + 1, x.shape[:-1])
    return np.asarray(np.ldexp(x, exponent.astype(np.int32)[..., None]))


def _apart(stream: Stream, name: str, x: np.ndarray, classes: Sequence[tuple[int, int]]) -> np.ndarray:
    """Each row of x times a power of two of one of some classes.

    Of three queries one has all heads in the last class, and one all but its last head in the second.
    """
    which = stream.child("class", name).below(len(classes), x.shape[:-1])
    if x.ndim > 2:
        which[1::3], which[2::3] = 2, (1, 1, 1, 0)
    scaled = [_scaled(stream.child("class", index), name, x, ends) for index, ends in enumerate(classes)]
    return np.asarray(np.choose(which[..., None], scaled))


def _near(stream: Stream, keys: np.ndarray) -> np.ndarray:
    """One key for all but for the last two bits of its numbers, twice it for some and half of it for others."""
    same = np.broadcast_to(keys[0], keys.shape).copy()
    moved = (same.view(np.uint32) ^ stream.child("last").below(4, keys.shape).astype(np.uint32)).view(np.float32)
    size = np.array([-1, 0, 0, 1], np.int32)[stream.child("class").below(4, len(keys))]
    return np.asarray(np.ldexp(moved, size[:, None]))


def _opposed(stream: Stream, q: np.ndarray) -> np.ndarray:
    """Heads in pairs, each nearly the other's opposite, in an order of each query's own, one pair much smaller."""
    out = q.copy()
    little = np.ldexp(stream.child("little").normals((len(q), DIMS)), -6)
    out[:, 1] = little - out[:, 0]
    out[:, 2] = np.ldexp(out[:, 2], -3)
    out[:, 3] = little - out[:, 2]
    turn = stream.child("turn").below(HEADS, len(q))
    return np.asarray(np.take_along_axis(out, (np.arange(HEADS) + turn[:, None])[..., None] % HEADS, axis=1))


def _cancelling(stream: Stream, q: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each product of the first half of the dims again in the second half with the other sign, and a little besides."""
    half = DIMS // 2
    q, keys = q.copy(), keys.copy()
    q[..., half:] = q[..., :half]
    keys[:, half:] = -keys[:, :half] + np.ldexp(stream.child("little").normals((len(keys), half)), -8)
    return q, keys


def _broken(stream: Stream, name: str, x: np.ndarray, share: int) -> np.ndarray:
    """x with one number in so many no number."""
    bits = np.ascontiguousarray(x).view(np.uint32).copy()
    place = stream.child("broken", name).below(share, x.shape) == 0
    bits[place] = _BROKEN[stream.child("what", name).below(len(_BROKEN), x.shape)][place]
    return np.asarray(bits.view(np.float32))


def _tiny(stream: Stream, q: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products from below the smallest float32 on; a head below the smallest scale, and keys so large that it counts;
    and rows of zeros."""
    q, keys = _scaled(stream, "q", q, _TINY[0]), _scaled(stream, "keys", keys, _TINY[1])
    q[::3, 1] = np.ldexp(stream.child("below").normals((len(q[::3]), DIMS)), _BELOW)
    keys[::5] = np.ldexp(stream.child("above").normals((len(keys[::5]), DIMS)), _ABOVE)
    q[::4, 2], keys[3::7] = 0, 0
    return q, keys


def _low_halves(stream: Stream, name: str, x: np.ndarray) -> np.ndarray:
    """Numbers of one size, whose bits behind the eleventh are as large as they may be and of one sign for each row."""
    sign = np.where(stream.child("sign", name).below(2, x.shape[:-1]) == 0, 1.0, -1.0)[..., None]
    top = 1024 + stream.child("top", name).below(1024, x.shape)
    return np.asarray((sign * (top + 0.5 - 2.0**-12) / 1024).astype(np.float32))
