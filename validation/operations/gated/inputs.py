"""Elements, drawn as a recipe says, by integer and exact operations alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.operations.experts.activations import ladder
from validation.operations.gated.case import ElementCase
from validation.operations.gated.edges import beside, gates, values

#: log2 of the sizes of rows.
_SIZES = 24
#: log2 of the first and the last size of a ladder, of numbers below 2**2 before.
LADDER = (-149, 126)
#: log2 of ups behind gates that are large, and behind those that are all but shut.
_BEHIND, _SHUT = 20, 118
#: NaN of several payloads and both signs, and infinities.
_BROKEN = frozen(np.array([0x7FC00000, 0x7F800001, 0xFFC00123, 0x7F800000, 0xFF800000], np.uint32))
_RARE = 5
#: Bits of zeros of both signs, of subnormal numbers and of the smallest normal ones.
_ZEROS = frozen(np.array([0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80800000], np.uint32))
#: 1, half a step of it with both signs and a step; and the largest number, half of it, half a step of it, and less.
_HALVES = frozen(np.array([0x3F800000, 0x33800000, 0xB3800000, 0x34000000], np.uint32))
_LARGE = frozen(np.array([0x7F7FFFFF, 0x7EFFFFFF, 0x73000000, 0x72FFFFFF], np.uint32))
_SIGN = 0x80000000


@dataclass(frozen=True, eq=False)
class Inputs:
    """arrays: float32 [rows, columns] by the names of operands; cap: of soft capping, a float32."""

    arrays: Mapping[str, np.ndarray]
    cap: float

    def rows(self, order: np.ndarray) -> Inputs:
        """The same for some rows, in the given order."""
        return replace(self, arrays={name: np.ascontiguousarray(x[order]) for name, x in self.arrays.items()})


def build(case: ElementCase) -> Inputs:
    """The inputs of a case."""
    operation, _, kind = case.recipe.partition("_")
    stream = case.stream("elements")
    made = {"gated": _gated, "softcap": _capped, "residual": _added}[operation](case, stream, kind)
    arrays = {name: np.ascontiguousarray(x, np.float32) for name, x in made.items()}
    if kind == "broken":
        arrays = {name: _broken(stream.child("broken", name), x) for name, x in arrays.items()}
    return frozen(Inputs(arrays, case.cap))


def _shape(case: ElementCase) -> tuple[int, int]:
    return case.rows, case.columns


def _sized(stream: Stream, case: ElementCase) -> np.ndarray:
    """Rows of sizes of their own."""
    sizes = stream.child("size").below(_SIZES, (case.rows, 1)) - _SIZES // 2
    return np.asarray(np.ldexp(stream.child("value").normals(_shape(case)), sizes.astype(np.int32)))


def _laddered(stream: Stream, case: ElementCase) -> np.ndarray:
    """Rows from the smallest floats to the largest."""
    return np.asarray(np.ldexp(stream.normals(_shape(case)), ladder(LADDER, case.rows)[:, None]))


def _bits(stream: Stream, known: np.ndarray, case: ElementCase) -> np.ndarray:
    return np.asarray(known[stream.below(len(known), _shape(case))].view(np.float32))


def _gated(case: ElementCase, stream: Stream, kind: str) -> dict[str, np.ndarray]:
    gate, up = stream.child("gate").normals(_shape(case), 1), _sized(stream.child("up"), case)
    if kind == "ladder":
        gate = _laddered(stream.child("gate"), case)
        # Small gates under ups as large as they may be, and large ones under small: every product counts.
        sizes = np.clip(-ladder(LADDER, case.rows), -_BEHIND, _SHUT)[:, None]
        up = np.ldexp(stream.child("up").normals(_shape(case)), sizes)
    elif kind == "edges":
        gate = beside(stream.child("gate"), gates(), _shape(case))
        size = np.where(gate < 0, _SHUT, 0).astype(np.int32)
        up = np.ldexp(stream.child("up").normals(_shape(case)), size)
    elif kind == "zeros":
        which = stream.child("which").below(3, _shape(case))
        gate = np.where(which != 0, _bits(stream.child("gate"), _ZEROS, case), gate)
        up = np.where(which != 1, _bits(stream.child("up"), _ZEROS, case), up)
    return {"gate": gate, "up": up}


def _capped(case: ElementCase, stream: Stream, kind: str) -> dict[str, np.ndarray]:
    cap = np.float32(case.cap)
    if kind == "ladder":
        return {"x": _laddered(stream, case)}
    if kind == "edges":
        with np.errstate(over="ignore"):
            return {"x": beside(stream, values() * case.cap, _shape(case))}
    return {"x": np.minimum(cap, np.float32(2.0**120)) * stream.normals(_shape(case))}


def _added(case: ElementCase, stream: Stream, kind: str) -> dict[str, np.ndarray]:
    a, b = _sized(stream.child("a"), case), _sized(stream.child("b"), case)
    if kind == "cancelling":
        steps = stream.child("steps").below(7, _shape(case)) - 3
        b = -(np.ascontiguousarray(a, np.float32).view(np.int32) + steps.astype(np.int32)).view(np.float32)
    elif kind == "ends":
        large = np.concatenate([_LARGE, _LARGE ^ np.uint32(_SIGN)])
        known = np.concatenate([_ZEROS, _HALVES, _HALVES ^ np.uint32(_SIGN), large])
        # Of two zeros, of two large numbers, or of any: each pair comes in every place of a thread's four.
        turn = stream.child("turn").below(3, _shape(case))
        a, b = (
            np.choose(turn, [_bits(stream.child(name, i), some, case) for i, some in enumerate((_ZEROS, large, known))])
            for name in ("a ends", "b ends")
        )
        rows = np.arange(case.rows)
        for x in (a, b):  # the one sum whose sign a zero that is added would take
            x[rows, rows % case.columns] = np.float32(-0.0)
    return {"a": a, "b": b}


def _broken(stream: Stream, x: np.ndarray) -> np.ndarray:
    """One element in a few is no number, but in the first of several rows, which stays whole."""
    at = stream.child("place").below(_RARE, x.shape) == 0
    at[: min(len(x) - 1, 1)] = False
    what = _BROKEN[stream.child("what").below(len(_BROKEN), x.shape)]
    return np.where(at, what, x.view(np.uint32)).astype(np.uint32).view(np.float32)
