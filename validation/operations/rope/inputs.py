"""Heads, positions and tables of rope, drawn as a recipe says.

Rows of a table that no row's position asks for are NaN, and so are wrong positions seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from strata.engine import rope_tables
from strata.kernels.rope import WORDS
from validation.core.arrays import frozen
from validation.core.random_streams import Stream, scaled
from validation.operations.experts.activations import ladder
from validation.operations.rope.case import RopeCase

#: Bases of angles: of the first models, and of those for long texts.
BASES = (10000.0, 1000000.0)
#: What the rows of tables that are not asked for hold.
_UNREAD = np.uint32(0x7FC0AA55)
#: Bits of NaN of both signs and of both infinities.
_BROKEN = frozen(np.array([0x7FC00000, 0xFFC00001, 0x7F800000, 0xFF800000], np.uint32))
_ZEROS = frozen(np.array([0.0, -0.0, 1.0, -1.0], np.float32))
#: Exponents of the ladder's heads and tables.
_SIZES, _SHARES = (-149, 127), (-140, 0)
#: Bits of a table's drawn number.
_GRID = 20


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is turned.

    Parameters
    ----------
    x
        float32 [rows, heads, d].
    steps
        int32 [rows, 4], of which the first word is the position.
    cos, sin
        float32 [context, d/2].
    base
        Of the angles whose cosines and sines the tables hold; 0 where they are any numbers.
    """

    x: np.ndarray
    steps: np.ndarray
    cos: np.ndarray
    sin: np.ndarray
    base: float = 0.0

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some rows, in the given order."""
        return replace(self, x=np.ascontiguousarray(self.x[order]), steps=np.ascontiguousarray(self.steps[order]))

    @property
    def positions(self) -> np.ndarray:
        """int64 [rows]."""
        return self.steps[:, 0].astype(np.int64)


def build(case: RopeCase) -> Inputs:
    """The inputs of a case."""
    stream = case.stream("rope")
    steps = stream.child("unused").below(1 << 31, (case.rows, WORDS)).astype(np.int32)
    steps[:, 0] = positions(case, stream.child("positions"))
    asked = np.unique(steps[:, 0])
    cos, sin = (np.full((case.context, case.d // 2), _UNREAD, np.uint32).view(np.float32) for _ in range(2))
    made = Inputs(_heads(case, stream.child("x")), steps, cos, sin, _base(case))
    for table, part in zip((cos, sin), _tables(case, stream, made.base, asked), strict=True):
        table[asked] = part
    kind = case.recipe.removeprefix("rope_")
    if kind == "cancelling":
        half, at = case.d // 2, made.positions
        size = np.ldexp(np.float32(1), stream.child("size").below(24, (case.rows, case.heads, 1)).astype(np.int32) - 12)
        made.x[..., :half], made.x[..., half:] = sin[at][:, None] * size, cos[at][:, None] * size
    if kind == "broken":
        _break(stream.child("x broken"), made.x)
        others = asked[asked != steps[-1, 0]]  # the last row stays whole
        for table, name in ((cos, "cos broken"), (sin, "sin broken")):
            part = table[others]
            _break(stream.child(name), part, whole=0)
            table[others] = part
    return made


def positions(case: RopeCase, stream: Stream) -> np.ndarray:
    """int64 [rows]: the first and the last position, both sides of powers of two, and any."""
    last = case.context - 1
    if case.recipe == "rope_same":
        return np.full(case.rows, last)
    edges = [0, last, *(at + by for at in (1 << np.arange(1, 21)).tolist()[::-1] for by in (-1, 0)), 1]
    kept = [at for at in dict.fromkeys(edges) if at <= last]
    anything, turn = stream.child("any").below(case.context, case.rows), np.arange(case.rows)
    edge = np.array(kept)[(turn - turn // 3) % len(kept)]  # two of three rows have the next one
    found = np.where(turn % 3 < 2, edge, anything)
    return np.asarray(found[stream.child("order").permutation(case.rows)])


def _base(case: RopeCase) -> float:
    return BASES[case.seed % len(BASES)] if case.recipe in ("rope_angles", "rope_sizes", "rope_same") else 0.0


def _heads(case: RopeCase, stream: Stream) -> np.ndarray:
    shape = (case.rows, case.heads, case.d)
    kind = case.recipe.removeprefix("rope_")
    if kind == "zeros":
        return np.asarray(_ZEROS[stream.below(len(_ZEROS), shape)])
    if kind == "ladder":
        # Each half of a head has a size of its own, so that its products meet every size of the other.
        count = 2 * case.rows * case.heads
        sizes = ladder(_SIZES, count)[stream.child("order").permutation(count)]
        with np.errstate(over="ignore"):
            halves = np.ldexp(
                stream.normals((case.rows, case.heads, 2, case.d // 2)), sizes.reshape(case.rows, -1, 2, 1)
            )
        return np.asarray(halves.astype(np.float32).reshape(shape))
    sizes = stream.child("size").below(24, (case.rows, case.heads, 1)) - 12
    return np.asarray(np.ldexp(stream.normals(shape), sizes.astype(np.int32)).astype(np.float32))


def _tables(case: RopeCase, stream: Stream, base: float, asked: np.ndarray) -> list[np.ndarray]:
    """Cosines and sines, float32, of the positions that are asked for."""
    shape = (len(asked), case.d // 2)
    if base:
        parts = [rope_tables.tables(base, case.d // 2, range(int(at), int(at) + 1)) for at in asked]
        return [np.concatenate(table) for table in zip(*parts, strict=True)]
    drawn = [stream.child(name) for name in ("cos", "sin")]
    if case.recipe == "rope_zeros":
        return [np.asarray(_ZEROS[one.below(len(_ZEROS), shape)]) for one in drawn]
    made = [scaled(one.below((2 << _GRID) + 1, shape) - (1 << _GRID), -_GRID) for one in drawn]
    if case.recipe == "rope_ladder":
        shares = [ladder(_SHARES, shape[1])[one.child("order").permutation(shape[1])] for one in drawn]
        return [np.ldexp(table, share).astype(np.float32) for table, share in zip(made, shares, strict=True)]
    return made


def _break(stream: Stream, x: np.ndarray, whole: int = 1) -> None:
    """Put NaN and infinities into one element of seven, of all rows but the last `whole`."""
    broken = stream.child("which").below(7, x.shape) == 0
    broken[len(x) - whole :] = False
    x.view(np.uint32)[broken] = _BROKEN[stream.child("what").below(len(_BROKEN), x.shape)][broken]
