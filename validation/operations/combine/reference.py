"""What combining must give: the FP64 sum, and the very bits of the FP32 one."""

from __future__ import annotations

import numpy as np

from validation.numerics.exp2 import exp2
from validation.numerics.fma import fma

#: -log2(e) as the float32 of strata/kernels/combine.py.
MINUS_LOG2_E = np.uint32(0xBFB8AA3B).view(np.float32)


def sigmoid(gate: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-gate) without overflow.

    Parameters
    ----------
    gate
        float32, of any shape.

    Returns
    -------
    float64 array
        Of the shape of the gate.
    """
    e = np.exp(-np.abs(gate.astype(np.float64)))
    return np.asarray(np.where(gate >= 0, 1.0, e) / (1.0 + e))


def combine(
    rows: np.ndarray, weights: np.ndarray, shared: np.ndarray | None = None, shared_gate: np.ndarray | None = None
) -> np.ndarray:
    """The weighted sum of each token's rows, and the shared expert behind its sigmoid, in FP64.

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
    out = np.einsum("tk,tkn->tn", weights.astype(np.float64), rows.astype(np.float64))
    if shared is not None and shared_gate is not None:
        out = out + sigmoid(shared_gate)[:, None] * shared.astype(np.float64)
    return np.asarray(out)


def combine_bits(
    rows: np.ndarray, weights: np.ndarray, shared: np.ndarray | None = None, shared_gate: np.ndarray | None = None
) -> np.ndarray:
    """The sum bit for bit, by the formulas of strata/kernels/combine.py.

    NaN and infinities stay what they come to, and which NaN it is says nothing.

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
    float32 array [T, n]
    """
    s = np.zeros((rows.shape[0], rows.shape[2]), np.float32)
    for rank in range(rows.shape[1]):
        s = fma(weights[:, rank, None], rows[:, rank], s)
    if shared is not None and shared_gate is not None:
        with np.errstate(over="ignore", under="ignore"):
            gate = np.float32(1) / (np.float32(1) + exp2(shared_gate * MINUS_LOG2_E))
        s = fma(gate[:, None], shared, s)
    return np.asarray(s)
