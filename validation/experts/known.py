"""What a case's pairs must come to, in every arithmetic that is asked of it: each expert is decoded once.

Decoding an expert and widening it to FP64 takes longer than what most of them compute, so everything that needs its
weights is done while they are at hand: exact bits, FP64 on the same codes, and FP64 with nothing quantised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validation.bounds import experts as bounds
from validation.bounds.experts import Bounded
from validation.experts import expected
from validation.experts.arithmetic import Arithmetic, Three
from validation.experts.expected import Bits, Model, Steps
from validation.experts.inputs import Inputs, Matrices
from validation.reference import experts as reference
from validation.reference.experts import Codes, Rows


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


class _Book:
    """Where the results of one arithmetic are written, expert by expert."""

    def __init__(self, inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetic: Arithmetic) -> None:
        self._inputs, self._pairs, self._some, self._arithmetic = inputs, pairs, some, arithmetic
        self._codes = arithmetic.quantise(inputs.x)
        # The rounded model of a path that has none of its own is the fused one's.
        self._rounded = self._codes if arithmetic.whole else reference.quantise(inputs.x)
        self._bits = expected.Sheet(inputs, len(pairs))
        widths = {"gate": inputs.ff, "up": inputs.ff, "down": inputs.n, "rounded": inputs.n}
        self._held = {name: np.empty((2, len(some), width)) for name, width in widths.items()}  # values and bounds
        self._free = np.empty((len(some), inputs.n))
        self._fine = np.zeros(len(some), bool)

    def enter(self, expert: int, made: Matrices, places: np.ndarray, wanted: np.ndarray, free: _Free) -> np.ndarray:
        """The rows of one expert. places: in `pairs`, all of the expert's; wanted: in `some`, those of which FP64 is
        asked; returned are those of them whose every step is finite."""
        own = self._arithmetic.matrices(self._inputs, expert, made)
        fine = np.zeros(len(places), bool)
        for part in expected.parts(np.arange(len(places))):
            rows = self._arithmetic.expert(*own, self._tokens(self._codes, self._pairs[places[part]]))
            self._bits.write(places[part], rows)
            fine[part] = finite(rows)
        kept = np.asarray(wanted[fine[np.searchsorted(self._pairs[places], self._some[wanted])]])
        for part in expected.parts(kept):
            self._refer(made, own, part, free)
        return kept

    def _tokens(self, codes: Codes, pairs: np.ndarray) -> Codes:
        token = pairs // self._inputs.top
        return Codes(codes.q[token], codes.scale[token])

    def _refer(self, made: Matrices, own: Three, places: np.ndarray, free: _Free) -> None:
        """FP64 of some rows of an expert. places: in `some`."""
        pairs, product = self._some[places], self._arithmetic.product
        x = self._tokens(self._codes, pairs)
        gate, up = product(own[0], x), product(own[1], x)
        down = product(own[2], self._bits.codes(np.searchsorted(self._pairs, pairs)))
        if self._arithmetic.whole:
            rounded = bounds.rest(gate, up, made.down)
        else:
            rounded = bounds.path(*made, reference.values(self._tokens(self._rounded, pairs)))
        for name, due in (("gate", gate), ("up", up), ("down", down), ("rounded", rounded)):
            self._held[name][0][places], self._held[name][1][places] = due.value, due.bound
        self._free[places], self._fine[places] = free(made, pairs), True

    def known(self) -> Known:
        """What was written."""
        fine = self._fine
        whole = fine.all()
        held = {name: Bounded(*(both if whole else both[:, fine])) for name, both in self._held.items()}
        model = None
        if fine.any():
            model = Model(self._some[fine], held["rounded"], self._free if whole else self._free[fine])
        bits = self._bits.bits(self._pairs, self._codes.lost)
        return Known(self._inputs, self._arithmetic, bits, model, held["gate"], held["up"], held["down"])


class _Free:
    """FP64 of one expert with nothing quantised: the same in every arithmetic, and made once for the same pairs."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._made: dict[bytes, np.ndarray] = {}

    def __call__(self, made: Matrices, pairs: np.ndarray) -> np.ndarray:
        key = pairs.tobytes()
        if key not in self._made:
            self._made[key] = reference.unrounded(*made, self._inputs.x[pairs // self._inputs.top])
        return self._made[key]


def finite(rows: Rows) -> np.ndarray:
    """bool [rows]: whether every step is finite in float32, so that FP64 and its bounds say something of it."""
    floats = (rows.out, rows.gate, rows.up, rows.h.scale)
    return np.asarray(np.logical_and.reduce([np.isfinite(x).all(axis=1) for x in floats]))


def known(inputs: Inputs, pairs: np.ndarray, some: np.ndarray, arithmetics: Sequence[Arithmetic]) -> tuple[Known, ...]:
    """Exact bits of `pairs`, sorted, all of them naming experts; and FP64 of `some` of them, whose tokens are finite:
    in each arithmetic of those that are finite in it and in all before it."""
    books = [_Book(inputs, pairs, some, arithmetic) for arithmetic in arithmetics]
    ids = inputs.ids.reshape(-1)
    of_some = dict(expected.by_expert(ids[some]))

    def work(expert: int, places: np.ndarray) -> None:
        made, free = inputs.matrices(expert), _Free(inputs)
        wanted = of_some.get(expert, np.zeros(0, np.int64))
        for book in books:
            wanted = book.enter(expert, made, places, wanted, free)

    expected.each(expected.by_expert(ids[pairs]), work)
    return tuple(book.known() for book in books)
