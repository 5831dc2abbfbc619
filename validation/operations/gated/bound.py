"""How far operations on elements may be from the exact functions of their FP32 inputs, element by element.

u = 2^-24, and what is rounded among the subnormals errs by v = 2^-150 at most. The FP64 references err by a few of
2^-53 beside an exponent's, which the last term of each bound covers.

**An exponential.** The kernel's exponent is a' = a (1 + n) but for underflow, |n| <= N, where N gathers its roundings
and the errors of its constants. Underflow of a product moves a' by less than 2^-140. With 0.83 ulp of include/exp2.cuh

    e' = e (1 + d),    |d| <= D = 2^(|a| N + 2^-140) (1 + 0.83 * 2 u) - 1

unless a' is below -126, where e' is 0, or from 128 on, where it is infinite.

**Gated.** a = -v log2(e). SwiGLU: N = (1 + u) (1 + c) - 1, c the relative error of log2(e) as float32. GELU: the
square, the polynomial, whose terms are positive, the product with the gate and that with K are rounded once each, and
0.044715 and K have errors of their own: N = (1 + u)^4 (1 + c1) (1 + c2) - 1. With s = 1 / (1 + e) the sum 1 + e' moves
by a share of (1 - s) d, since e / (1 + e) = 1 - s; sum, quotient and product are rounded once each:

    |out' - out| <= |out| R + v (|up| (1 + u) + 1),    R = (1 + (1 - s) D / (1 - D) + 2^-125) (1 + u)^2 / (1 - u) - 1

2^-125 is what e below 2^-126 may be worth. Where e' may be infinite the output may be 0, and the bound is |out| more.

**Soft capping.** a = -2 |x / cap| log2(e), N = (1 + u)^2 (1 + c) - 1, t = 2^a <= 1, h = (1 - t) / (1 + t). A change of
t by t d moves h by 2 t d / ((1 + t) (1 + t')):

    |h'' - h| <= H = 2 t D / ((1 + t)^2 (1 - D)) + 2^-124

2^-124 for t that is 0 in place of up to 2^-126. Difference, sum, quotient and the product with the cap are rounded once
each; of these only the product may be subnormal:

    |out' - out| <= cap (h (G - 1) + H G) + v,    G = (1 + u)^3 / (1 - u)

**Residual.** One rounding, and none where the sum is subnormal: u |a + b|.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.numerics.roundoff import WIDENED, U
from validation.operations.gated import reference
from validation.operations.gated.reference import CUBIC, GELU, MINUS_LOG2_E, SOFTCAP
from validation.operations.router.bound import EXP2_ULPS

_LOG2_E = 1.4426950408889634
#: What a rounding errs by among the subnormals, and what underflow moves an exponent by.
_TINY, _MOVED = 2.0**-150, 2.0**-140
#: Exponents behind which an exponential is 0 or infinite whatever its error.
_LARGEST = 130.0
#: Roundings of FP64 in a reference beside that of its exponent, and of each unit of the exponent.
_FP64, _FEW = 2.0**-53, 12


def _constant(rounded: np.ndarray | np.floating[Any], exact: float) -> float:
    """The relative error of a constant, and of FP64's own of it."""
    return abs(float(rounded) / exact - 1) + 4 * _FP64


#: N of the three exponents.
NOISE = {
    "swiglu": (1 + U) * (1 + _constant(MINUS_LOG2_E, -_LOG2_E)) - 1,
    "gelu_tanh": (1 + U) ** 4
    * (1 + _constant(CUBIC, 0.044715))
    * (1 + _constant(GELU, -2 * float(np.sqrt(2 / np.pi)) * _LOG2_E))
    - 1,
    "softcap": (1 + U) ** 2 * (1 + _constant(SOFTCAP, -2 * _LOG2_E)) - 1,
}


def _exponential(a: np.ndarray, noise: float) -> np.ndarray:
    """D, the relative error of 2^a."""
    return np.asarray(np.exp2(np.abs(a) * noise + _MOVED) * (1 + EXP2_ULPS * 2 * U) - 1)


def gated(mode: str, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The bound for every output.

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
    out, size = np.abs(reference.gated(mode, gate, up)), np.abs(up.astype(np.float64))
    whole = -reference.exponent(mode, gate) * _LOG2_E
    a = np.clip(whole, -_LARGEST, _LARGEST)
    d = _exponential(a, NOISE[mode])
    shut = 1 - 1 / (1 + np.exp2(a))
    relative = (1 + shut * d / (1 - d) + 2.0**-125) * (1 + U) ** 2 / (1 - U) - 1
    lost = np.where(whole * (1 + NOISE[mode]) + _MOVED >= 128, out, 0.0)
    own = (_FEW + 4 * np.abs(a)) * _FP64 * out
    return np.asarray((out * relative + lost + _TINY * (size * (1 + U) + 1) + own) * WIDENED)


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    """The bound for every output.

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
    a = np.minimum(2 * np.abs(x.astype(np.float64) / cap) * _LOG2_E, _LARGEST)
    t, d = np.exp2(-a), _exponential(a, NOISE["softcap"])
    h, growth = -np.expm1(-a / _LOG2_E) / (1 + t), (1 + U) ** 3 / (1 - U)
    moved = 2 * t * d / (np.square(1 + t) * (1 - d)) + 2.0**-124
    return np.asarray((cap * (h * (growth - 1 + _FEW * _FP64) + moved * growth) + _TINY) * WIDENED)


def residual(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The bound for every output.

    Parameters
    ----------
    a, b
        float32, of one shape, finite.

    Returns
    -------
    float64 array
        Of that shape.
    """
    return np.asarray((U + _FP64) * np.abs(reference.residual(a, b)) * WIDENED)
