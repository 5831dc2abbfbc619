"""What operations on elements must give: FP64 from the mathematics, and the very bits of the FP32 ones."""

from __future__ import annotations

import numpy as np

from strata.executors.base import StrataError
from validation.numerics.exp2 import exp2
from validation.numerics.fma import fma, plain

#: -log2(e), 0.044715, -2 sqrt(2/pi) log2(e) and -2 log2(e) as the float32 of strata/kernels/gated.py and softcap.py.
MINUS_LOG2_E = np.uint32(0xBFB8AA3B).view(np.float32)
CUBIC = np.uint32(0x3D372713).view(np.float32)
GELU = np.uint32(0xC0135761).view(np.float32)
SOFTCAP = np.uint32(0xC038AA3B).view(np.float32)
_ONE = np.float32(1)


def exponent(mode: str, gate: np.ndarray) -> np.ndarray:
    """What e is raised to in the sigmoid 1 / (1 + e^-v) that a gate is multiplied by, v.

    Parameters
    ----------
    mode
        `gelu_tanh` or `swiglu`.
    gate
        float32, of any shape.

    Returns
    -------
    float64 array
        Of the shape of the gate.

    Raises
    ------
    StrataError
        For another mode.
    """
    g = gate.astype(np.float64)
    if mode == "gelu_tanh":
        return np.asarray(2 * np.sqrt(2 / np.pi) * (g + 0.044715 * g * g * g))
    if mode == "swiglu":
        return g
    raise StrataError(f"gated mode {mode!r}: expected gelu_tanh or swiglu")


def gated(mode: str, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """act(gate) up in FP64, act(g) = g / (1 + e^-v).

    Parameters
    ----------
    mode
        `gelu_tanh` or `swiglu`.
    gate, up
        float32, of one shape, finite.

    Returns
    -------
    float64 array
        Of that shape.
    """
    v = exponent(mode, gate)
    e = np.exp(-np.abs(v))
    return np.asarray(gate.astype(np.float64) * (np.where(v >= 0, 1.0, e) / (1.0 + e)) * up.astype(np.float64))


def gated_bits(mode: str, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The same bit for bit, by the formulas of strata/kernels/gated.py; every NaN is 7fffffff.

    Parameters
    ----------
    mode, gate, up
        As of `gated`, of any bits.

    Returns
    -------
    float32 array
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if mode == "gelu_tanh":
            power = gate * fma(gate * gate, np.asarray(CUBIC), np.asarray(_ONE)) * GELU
        elif mode == "swiglu":
            power = gate * MINUS_LOG2_E
        else:
            raise StrataError(f"gated mode {mode!r}: expected gelu_tanh or swiglu")
        return plain(gate / (_ONE + exp2(power)) * up)


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    """cap tanh(x / cap) in FP64.

    Parameters
    ----------
    x
        float32, of any shape, no NaN.
    cap
        A float32.

    Returns
    -------
    float64 array
        Of the shape of x.
    """
    return np.asarray(cap * np.tanh(x.astype(np.float64) / cap))


def softcap_bits(x: np.ndarray, cap: float) -> np.ndarray:
    """The same bit for bit, by the formulas of strata/kernels/softcap.py; every NaN is 7fffffff.

    Parameters
    ----------
    x
        float32, of any shape and any bits.
    cap
        A float32.

    Returns
    -------
    float32 array
        Of the shape of x.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        t = exp2(np.abs(x / np.float32(cap)) * SOFTCAP)
        out = np.float32(cap) * ((_ONE - t) / (_ONE + t))
        return plain(np.copysign(out, x))


def residual(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in FP64, which is exact or wrong by a rounding of 2^-53.

    Parameters
    ----------
    a, b
        float32, of one shape, finite.

    Returns
    -------
    float64 array
        Of that shape.
    """
    return np.asarray(a.astype(np.float64) + b.astype(np.float64))


def residual_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b rounded once; every NaN is 7fffffff.

    Parameters
    ----------
    a, b
        float32, of one shape and any bits.

    Returns
    -------
    float32 array
        Of that shape.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return plain(a + b)
