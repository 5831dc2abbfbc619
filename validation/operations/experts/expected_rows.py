"""What a case's pairs must come to, in every arithmetic that is asked of it: each expert is decoded once.

Decoding an expert and widening it to FP64 takes longer than what most of them compute, so everything that needs its
weights is done while they are at hand: exact bits, FP64 on the same codes, and FP64 with nothing quantised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validation.operations.experts import bound as bounds
from validation.operations.experts import expected, reference
from validation.operations.experts.arithmetic import Arithmetic
from validation.operations.experts.bound import Bounded
from validation.operations.experts.expected import Bits, Model, Steps
from validation.operations.experts.expected_hidden import Front, Fronts
from validation.operations.experts.inputs import Inputs, decoded
from validation.operations.experts.reference import Codes


@dataclass(frozen=True)
class Known:
    """bits: of all pairs asked for; model: of those that are referenced, whose every step is finite, None where there
    are none; gate, up, down: what their products are held against, down from the codes of `bits`."""

    inputs: Inputs
    arithmetic: Arithmetic
    bits: Bits
    model: Model | None
    gate: Bounded
    up: Bounded
    down: Bounded

    @property
    def referenced(self) -> np.ndarray:
        """int64: the pairs of `model`, sorted."""
        return np.zeros(0, np.int64) if self.model is None else self.model.pairs

    def steps(self, gate: np.ndarray, up: np.ndarray, h: Codes) -> Steps:
        """What a kernel's own results for the referenced pairs are held against, as `expected.steps`. Where its codes
        are those of `bits`, so is the product with them."""
        pairs, own = self.referenced, self.bits.h
        places = np.searchsorted(self.bits.pairs, pairs)
        same = np.array_equal(h.q, own.q[places])
        if not same or not np.array_equal(h.scale.view(np.uint32), own.scale[places].view(np.uint32)):
            return expected.steps(self.inputs, pairs, gate, up, h, self.arithmetic)
        allowed = self.arithmetic.codes(bounds.swiglu(gate.astype(np.float64), up.astype(np.float64)))
        return Steps(pairs, self.gate, self.up, allowed, self.down)


class _Back:
    """The rows of one arithmetic, written expert by expert."""

    def __init__(
        self, inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetic: Arithmetic, front: Front
    ) -> None:
        self._inputs, self._pairs, self._some, self._arithmetic, self._front = inputs, pairs, some, arithmetic, front
        self._h = front.h
        self._out = np.empty((len(pairs), inputs.n), np.float32)
        self._down, self._rounded = np.empty((2, len(some), inputs.n)), np.empty((2, len(some), inputs.n))
        self._fine = np.zeros(len(some), bool)

    def enter(self, own: object, made: reference.Weights, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The rows of one expert, as of `Front.enter`; wanted: those that are finite in the arithmetics before."""
        for part in expected.parts(places):
            self._out[part] = self._arithmetic.multiply(own, self._codes(part))
        of_pair = np.searchsorted(self._pairs, self._some[wanted])
        kept = np.asarray(wanted[self._front.fine[wanted] & np.isfinite(self._out[of_pair]).all(axis=1)])
        self._fine[kept] = True
        for part in expected.parts(kept):
            down = self._arithmetic.product(own, self._codes(np.searchsorted(self._pairs, self._some[part])))
            rounded = bounds.rest(*self._front.rounded(part), made)
            for into, due in ((self._down, down), (self._rounded, rounded)):
                into[0, part], into[1, part] = due.value, due.bound
        return kept

    def _codes(self, places: np.ndarray) -> Codes:
        return Codes(self._h.q[places], self._h.scale[places])

    def known(self, free: np.ndarray) -> Known:
        """What was written. free: rows of the referenced pairs with nothing quantised."""
        fine, front = np.flatnonzero(self._fine), self._front
        bits = Bits(self._pairs, front.gate, front.up, self._h, self._out, front.x.lost)
        model = Model(self._some[fine], Bounded(*self._rounded[:, fine]), free[fine]) if len(fine) else None
        gate, up = front.held(fine)
        return Known(self._inputs, self._arithmetic, bits, model, gate, up, Bounded(*self._down[:, fine]))


def known(
    inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetics: Sequence[Arithmetic], fronts: Fronts
) -> tuple[Known, ...]:
    """All of `pairs` and `some` that `fronts` began."""
    backs = [_Back(inputs, pairs, some, *both) for both in zip(arithmetics, fronts.of, strict=True)]
    free = np.empty((len(some), inputs.n))
    ids = inputs.ids.reshape(-1)
    of_some = dict(expected.by_expert(ids[some]))

    def work(expert: int, places: np.ndarray) -> None:
        data = inputs.parts(expert)[2]
        made = decoded(inputs.down, data, inputs.n)
        wanted = of_some.get(expert, np.zeros(0, np.int64))
        for index, back in enumerate(backs):
            decode = arithmetics[index].decode
            wanted = back.enter(
                made if decode is decoded else decode(inputs.down, data, inputs.n), made, places, wanted
            )
            for part in expected.parts(wanted) if index == 0 else ():
                free[part] = reference.product64(made, fronts.free[part])

    expected.each(expected.by_expert(ids[pairs]), work)
    return tuple(back.known(free) for back in backs)
