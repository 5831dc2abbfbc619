"""Elements at which something happens in the exponential of an activation, and floats beside them.

Only basic operations of float64 are used, each of which IEEE 754 rounds in one way: the same bytes on every machine.
"""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Stream

_LN2 = 0.6931471805599453
#: 2 sqrt(2/pi) log2(e), by which a gate times its polynomial becomes the exponent of GELU.
_GELU = 2.302208198144325
_CUBIC = 0.044715
#: Exponents at the ends of exp2, where it turns to the next integer, and at 0.
EXPONENTS = (-126.0, -125.5, -125.0, 127.0, 127.5, 128.0, -0.5, 0.5, 1.5, -24.0, -25.0, 24.0, 25.0)
#: Exponents of soft capping, which are not positive: the last that is not flushed, where 1 - t is 1, where 1 + t is 1,
#: where t is the float below 1, and halves.
_CAPPED = (126.0, 125.5, 127.0, 24.0, 25.0, 26.0, 2.0**-24, 2.0**-25, 2.0**-23, 0.5, 1.5, 1.0)
#: Floats beside an edge: so many powers of two of steps on each side, and the edge itself.
_NEAR = 12


def gates() -> np.ndarray:
    """float64: gates at which the exponent -g log2(e) of SwiGLU, or that of GELU, has an end."""
    swiglu = [-exponent * _LN2 for exponent in EXPONENTS]
    return np.array([*swiglu, *(-_gelu_gate(exponent) for exponent in EXPONENTS)])


def values() -> np.ndarray:
    """float64: multiples of the cap at which the exponent -2 |y| log2(e) of soft capping has an end, of both signs."""
    found = np.array(_CAPPED) * (_LN2 / 2)
    return np.concatenate([found, -found])


def beside(stream: Stream, edges: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """float32 of a shape: edges in turn, each with floats on both sides from one step beside it to 2**11 steps."""
    count = shape[0] * shape[1]
    at = np.asarray(edges, np.float64).astype(np.float32)[np.arange(count) % len(edges)]
    turn = np.arange(count) // len(edges) % (2 * _NEAR + 1)
    off = np.where(turn == 0, 0, np.where(turn % 2 == 1, 1, -1) << np.maximum((turn - 1) // 2, 0)).astype(np.int32)
    off = np.where(turn == 0, 0, off)
    # Bits of a float, without its sign, count the floats from zero; none here is so large that it becomes infinite.
    size = np.clip((at.view(np.int32) & 0x7FFFFFFF) + off, 0, 0x7F7FFFFF)
    made = (size | (at.view(np.int32) & np.int32(-0x80000000))).astype(np.int32).view(np.float32)
    return np.asarray(made[stream.child("order").permutation(count)].reshape(shape))


def _gelu_gate(exponent: float) -> float:
    """g for which g (1 + 0.044715 g^2) 2 sqrt(2/pi) log2(e) is an exponent, by Newton's method."""
    due, g = exponent / _GELU, 0.0
    for _ in range(60):
        g = g - (g + _CUBIC * g * g * g - due) / (1.0 + 3.0 * _CUBIC * g * g)
    return g
