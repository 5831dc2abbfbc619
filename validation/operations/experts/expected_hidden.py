"""Gates, ups and codes of h of a case's pairs, in every arithmetic that is asked of it: what down does not change.

Modes with one format of gate and up differ in down alone, so they share these. Nothing here keeps a case's inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validation.operations.experts import bound as bounds
from validation.operations.experts import expected, reference
from validation.operations.experts.arithmetic import Arithmetic
from validation.operations.experts.bound import Bounded
from validation.operations.experts.inputs import Inputs, decoded
from validation.operations.experts.reference import BLOCK, Codes, Weights

#: Values and bounds of some rows: float64 [2, rows, columns].
Held = np.ndarray


class Front:
    """Of one arithmetic. x: codes of all tokens; gate, up: float32 [pairs, ff]; h: their codes; fine: bool, which of
    the referenced pairs are finite up to h, in this arithmetic and in those before it; held: FP64 of their gates and
    ups with bounds; rounded: the same of the rounded model that bounds the path as a whole."""

    def __init__(self, inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetic: Arithmetic) -> None:
        count, ff = len(pairs), inputs.ff
        self._pairs, self._some, self._top, self._arithmetic = pairs, some, inputs.top, arithmetic
        self.x = arithmetic.quantise(inputs.x)
        # The rounded model of a path that has none of its own is the fused one's.
        self._rounded_x = self.x if arithmetic.whole else reference.quantise(inputs.x)
        self.gate, self.up = np.empty((count, ff), np.float32), np.empty((count, ff), np.float32)
        self._q, self._scale = np.empty((count, ff), np.int8), np.empty((count, ff // BLOCK), np.float32)
        self._lost: list[int] = []
        self.fine = np.zeros(len(some), bool)
        self._held: tuple[Held, Held] = (np.empty((2, len(some), ff)), np.empty((2, len(some), ff)))
        self._rounded = self._held if arithmetic.whole else (np.empty_like(self._held[0]), np.empty_like(self._held[0]))

    @property
    def h(self) -> Codes:
        return Codes(self._q, self._scale, sum(self._lost))

    def held(self, places: np.ndarray) -> tuple[Bounded, Bounded]:
        """Gates and ups of some referenced pairs."""
        return _bounded(self._held[0], places), _bounded(self._held[1], places)

    def rounded(self, places: np.ndarray) -> tuple[Bounded, Bounded]:
        """The same of the rounded model."""
        return _bounded(self._rounded[0], places), _bounded(self._rounded[1], places)

    def enter(
        self, own: tuple[object, object], made: tuple[Weights, Weights], places: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """The rows of one expert. own, made: its gate and up, as the arithmetic and as the formats decode them; places:
        in the pairs, all of the expert's; wanted: in the referenced ones, those that are finite in the arithmetics
        before. Returned are those of them that are finite in this one."""
        fine = np.zeros(len(places), bool)
        for part in expected.parts(np.arange(len(places))):
            at = places[part]
            gate, up, h = self._arithmetic.hidden(*own, self._tokens(self.x, self._pairs[at]))
            self.gate[at], self.up[at], self._q[at], self._scale[at] = gate, up, h.q, h.scale
            self._lost.append(h.lost)
            fine[part] = expected.finite(gate, up, h.scale)
        kept = np.asarray(wanted[fine[np.searchsorted(self._pairs[places], self._some[wanted])]])
        self.fine[kept] = True
        for part in expected.parts(kept):
            x = self._tokens(self.x, self._some[part])
            _write(self._held, part, [self._arithmetic.product(matrix, x) for matrix in own])
            if not self._arithmetic.whole:
                codes = reference.values(self._tokens(self._rounded_x, self._some[part]))
                _write(self._rounded, part, [bounds.product(matrix, codes) for matrix in made])
        return kept

    def _tokens(self, codes: Codes, pairs: np.ndarray) -> Codes:
        token = pairs // self._top
        return Codes(codes.q[token], codes.scale[token])


@dataclass(frozen=True)
class Fronts:
    """of: by arithmetic, in order; free: float64 [referenced, ff], h with nothing quantised, of those that are finite
    in the first."""

    of: tuple[Front, ...]
    free: np.ndarray


def fronts(inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetics: Sequence[Arithmetic]) -> Fronts:
    """Exact bits of `pairs`, sorted, all of them naming experts; and FP64 of `some` of them, whose tokens are finite:
    in each arithmetic of those that are finite in it and in all before it."""
    made_of = tuple(Front(inputs, pairs, some, arithmetic) for arithmetic in arithmetics)
    free = np.empty((len(some), inputs.ff))
    ids = inputs.ids.reshape(-1)
    of_some = dict(expected.by_expert(ids[some]))

    def work(expert: int, places: np.ndarray) -> None:
        gate, up, _ = inputs.parts(expert)
        made = decoded(inputs.gate_up, gate, inputs.ff), decoded(inputs.gate_up, up, inputs.ff)
        wanted = of_some.get(expert, np.zeros(0, np.int64))
        for index, front in enumerate(made_of):
            decode = arithmetics[index].decode
            own = made if decode is decoded else tuple(decode(inputs.gate_up, part, inputs.ff) for part in (gate, up))
            wanted = front.enter((own[0], own[1]), made, places, wanted)
            for part in expected.parts(wanted) if index == 0 else ():
                free[part] = reference.hidden64(*made, inputs.x[some[part] // inputs.top])

    expected.each(expected.by_expert(ids[pairs]), work)
    return Fronts(made_of, free)


def _bounded(held: Held, places: np.ndarray) -> Bounded:
    return Bounded(*held[:, places])


def _write(held: tuple[Held, Held], places: np.ndarray, due: Sequence[Bounded]) -> None:
    for into, one in zip(held, due, strict=True):
        into[0, places], into[1, places] = one.value, one.bound
