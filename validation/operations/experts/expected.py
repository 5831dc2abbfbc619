"""What a case's pairs must come to: exact bits, and FP64 with its bounds, expert by expert."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from strata.cpus import usable
from validation.operations.experts import bound as bounds
from validation.operations.experts import reference
from validation.operations.experts.arithmetic import Arithmetic
from validation.operations.experts.bound import Allowed, Bounded
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import BLOCK, Codes

#: Pairs of one expert that are computed together: the FP64 sums of a block for these fit the caches.
_TOGETHER = 128
#: Threads at most: each holds an expert in FP64, about 100 MB at the model's size.
_MOST_THREADS = 8


@dataclass(frozen=True)
class Bits:
    """Exact bits of some pairs. pairs: int64 [p], `token * top + rank`, all of them naming experts; gate, up: float32
    [p, ff]; h: their codes; out: float32 [p, n]; lost_x: blocks of all tokens that are not finite; lost_h: of h, of
    these pairs."""

    pairs: np.ndarray
    gate: np.ndarray
    up: np.ndarray
    h: Codes
    out: np.ndarray
    lost_x: int


@dataclass(frozen=True)
class Model:
    """FP64 of some pairs, float64 [p, n] each. rounded: x and h in int8, with how far the path may be from it;
    unrounded: nothing quantised."""

    pairs: np.ndarray
    rounded: Bounded
    unrounded: np.ndarray


def by_expert(named: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Experts, and the places of those in `named` that are theirs, in order."""
    order = np.argsort(named, kind="stable")
    experts, first = np.unique(named[order], return_index=True)
    return list(zip(experts.tolist(), np.split(order, first[1:]), strict=True)) if len(named) else []


def parts(places: np.ndarray) -> Iterator[np.ndarray]:
    """At most _TOGETHER at once."""
    for first in range(0, len(places), _TOGETHER):
        yield places[first : first + _TOGETHER]


def groups(inputs: Inputs, pairs: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Experts and the places in `pairs` of those that name them, at most _TOGETHER at once."""
    named = inputs.ids.reshape(-1)[pairs]
    return [(expert, part) for expert, own in by_expert(named) for part in parts(own)]


def each(todo: Sequence[tuple[int, np.ndarray]], work: Callable[[int, np.ndarray], None]) -> None:
    """Call work(expert, places) for all of them; on several cores where there is much to do."""
    threads = min(usable(), _MOST_THREADS, len(todo))
    if threads <= 1:
        for one in todo:
            work(*one)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda one: work(*one), todo))  # raises what one of them raises


def finite(*rows: np.ndarray) -> np.ndarray:
    """bool [rows]: whether all are finite in every array, so that FP64 and its bounds say something of them."""
    return np.asarray(np.logical_and.reduce([np.isfinite(x).all(axis=1) for x in rows]))


def bits(inputs: Inputs, pairs: np.ndarray, arithmetic: Arithmetic) -> Bits:
    """The exact bits of `pairs`."""
    count, n, ff = len(pairs), inputs.n, inputs.ff
    codes = arithmetic.quantise(inputs.x)
    gate, up = np.empty((count, ff), np.float32), np.empty((count, ff), np.float32)
    out = np.empty((count, n), np.float32)
    q, scale = np.empty((count, ff), np.int8), np.empty((count, ff // BLOCK), np.float32)
    lost: list[int] = []

    def work(expert: int, places: np.ndarray) -> None:
        token = pairs[places] // inputs.top
        gate_rows, up_rows, down_rows = arithmetic.matrices(inputs, expert)
        g, u, h = arithmetic.hidden(gate_rows, up_rows, Codes(codes.q[token], codes.scale[token]))
        gate[places], up[places], out[places] = g, u, arithmetic.multiply(down_rows, h)
        q[places], scale[places] = h.q, h.scale
        lost.append(h.lost)

    each(groups(inputs, pairs), work)
    return Bits(pairs, gate, up, Codes(q, scale, sum(lost)), out, codes.lost)


def model(inputs: Inputs, pairs: np.ndarray, arithmetic: Arithmetic) -> Model:
    """FP64 of `pairs`, whose tokens must be finite. Of a path that has no rounded model, that of the fused one."""
    codes = arithmetic.quantise(inputs.x) if arithmetic.whole else reference.quantise(inputs.x)
    shape = (len(pairs), inputs.n)
    value, bound, free = np.empty(shape), np.empty(shape), np.empty(shape)

    def work(expert: int, places: np.ndarray) -> None:
        token = pairs[places] // inputs.top
        made = inputs.matrices(expert)
        whole = bounds.path(*made, reference.values(Codes(codes.q[token], codes.scale[token])))
        value[places], bound[places] = whole.value, whole.bound
        free[places] = reference.unrounded(*made, inputs.x[token])

    each(groups(inputs, pairs), work)
    return Model(pairs, Bounded(value, bound), free)


@dataclass(frozen=True)
class Steps:
    """What a kernel's own intermediate results are held against, of some pairs. gate, up, down: FP64 with bounds, down
    from the kernel's own codes; h: what its codes may be, from its own gates and ups."""

    pairs: np.ndarray
    gate: Bounded
    up: Bounded
    h: Allowed
    down: Bounded


def steps(
    inputs: Inputs, pairs: np.ndarray, gate: np.ndarray, up: np.ndarray, h: Codes, arithmetic: Arithmetic
) -> Steps:
    """gate, up: float32 [p, ff] and h: codes, what the kernel says of these pairs; their tokens finite."""
    codes = arithmetic.quantise(inputs.x)
    widths = {"gate": inputs.ff, "up": inputs.ff, "down": inputs.n}
    sides = {name: (np.empty((len(pairs), width)), np.empty((len(pairs), width))) for name, width in widths.items()}

    def work(expert: int, places: np.ndarray) -> None:
        token = pairs[places] // inputs.top
        gate_rows, up_rows, down_rows = arithmetic.matrices(inputs, expert)
        x = Codes(codes.q[token], codes.scale[token])
        own = Codes(h.q[places], h.scale[places])
        for name, matrix, of in (("gate", gate_rows, x), ("up", up_rows, x), ("down", down_rows, own)):
            held = arithmetic.product(matrix, of)
            sides[name][0][places], sides[name][1][places] = held.value, held.bound

    each(groups(inputs, pairs), work)
    allowed = arithmetic.codes(bounds.swiglu(gate.astype(np.float64), up.astype(np.float64)))
    return Steps(pairs, Bounded(*sides["gate"]), Bounded(*sides["up"]), allowed, Bounded(*sides["down"]))
