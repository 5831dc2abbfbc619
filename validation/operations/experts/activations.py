"""Tokens: float32 [tokens, n], drawn as a recipe says, by integer and exact operations alone."""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Stream, scaled
from validation.operations.experts.recipes import Values
from validation.operations.experts.reference import BLOCK, LARGEST

#: With fewer tokens than this, chance would now and then leave out a side that ZEROS or TINY promise.
_FEW = 4
#: BELL: one value in so many is larger by this factor; the token of zeros, counted from the first.
_RARE, _LOUDER = 200, 12
_ZERO_TOKEN = 77
#: DECADES: sizes of blocks, as powers of two.
_DECADES = (-15, 15)
#: LADDER: sizes of the first token and the last.
LADDER = (-115, 40)
#: OUTLIERS: one channel in so many, larger by this power of two.
_CHANNELS, _OUTLIER = 97, 10
#: TINY: in every second token alone, else beside others; exponents of the largest value of a block. The reciprocal of
#: 127 / amax overflows below 2**-121.
_TINY = (-149, -140, -127, -125, -122, -121, -120, -119)
#: Of the blocks beside that edge the largest values in turn, times 2**-20: a power of two, the largest value whose
#: reciprocal overflows (127 / 128), and a step above it.
_EDGE_EXPONENT, _EDGE = -121, (1 << 20, LARGEST << 13, (LARGEST << 13) + 1)


def draw(stream: Stream, values: Values, tokens: int, n: int) -> np.ndarray:
    """float32 [tokens, n]."""
    x = stream.child("bell").normals((tokens, n))
    blocks = (tokens, n // BLOCK)
    if values is Values.BELL:
        rare = stream.child("rare").below(_RARE, x.shape) == 0
        x[rare] *= np.float32(_LOUDER)
        if tokens > 1:
            x[_ZERO_TOKEN % tokens] = 0
    elif values is Values.DECADES:
        low, high = _DECADES
        x = _sized(x, low + stream.child("size").below(high - low + 1, blocks))
    elif values is Values.OUTLIERS:
        loud = np.arange(n) % _CHANNELS == int(stream.child("channel").below(_CHANNELS, ()))
        x[:, loud] *= np.float32(1 << _OUTLIER)
    elif values is Values.ONE_SIDED:
        sign = np.where(stream.child("sign").below(2, (tokens, 1)) == 0, 1, -1)
        x = (sign * (10_000 + stream.child("size").below(90_001, x.shape))).astype(np.float32)
    elif values is Values.ZEROS:
        block = stream.child("block").below(3, blocks) == 0
        if tokens < _FEW:
            block[0, :2] = True, False
        x[np.repeat(block, BLOCK, axis=1)] = 0
        x[1::3] = 0
        negative = stream.child("zero").below(2, x.shape) == 0
        x = np.where((x == 0) & negative, np.float32(-0.0), x)
    elif values is Values.TIES:
        x = _ties(stream, tokens, n)
    elif values is Values.TINY:
        which = stream.child("size").below(len(_TINY), blocks)
        if tokens < _FEW:
            which[0, :2] = 0, len(_TINY) - 1
        tiny = _tiny(stream, np.array(_TINY)[which])
        beside = np.repeat(stream.child("beside").below(2, blocks) == 0, BLOCK, axis=1)
        beside[::2] = False  # every second token has tiny blocks alone
        x = np.where(beside, x, tiny)
    elif values is Values.BROKEN:
        x = _broken(stream, x)
    elif values is Values.LADDER:
        x = np.ldexp(x, ladder(LADDER, tokens)[:, None])
    elif values is Values.ONE_HOT:
        hot = np.zeros_like(x)
        place = (np.arange(tokens) * 37 + int(stream.child("place").below(n, ()))) % n
        size = scaled(np.where(stream.child("sign").below(2, tokens) == 0, LARGEST, -LARGEST), 0)
        hot[np.arange(tokens), place] = size
        x = hot
    return np.asarray(x)


def ladder(ends: tuple[int, int], count: int) -> np.ndarray:
    """int32 [count]: even steps from the first of `ends` to the last."""
    first, last = ends
    return (first + np.arange(count) * (last - first) // max(count - 1, 1)).astype(np.int32)


def _sized(x: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """x with every block of 32 times a power of two of its own, exactly."""
    return np.asarray(np.ldexp(x, np.repeat(exponents, BLOCK, axis=1).astype(np.int32)).astype(np.float32))


def _ties(stream: Stream, tokens: int, n: int) -> np.ndarray:
    """Blocks whose largest value is 127 steps, so that a step is a power of two and half steps are halves of codes."""
    halves = 2 * stream.child("half").below(2 * LARGEST, (tokens, n // BLOCK, BLOCK)) - 2 * LARGEST + 1
    halves[..., 0] = 2 * LARGEST
    exponents = stream.child("step").below(16, (tokens, n // BLOCK, 1)) - 8
    order = stream.child("order").below(BLOCK, (tokens, n // BLOCK, 1))
    turned = np.take_along_axis(halves, (np.arange(BLOCK) + order) % BLOCK, axis=2)
    return np.ldexp(turned.astype(np.float32), (exponents - 1).astype(np.int32)).reshape(tokens, n)


def _tiny(stream: Stream, exponents: np.ndarray) -> np.ndarray:
    """Blocks whose largest value is a power of two; all others are below it. Rounded once where subnormal."""
    tokens, blocks = exponents.shape
    whole = stream.child("tiny").below(1 << 20, (tokens, blocks, BLOCK)) - (1 << 19)
    whole[..., 3] = 1 << 20
    edge = exponents == _EDGE_EXPONENT
    whole[edge, 3] = np.resize(_EDGE, int(edge.sum()))
    return np.asarray(
        np.ldexp(whole.astype(np.float64), exponents[..., None] - 20).astype(np.float32).reshape(tokens, -1)
    )


def _broken(stream: Stream, x: np.ndarray) -> np.ndarray:
    """Infinities and NaN of several payloads: in every third token one value, in the first token three.

    They take turns, because a block whose one value that is not finite is an infinity fails in another way than one
    with a NaN, and even a case of few tokens must have both.
    """
    patterns = np.array([0x7F800000, 0x7FC00000, 0xFF800000, 0xFFC00001, 0x7F800001], np.uint32)
    bits = x.view(np.uint32).copy()
    tokens, n = x.shape
    for token in range(0, tokens, 3):
        own = stream.child("broken", token)
        for index in range(3 if token == 0 else 1):
            place = int(own.child("place", index).below(n, ()))
            bits[token, place] = patterns[(token // 3 * 2 + index) % len(patterns)]
    return bits.view(np.float32)
