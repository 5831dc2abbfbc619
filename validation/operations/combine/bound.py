"""How far a combined row may be from the exact sum of its FP32 inputs.

u = 2^-24. k + 1 fused multiply-adds, each rounded once: what enters first is rounded k + 1 times, so (Higham,
Accuracy and Stability of Numerical Algorithms, section 3.1)

    |out' - out| <= ((1 + u)^(k + 1) - 1) M + |shared| D,    M = sum |w| |row| + sigmoid' |shared|

D is the error of the sigmoid 1 / (1 + p), p = 2^(-g log2 e). With t = |g| log2(e) the exponent is off by t N, N as in
the router's bound but without the subtraction, and exp2 by 0.83 ulp: p' = p (1 + e). Since the derivative of
1 / (1 + p) to log p is sigmoid (1 - sigmoid) in size, and 1 / (1 + p (1 + e)) lies within that times e / (1 - e),
two roundings more give

    D <= sigmoid ((1 + (1 - sigmoid) e / (1 - e)) / (1 - u)^2 - 1) + 2^-126

2^-126 covers p below 2^-126, which is 0, and from 2^128 on, which is infinite. Each multiply-add may also round where
the sum is subnormal, by half of 2^-149. sigmoid' is the sigmoid raised by D.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

import numpy as np

from validation.numerics.roundoff import WIDENED, U
from validation.operations.combine.reference import MINUS_LOG2_E, sigmoid
from validation.operations.router.bound import EXP2_ULPS

_LOG2_E = 1.4426950408889634
EXPONENT = (1 + U) * (1 + abs(-float(MINUS_LOG2_E) / _LOG2_E - 1)) - 1
#: p is flushed or infinite beyond this exponent.
_LARGEST = 130.0


def gate(shared_gate: np.ndarray) -> np.ndarray:
    """The bound D for the sigmoid.

    Parameters
    ----------
    shared_gate
        float32 [T].

    Returns
    -------
    float64 array [T]
    """
    exact = sigmoid(shared_gate)
    t = np.minimum(np.abs(shared_gate.astype(np.float64)) * _LOG2_E, _LARGEST)
    e = np.exp2(t * EXPONENT) * (1 + EXP2_ULPS * 2 * U) - 1
    return np.asarray(exact * ((1 + (1 - exact) * e / (1 - e)) / (1 - U) ** 2 - 1) + 2.0**-126)


def rows(
    rows: np.ndarray, weights: np.ndarray, shared: np.ndarray | None = None, shared_gate: np.ndarray | None = None
) -> np.ndarray:
    """The bound for every output of `combine`.

    Parameters
    ----------
    rows
        float32 [T, k, n].
    weights
        float32 [T, k].
    shared, shared_gate
        float32 [T, n] and [T], or neither.

    Returns
    -------
    float64 array [T, n]
    """
    ranks = rows.shape[1]
    mass = np.einsum("tk,tkn->tn", np.abs(weights.astype(np.float64)), np.abs(rows.astype(np.float64)))
    off = np.zeros_like(mass)
    if shared is not None and shared_gate is not None:
        size, error = np.abs(shared.astype(np.float64)), gate(shared_gate)[:, None]
        mass += (sigmoid(shared_gate)[:, None] + error) * size
        off = size * error
    return np.asarray((((1 + U) ** (ranks + 1) - 1) * mass + off + (ranks + 1) * 2.0**-150) * WIDENED)
