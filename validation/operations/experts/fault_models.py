"""Faults that expert kernels are known to have had, as mutations of the exact-bit model: what each computes instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from strata.formats import FORMATS
from validation.numerics.fma import Array
from validation.operations.experts import reference as exact
from validation.operations.experts import reference_decode as decode
from validation.operations.experts.inputs import Matrices, decoded
from validation.operations.experts.reference import BLOCK, LARGEST, Codes, Rows, Weights, swiglu
from validation.operations.experts.reference_mmq import round_away

#: Bytes of a matrix [rows, blocks, bytes] to those that the faulty decoder sees.
Edit = Callable[[Array], Array]


@dataclass(frozen=True)
class Machine:
    """The model's parts, any of which a mutation replaces. decode: format, bytes [rows, blocks, size] to weights."""

    decode: Callable[[str, Array], Weights] = field(default=lambda form, blocks: _plain(form, blocks))
    arrange: Callable[[Matrices], Matrices] = field(default=lambda made: made)
    quantise_x: Callable[[Array], Codes] = exact.quantise
    quantise_h: Callable[[Array], Codes] = exact.quantise
    product: Callable[[Weights, Codes], Array] = exact.product

    def run(self, forms: tuple[str, str], parts: tuple[Array, Array, Array], n: int, ff: int, x: Array) -> Rows:
        """Rows of one expert. forms: gate and up, down; parts: bytes of gate, up and down; x: float32 [tokens, n]."""
        gate_up, down = forms
        rows = ((gate_up, parts[0], ff), (gate_up, parts[1], ff), (down, parts[2], n))
        made = [self.decode(form, data.reshape(count, -1, FORMATS[form].nbytes)) for form, data, count in rows]
        gate, up, low = self.arrange(Matrices(*made))
        codes = self.quantise_x(x)
        g, u = self.product(gate, codes), self.product(up, codes)
        h = self.quantise_h(swiglu(g, u))
        return Rows(g, u, h, self.product(low, h))


def _plain(form: str, blocks: Array) -> Weights:
    return decoded(form, blocks, len(blocks))


def _bytes(form: str, edit: Edit) -> Machine:
    """The decoder of one format sees other bytes."""

    def seen(name: str, blocks: Array) -> Weights:
        return _plain(name, edit(blocks.copy()) if name == form else blocks)

    return Machine(decode=seen)


def _weights(form: str, edit: Callable[[Weights, Array], Weights]) -> Machine:
    """The decoder of one format gives other weights."""

    def seen(name: str, blocks: Array) -> Weights:
        made = _plain(name, blocks)
        return edit(made, blocks) if name == form else made

    return Machine(decode=seen)


def _no_parity(w: Weights, blocks: Array) -> Weights:
    """The eighth sign of every eight values, which is the parity of the other seven, read as 0."""
    q = w.q.copy()
    q[:, 7::8] = np.abs(q[:, 7::8])
    return replace(w, q=q)


def _no_odd(w: Weights, blocks: Array) -> Weights:
    """d 2 s / 4 in place of d (2 s + 1) / 4."""
    level = (blocks[..., 69:98:4].reshape(len(blocks), -1) >> 4).astype(np.float32)
    return replace(w, scale=w.scale / (2 * level + 1) * (2 * level))


def _zero(at: slice) -> Edit:
    def edit(blocks: Array) -> Array:
        blocks[..., at] = 0
        return blocks

    return edit


def _swap_nibbles(at: slice) -> Edit:
    def edit(blocks: Array) -> Array:
        blocks[..., at] = blocks[..., at] << 4 | blocks[..., at] >> 4
        return blocks

    return edit


def _interleave(w: Weights, blocks: Array) -> Weights:
    """Value j from nibble j of the bytes in order, low first, in place of low nibbles, then high ones."""
    halves = w.q.reshape(len(w.q), -1, 2, BLOCK // 2)
    return replace(w, q=np.ascontiguousarray(halves.swapaxes(2, 3)).reshape(w.q.shape))


def _level_off(w: Weights, blocks: Array) -> Weights:
    """89 of the sixteen levels read as 90."""
    return replace(w, q=np.where(w.q == 89, np.int8(90), w.q).astype(np.int8))


def _neighbour(made: Matrices) -> Matrices:
    """One gate row taken from the one before it."""
    gate = Weights(made.gate.q.copy(), made.gate.scale.copy())
    row = len(gate.q) // 2
    gate.q[row], gate.scale[row] = gate.q[row - 1], gate.scale[row - 1]
    return made._replace(gate=gate)


def _negated(made: Matrices) -> Matrices:
    """32 values of one gate row with the other sign."""
    gate = Weights(made.gate.q.copy(), made.gate.scale)
    row, first = len(gate.q) // 3, gate.q.shape[1] // 2
    gate.q[row, first : first + BLOCK] *= -1
    return made._replace(gate=gate)


def _without_last(w: Weights, x: Codes) -> Array:
    """The last 32 of K left out."""
    scales = w.per_block
    return exact.product(Weights(w.q[:, :-BLOCK], w.scale[:, :-scales]), Codes(x.q[:, :-BLOCK], x.scale[:, :-1]))


def coarse(width: int) -> Callable[[Array], Codes]:
    """Quantising with one scale for `width` values; rows that are no multiple of it keep the rest of 32."""

    def quantise(x: Array) -> Codes:
        usual = exact.quantise(x)
        whole = x.shape[1] // width * width
        blocks = x[:, :whole].reshape(len(x), -1, width)
        amax = np.abs(blocks).max(axis=-1)
        inverse = np.float32(LARGEST) / np.where(amax > 0, amax, np.float32(1))
        q, scale = usual.q.copy(), usual.scale.copy()
        q[:, :whole] = np.rint(blocks * inverse[..., None]).astype(np.int8).reshape(len(x), -1)
        scale[:, : whole // BLOCK] = np.repeat(amax / np.float32(LARGEST), width // BLOCK, axis=1)
        return Codes(q, scale)

    return quantise


def away(x: Array) -> Codes:
    """Ties away from zero."""
    blocks = x.reshape(len(x), -1, BLOCK)
    amax = np.abs(blocks).max(axis=-1)
    inverse = np.where(amax > 0, np.float32(LARGEST) / np.where(amax > 0, amax, np.float32(1)), np.float32(0))
    codes = round_away(blocks * inverse[..., None])
    return Codes(codes.astype(np.int8).reshape(x.shape), amax / np.float32(LARGEST))


def half_scales(x: Array) -> Codes:
    """Scales of activations rounded to FP16."""
    usual = exact.quantise(x)
    return replace(usual, scale=usual.scale.astype(np.float16).astype(np.float32))


class Truncating(Machine):
    """The decode-width arithmetic: integer scales with a truncating division, FP16 scales of activations."""

    def run(self, forms: tuple[str, str], parts: tuple[Array, Array, Array], n: int, ff: int, x: Array) -> Rows:
        sides = zip((forms[0], forms[0], forms[1]), parts, (ff, ff, n), strict=True)
        gate, up, down = (decode.matrix(*side) for side in sides)
        return decode.expert(gate, up, down, decode.quantise(x))


@dataclass(frozen=True)
class Mutation:
    """One row of the table. form: the format of gate and up, or of down, that it needs, "" for any; legal: whether a
    kernel may do it where a tie is proven."""

    name: str
    machine: Machine
    form: str = ""
    legal: bool = False


MUTATIONS: Mapping[str, Mutation] = {
    row.name: row
    for row in (
        Mutation("parity bit of the signs read as 0", _weights("iq3_xxs", _no_parity), "iq3_xxs"),
        Mutation("lost + 1 in the scale", _weights("iq3_xxs", _no_odd), "iq3_xxs"),
        Mutation("high bits of the index ignored", _bytes("iq3_s", _zero(slice(66, 74))), "iq3_s"),
        Mutation("nibbles of the scales swapped", _bytes("iq3_s", _swap_nibbles(slice(106, 110))), "iq3_s"),
        Mutation("high bits of the scales constant", _bytes("iq4_xs", _zero(slice(2, 4))), "iq4_xs"),
        Mutation("gate and up swapped", Machine(arrange=lambda made: Matrices(made.up, made.gate, made.down))),
        Mutation("nibbles interleaved", _weights("iq4_nl", _interleave), "iq4_nl"),
        Mutation("last 32 of K dropped", Machine(product=_without_last)),
        Mutation("one gate row taken from its neighbour", Machine(arrange=_neighbour)),
        Mutation("one block of one gate row negated", Machine(arrange=_negated)),
        Mutation("one level off by 1", _weights("iq4_nl", _level_off), "iq4_nl"),
        Mutation("h with a scale for 64", Machine(quantise_h=coarse(64))),
        Mutation("x with a scale for 64", Machine(quantise_x=coarse(64))),
        Mutation("x with a scale for 256", Machine(quantise_x=coarse(256))),
        Mutation("scales of activations in FP16", Machine(quantise_x=half_scales, quantise_h=half_scales)),
        Mutation("truncating integer scales, FP16 scales", Truncating()),
        Mutation("ties of h away from zero", Machine(quantise_h=away), legal=True),
        Mutation("ties of x away from zero", Machine(quantise_x=away), legal=True),
    )
}
