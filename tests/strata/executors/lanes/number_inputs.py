"""Inputs of `numbers.cu` and what NumPy makes of them; a computed NaN has the device's bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Executor
from tests.strata.executors.lanes.sources import kernel
from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2, fma32

Array = np.ndarray[Any, Any]
KERNEL = kernel("numbers")
WHAT = (
    "half_value", "half_bits", "half_pair", "half_sub", "exp2", "select", "fma", "add", "multiply", "divide",
    "to_int", "to_int_nearest", "from_int", "square_root", "bit_counts",
)  # fmt: skip
_NAN, _HALF_NAN = np.uint32(0x7FFFFFFF), np.uint16(0x7FFF)


def evaluate(executor: Executor, what: str, x: Array, y: Array | None = None, z: Array | None = None) -> Array:
    """uint32 results of one function of `numbers.cu` on uint32 inputs of one length."""
    zeros = np.zeros_like(x)
    source = executor.array(np.stack([x, zeros if y is None else y, zeros if z is None else z]), "in")
    out = executor.empty(x.shape, np.uint32, name="out")
    executor.launch(KERNEL, (16, 1, 1), [source, out, np.int32(len(x)), np.int32(WHAT.index(what))])
    return out.host()


def random_bits(name: str, count: int) -> Array:
    return (Stream.of(1, name).words(count) >> np.uint64(13)).astype(np.uint32)


def all_halves() -> Array:
    return np.arange(65536, dtype=np.uint32)


def around_halves() -> Array:
    """float32 bits: every half, the middle between neighbours, and their float neighbours, both signs; beyond
    the largest half; subnormal, infinite and NaN floats; and random bits."""
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves[-1] = 65536  # what follows 65504
    middles = (halves[1:] + halves[:-1]) / 2
    points = np.concatenate([halves, middles]).astype(np.float32).view(np.uint32)
    near = np.concatenate([points, points + 1, np.maximum(points, 1) - 1])
    odd = np.array([1, 2, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00001, 0x7FFFFFFF], np.uint32)
    positive = np.concatenate([near, odd])
    return np.concatenate([positive, positive | np.uint32(0x80000000), random_bits("floats", 400_000)])


def to_half(x: Array) -> Array:
    """uint16 bits: float64 or float32 rounded to binary16, NaN canonical."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isnan(x), _HALF_NAN, x.astype(np.float16).view(np.uint16))


def canonical(x: Array) -> Array:
    """uint32 bits of float32, NaN canonical."""
    return np.where(np.isnan(x), _NAN, x.view(np.uint32))


def widened(halves: Array) -> Array:
    """float32 bits of binary16 bits; NaN keeps its payload and is quiet, which is what the host's instruction does."""
    return quiet(halves.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32))


def pair_of(low: Array, high: Array) -> Array:
    """Two binary16 in one word, from float32 bits."""
    pair: Array = half_of(low) | half_of(high) << np.uint32(16)
    return pair


def half_of(bits: Array) -> Array:
    """binary16 bits, as uint32, of float32 bits."""
    return to_half(bits.view(np.float32)).astype(np.uint32)


def quiet(bits: Array) -> Array:
    """float32 bits with NaN made quiet, its payload kept."""
    return np.where(np.isnan(bits.view(np.float32)), bits | np.uint32(0x400000), bits)


@dataclass(frozen=True)
class Case:
    """Inputs of one function, and the bits it must give. nan: whether NaN may have any payload and sign,
    because lanes make them canonical where a float is stored and not where it is computed."""

    what: str
    inputs: tuple[Array, ...]
    want: Callable[..., Array]
    nan: bool = False


def _floats(function: Callable[..., Array]) -> Callable[..., Array]:
    def wrapped(*bits: Array) -> Array:
        with np.errstate(all="ignore"):
            return canonical(function(*(b.view(np.float32) for b in bits)))

    return wrapped


def _half_sub(x: Array, y: Array) -> Array:
    parts = []
    for shift in (0, 16):
        a, b = ((v >> np.uint32(shift)).astype(np.uint16).view(np.float16).astype(np.float64) for v in (x, y))
        with np.errstate(invalid="ignore"):
            parts.append(to_half(a - b).astype(np.uint32))
    return parts[0] | parts[1] << np.uint32(16)


def _select(x: Array, y: Array) -> Array:
    """prmt.b32 by its definition: nibble i of the selector names one of the bytes y3..y0 x3..x0."""
    source = [v >> np.uint32(8 * i) & np.uint32(255) for v in (x, y) for i in range(4)]
    out = np.zeros_like(x)
    for turn, selector in enumerate((0x4140, 0x5140, 0x7362, 0x0123)):
        word = np.zeros_like(x)
        for i in range(4):
            word |= source[selector >> 4 * i & 15] << np.uint32(8 * i)
        out ^= word << np.uint32(turn)
    return out


def _to_int(rounding: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def convert(bits: Array) -> Array:
        with np.errstate(invalid="ignore"):
            x = bits.view(np.float32).astype(np.float64)
            clamped = np.clip(rounding(np.nan_to_num(x, nan=0.0)), -(2.0**31), 2.0**31 - 1)
        return clamped.astype(np.int64).astype(np.uint32)

    return convert


def _bit_counts(x: Array) -> Array:
    length = np.frexp(x.astype(np.float64))[1].astype(np.uint32)
    return (32 - length) | np.bitwise_count(x).astype(np.uint32) << np.uint32(8)


def _from_int(bits: Array) -> Array:
    return bits.view(np.int32).astype(np.float32).view(np.uint32)


def _near_integers() -> Array:
    """Around every power of two, and halves between integers."""
    powers = np.concatenate([np.float32(2) ** np.arange(-3, 34, dtype=np.float32), np.arange(64, dtype=np.float32) / 2])
    bits = powers.astype(np.float32).view(np.uint32)
    positive = np.concatenate([bits, bits + 1, bits - (bits > 0)])
    return np.concatenate([positive, positive | np.uint32(0x80000000), random_bits("int", 50_000)])


def _exp2_inputs() -> Array:
    """Random bits, the range that matters, integers and halves between, the ends."""
    wide = Stream.of(2, "wide").below(256 << 20, 500_000).astype(np.float64) / 2**20 - 128
    steps = np.arange(-300, 300, dtype=np.float32) / 2
    ends = np.array([-126, 128, -127, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32).view(np.uint32)
    near = np.concatenate([ends[:3] + 1, ends[:3] - 1])
    floats = np.concatenate([wide.astype(np.float32), steps]).view(np.uint32)
    return np.concatenate([random_bits("exp2", 700_000), floats, ends, near])


def _fma_inputs() -> tuple[Array, ...]:
    """Finite, results far from overflow, and c often close to -a b so that the sum cancels."""
    n = 100_000
    a, b, c = (random_bits(name, n) & np.uint32(0x807FFFFF) for name in "abc")
    ea, eb, gap = (Stream.of(3, name).below(120, n).astype(np.int64) for name in ("ea", "eb", "gap"))
    ec = np.clip(ea + eb + 67 - 127 + 1 + gap - 60, 0, 254)
    a, b = a | ((ea + 67) << 23).astype(np.uint32), b | (eb << 23).astype(np.uint32)
    return a, b, c | (ec << 23).astype(np.uint32)


def cases() -> list[Case]:
    pairs = random_bits("x", 300_000), random_bits("y", 300_000)
    halves = np.repeat(all_halves(), 4) | np.tile(all_halves(), 4) << np.uint32(16)
    floats = around_halves()
    turned = np.roll(floats, 17)
    shifted = np.concatenate([np.roll(halves, 4999), pairs[1]])
    counted = np.concatenate([random_bits("bits", 50_000), np.uint32(1) << np.arange(32, dtype=np.uint32), [0]])
    return [
        Case("half_value", (all_halves(),), widened),
        Case("half_bits", (floats,), half_of),
        Case("half_pair", (floats, turned), pair_of),
        Case("half_sub", (np.concatenate([halves, pairs[0]]), shifted), _half_sub),
        Case("exp2", (_exp2_inputs(),), _floats(exp2)),
        Case("select", pairs, _select),
        Case("fma", _fma_inputs(), _floats(fma32)),
        Case("add", (floats, turned, np.roll(floats, 5)), _floats(lambda a, b, c: a + (b - c)), nan=True),
        Case("multiply", (floats, turned), _floats(lambda a, b: a * b), nan=True),
        Case("divide", (floats, turned), _floats(lambda a, b: a / b), nan=True),
        Case("to_int", (_near_integers(),), _to_int(np.trunc)),
        Case("to_int_nearest", (_near_integers(),), _to_int(np.rint)),
        Case("from_int", (random_bits("ints", 100_000),), _from_int),
        Case("square_root", (np.concatenate([floats, random_bits("roots", 300_000)]),), _floats(np.sqrt), nan=True),
        Case("bit_counts", (counted.astype(np.uint32),), _bit_counts),
    ]
