"""Experts' bytes: `[gate | up | down]` rows of blocks, with scales chosen by a recipe and all else random.

Random bytes are valid blocks of every format here: each index is in the range of its codebook. Only the FP16 scale at
the beginning of a block has to be set.
"""

from __future__ import annotations

import numpy as np

from strata.formats import FORMATS
from validation.core.random_streams import Stream, power_of_two
from validation.operations.experts.golden import blocks as golden_blocks
from validation.operations.experts.recipes import Weights

#: Exponent of the smallest scale of PLAIN: weights then have a size of about 2**-5, and outputs of about 1.
PLAIN = {"iq3_s": -12, "iq4_xs": -15, "iq4_nl": -13, "q2_0": -8}
_OTHERS = -11
#: DECADES: exponents below and above that of PLAIN.
_DECADES = (-6, 4)
#: Experts differ by this many powers of two in turn.
_SHIFTS = 5
_SCALE_BYTES = 2
_MANTISSA = 1 << 10
_LARGEST_SUBNORMAL = _MANTISSA - 1
#: LADDER: exponents of the smallest subnormal and of the largest.
LADDER = (-24, 15)
#: EXTREMES: FP16 bits; zeros of both signs, subnormals, the smallest normal, ordinary ones, the largest.
EXTREMES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x2E66, 0x7BFF, 0xFBFF)


def row_bytes(form: str, k: int) -> int:
    return FORMATS[form].row_bytes(k)


def blob_bytes(gate_up: str, down: str, n: int, ff: int) -> int:
    """Bytes of one expert."""
    return 2 * ff * row_bytes(gate_up, n) + n * row_bytes(down, ff)


def blob(stream: Stream, kind: Weights, expert: int, gate_up: str, down: str, n: int, ff: int) -> np.ndarray:
    """uint8 [blob_bytes]: one expert. stream: that of the case's weights."""
    own = stream.child(expert)
    halves = [
        _matrix(own.child(name), kind, expert, form, rows * FORMATS[form].row_bytes(k) // FORMATS[form].nbytes, stacked)
        for name, form, rows, k, stacked in (("gate_up", gate_up, 2 * ff, n, True), ("down", down, n, ff, False))
    ]
    return np.concatenate(halves)


def _matrix(stream: Stream, kind: Weights, expert: int, form: str, count: int, stacked: bool = False) -> np.ndarray:
    """uint8 [count * bytes of a block]: blocks of a format. stacked: of gate and then of up."""
    made = FORMATS[form]
    if kind is Weights.GOLDEN:
        known = golden_blocks(form)
        return np.ascontiguousarray(known[stream.child("which").below(len(known), count)]).reshape(-1)
    data = stream.child("bytes").octets((count, made.nbytes))
    data[:, :_SCALE_BYTES] = (
        _scales(stream.child("scale"), kind, expert, form, count, stacked).astype("<u2").view(np.uint8).reshape(-1, 2)
    )
    return data.reshape(-1)


def _scales(stream: Stream, kind: Weights, expert: int, form: str, count: int, stacked: bool = False) -> np.ndarray:
    """uint16 [count]: FP16 bits."""
    base = PLAIN.get(form, _OTHERS)
    mantissa = _MANTISSA + stream.child("mantissa").below(_MANTISSA, count)
    if kind is Weights.PLAIN:
        return _halves(mantissa, base + stream.child("exponent").below(3, count))
    sign = stream.child("sign").below(2, count).astype(np.uint16) << np.uint16(15)
    if kind is Weights.EXTREMES:
        # Ordinary scales among the special ones: else every output is decided by the largest alone.
        special = np.array(EXTREMES, np.uint16)[stream.child("which").below(len(EXTREMES), count)]
        plain = _halves(mantissa, base + stream.child("exponent").below(3, count)) ^ sign
        return np.asarray(np.where(stream.child("kind").below(2, count) == 0, special, plain))
    if kind is Weights.FAINT:
        return (1 + stream.child("faint").below(_LARGEST_SUBNORMAL, count)).astype(np.uint16) ^ sign
    if kind is Weights.LADDER:
        return np.asarray(_halves(mantissa, _ladder(count, stacked)) ^ sign)
    low, high = _DECADES
    exponent = base + low + expert % _SHIFTS + stream.child("exponent").below(high - low + 1, count)
    flip = np.uint16((expert // _SHIFTS % 2) << 15)
    return np.asarray(_halves(mantissa, exponent) ^ sign ^ flip)


def _ladder(count: int, stacked: bool) -> np.ndarray:
    """int64 [count]: exponents over the whole range of FP16, rising from block to block; of two stacked matrices the
    second one's fall."""
    low, high = LADDER
    half = count // 2 if stacked else count
    rises = low + np.arange(half) * (high - low) // max(half - 1, 1)
    return np.concatenate([rises, rises[::-1]]) if stacked else rises


def _halves(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """uint16: bits of mantissa / 2**10 * 2**exponent, mantissa in 2**10..2**11-1; rounded once where subnormal."""
    powers = np.array([power_of_two(int(e)) for e in range(-40, 16)])
    return np.asarray((mantissa / _MANTISSA * powers[exponent + 40]).astype(np.float16).view(np.uint16))
