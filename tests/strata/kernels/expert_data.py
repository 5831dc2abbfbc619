"""Small inputs of the older expert kernels, and how a run of one is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.formats import FORMATS
from strata.kernels.experts import Experts, Geometry, PlacedExperts, Routed, formats_of, place
from validation.core.random_streams import Stream
from validation.numerics.fma import NAN
from validation.operations.experts.reference import Codes, Rows

#: The smallest geometry with a K that is no whole number of steps, and weight rows of several tiles.
GEOMETRY = Geometry(512, 192)
#: Exponents of block scales: several decades, so that a wrong one shows.
_EXPONENTS = (-12, -6)


@dataclass(frozen=True, eq=False)
class Data:
    """experts: on the host; x: float32 [tokens, n]; ids: int32 [tokens, top]."""

    experts: Experts
    x: np.ndarray
    ids: np.ndarray

    def matrix(self, expert: int, name: str) -> np.ndarray:
        """uint8: the bytes of `gate`, `up` or `down` of an expert."""
        layout, blob = self.experts.layout, self.experts.blobs[expert]
        cuts = {"gate": (0, layout.up), "up": (layout.up, layout.down), "down": (layout.down, layout.nbytes)}
        return blob[slice(*cuts[name])]


def weights(stream: Stream, form: str, rows: int, k: int) -> np.ndarray:
    """uint8: random blocks whose binary16 d has either sign and a size of its own."""
    made = FORMATS[form]
    blocks = stream.child("bytes").octets((rows * k // made.values, made.nbytes))
    low, high = _EXPONENTS
    exponent = stream.child("exponent").below(high - low + 1, len(blocks)) + low + 15
    mantissa = stream.child("mantissa").below(1 << 10, len(blocks))
    sign = stream.child("sign").below(2, len(blocks))
    blocks[:, :2] = (sign << 15 | exponent << 10 | mantissa).astype("<u2").view(np.uint8).reshape(-1, 2)
    return blocks.reshape(-1)


def draw(
    mode: str, seed: int, tokens: int, count: int, top: int, geometry: Geometry = GEOMETRY, exponent: int = 0
) -> Data:
    """Experts at even addresses, each with bytes of its own; tokens with values of several sizes; ids at random, the
    same expert several times in a token among them."""
    stream = Stream.of(seed, "experts", mode)
    gate_up, down = formats_of(mode)
    n, ff = geometry.n, geometry.ff

    def blob(expert: int) -> np.ndarray:
        own = stream.child(expert)
        first = weights(own.child("gate up"), gate_up, 2 * ff, n)
        return np.concatenate([first, weights(own.child("down"), down, n, ff)])

    offsets = [256 * (e % 3) + 2 * (e % 5) for e in range(count)]
    experts = Experts(gate_up, down, geometry, [blob(e) for e in range(count)], offsets)
    size = stream.child("size").below(6, (tokens, n // 32)) + exponent - 3
    x = np.ldexp(stream.child("x").normals((tokens, n)), np.repeat(size, 32, axis=1).astype(np.int32))
    return Data(experts, x, stream.child("ids").below(count, (tokens, top)).astype(np.int32))


def expected(
    data: Data,
    decode: Callable[[str, np.ndarray, int], Any],
    quantise: Callable[[np.ndarray], Codes],
    expert: Callable[[Any, Any, Any, Codes], Rows],
) -> Rows:
    """The bits of every pair, [tokens * top, ..], by a reference."""
    geometry, flat, top = data.experts.geometry, data.ids.reshape(-1), data.ids.shape[1]
    codes = quantise(data.x)
    n, ff = geometry.n, geometry.ff
    made = Rows(
        np.empty((len(flat), ff), np.float32),
        np.empty((len(flat), ff), np.float32),
        Codes(np.empty((len(flat), ff), np.int8), np.empty((len(flat), ff // 32), np.float32)),
        np.empty((len(flat), n), np.float32),
    )
    for e in np.unique(flat).tolist():
        here = np.flatnonzero(flat == e)
        gate_up, down = data.experts.gate_up, data.experts.down
        got = expert(
            decode(gate_up, data.matrix(e, "gate"), ff),
            decode(gate_up, data.matrix(e, "up"), ff),
            decode(down, data.matrix(e, "down"), n),
            Codes(codes.q[here // top], codes.scale[here // top]),
        )
        made.gate[here], made.up[here], made.out[here] = got.gate, got.up, got.out
        made.h.q[here], made.h.scale[here] = got.h.q, got.h.scale
    return made


def bits(x: np.ndarray) -> np.ndarray:
    """uint32 of float32, every NaN as 7fffffff."""
    return np.where(np.isnan(x), NAN, np.ascontiguousarray(x).view(np.uint32))


def assert_bits(got: Routed, want: Rows) -> None:
    """Every bit of gate, up, h and the rows, and no guard touched."""
    assert got.guards_ok
    assert got.gate is not None
    assert got.up is not None
    assert got.h_codes is not None
    assert got.h_scales is not None
    for name, one, two in (
        ("gate", got.gate, want.gate),
        ("up", got.up, want.up),
        ("scales of h", got.h_scales, want.h.scale),
        ("rows", got.rows, want.out),
    ):
        assert np.array_equal(bits(one).reshape(two.shape), bits(two)), name
    assert np.array_equal(got.h_codes.reshape(want.h.q.shape), want.h.q)


def placed(executor: Executor, data: Data) -> PlacedExperts:
    return place(executor, data.experts)
