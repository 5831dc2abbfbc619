"""Logits of the router, drawn as a recipe says, and ladders and edges that combining has too."""

from __future__ import annotations

import numpy as np

from strata.kernels.router import MOST_EXPERTS
from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.operations.experts.activations import ladder
from validation.operations.experts.case import ExpertCase

#: Bits of a NaN of each sign and of both infinities.
_BROKEN = frozen(np.array([0x7FC00000, 0xFFC00001, 0x7F800000, 0xFF800000], np.uint32))
#: Levels that logits of ties take.
_LEVELS = 5
#: Exponents between which ladders step from the first token to the last, and those between which most happens.
SPREADS, _CLOSER = (-140, 120), (-24, 9)
#: log2 of a share below which it is zero: see include/exp2.cuh.
SHARE_EDGE = -126.0
#: Numbers on one side of an edge: 2, 1, 1/2, ... from it, the last about a float32 step of what they are the log2 of.
BESIDE = 19
_LANES = 32


def logits(case: ExpertCase) -> np.ndarray:
    """float32 [tokens, experts] of a router recipe."""
    stream, shape = case.stream("logits"), (case.tokens, case.experts)
    x = stream.child("bell").normals(shape, 1)
    kind = case.recipe.removeprefix("router_")
    if kind == "equal":
        x = np.broadcast_to(stream.child("level").normals((case.tokens, 1), 2), shape).copy()
    elif kind == "ties":
        level = stream.child("level").below(_LEVELS, shape) - _LEVELS // 2
        level[1::2] -= _LEVELS // 2  # here zeros are the largest, and both signs of them compete
        x = level.astype(np.float32)
        negative = stream.child("zero").below(2, shape) == 0
        x = np.where((x == 0) & negative, np.float32(-0.0), x)
    elif kind == "close":  # a float32 step apart: the exponentials of two may be equal, the logits are not
        steps = np.argsort(stream.child("order").words(shape), axis=1, kind="stable")
        x = (np.float32(3).view(np.uint32) + steps.astype(np.uint32)).view(np.float32)
    elif kind == "dominant":
        x[np.arange(case.tokens), stream.child("which").below(case.experts, case.tokens)] = np.float32(1e4)
        x = np.where(stream.child("sunk").below(3, shape) == 0, np.float32(-1e30), x)
    elif kind == "broken":
        bits = x.view(np.uint32).copy()
        broken = stream.child("broken").below(4, shape) == 0
        broken[0] = True
        bits[broken] = _BROKEN[stream.child("what").below(len(_BROKEN), shape)][broken]
        x = bits.view(np.float32)
    elif kind == "ladder":
        spread = closer(SPREADS, case.tokens)[:, None]
        x = np.ldexp(stream.child("bell").normals(shape), spread)
        x[1::2] = -np.abs(x[1::2]) - np.ldexp(np.float32(8), spread[1::2])
    elif kind == "edge":
        place = stream.child("order").words(shape).argsort(axis=1, kind="stable")
        x = (beside(SHARE_EDGE, case.experts) * np.log(2)).astype(np.float32)[place]
        x[place == case.experts - 1] = 0
    elif kind == "counts":
        x = _counted(stream, x)
    return np.ascontiguousarray(x)


def _counted(stream: Stream, x: np.ndarray) -> np.ndarray:
    """Logits whose tokens take turns: all NaN; all infinities; of lane l the first l + 1 NaN and the others infinities;
    of lane l the first l infinities and the others as they are."""
    turn, lane = np.arange(x.shape[1]) // _LANES % (MOST_EXPERTS // _LANES), np.arange(x.shape[1]) % _LANES
    kind, first = np.arange(len(x))[:, None] % 4, turn <= lane
    nan = (kind == 0) | (kind == 2) & first
    infinite = (kind == 1) | (kind == 2) & ~first | (kind == 3) & (turn < lane)
    sign, bits = stream.child("sign").below(2, x.shape), x.view(np.uint32)
    bits = np.where(nan, _BROKEN[:2][sign], np.where(infinite, _BROKEN[2:][sign], bits))
    return np.asarray(bits.view(np.float32))


def beside(edge: float, count: int) -> np.ndarray:
    """float64 [count]: numbers above and below an edge in turn, coming nearer to it."""
    turn = np.arange(count)
    return np.asarray(edge + np.where(turn % 2 == 0, 1, -1) * 2.0 ** (1 - turn // 2 % BESIDE))


def closer(ends: tuple[int, int], count: int) -> np.ndarray:
    """int32 [count]: a ladder, and for two of four numbers another one between the exponents at which most happens."""
    return np.where(np.arange(count) % 4 < 2, ladder(_CLOSER, count), ladder(ends, count)).astype(np.int32)
