"""How far a normed row may be from the exact norm of its FP32 inputs, element by element.

u = 2^-24, and what is rounded among the subnormals errs by v = 2^-150 at most. A lane adds 4 ceil(n / 128) squares by
fused multiply-adds, and five sums of lanes follow: every square is rounded at most m = 4 ceil(n / 128) + 5 times, and
no term is negative, so (Higham, section 3.1) the sum is s (1 + a) with |a| <= (1 + u)^m - 1, and n v (1 + u)^m for
squares that underflow. n is a float. Divided by n,

    |mean' - mean| <= mean ((1 + u)^(m + 1) - 1) + v (1 + (1 + u)^(m + 1)) =: E

A = mean + eps has no cancellation: A' = A (1 + e), |e| <= (1 + E / A) (1 + u) - 1. The root takes half of e, and root
and quotient are rounded once each; A' lies from 2^-126 to 2^127, so nothing there is subnormal:

    |r' / r - 1| <= F = (1 - e)^(-1/2) (1 + u) / (1 - u) - 1

Two products follow, y' = fl(fl(x r') w), each with its own underflow: with y = x r w

    |y' - y| <= |y| ((1 + F) (1 + u)^2 - 1) + v (|w| (1 + u) + 1) =: D

and the sum with the residual a is rounded once more, and exact where it is subnormal: D + u (|a + y| + D).

The FP64 reference is not exact either: its mean has a relative error of n 2^-53 at most, the rest a few of 2^-53. So
(n + 8) 2^-53 (|y| + |a|) stands beside it.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

import numpy as np

from validation.numerics.roundoff import WIDENED, U

#: What a rounding errs by among the subnormals.
_TINY = 2.0**-150
#: Of FP64, one rounding.
_FP64 = 2.0**-53
#: Columns that a warp takes at a time, and those of a lane; sums of lanes.
_TURN, _LANE, _FOLDS = 128, 4, 5


def scale(mean: np.ndarray, eps: float, n: int) -> np.ndarray:
    """The bound F for 1 / sqrt(mean + eps), relative.

    Parameters
    ----------
    mean
        float64, of any shape, exact means of squares.
    eps
        A float32.
    n
        Columns of a row.

    Returns
    -------
    float64 array
        Of the shape of `mean`.
    """
    growth = (1 + U) ** (_LANE * -(-n // _TURN) + _FOLDS + 1)
    error = mean * (growth - 1) + _TINY * (1 + growth)
    e = (1 + error / (mean + eps)) * (1 + U) - 1
    return np.asarray((1 + U) / ((1 - U) * np.sqrt(1 - e)) - 1)


def norm(x: np.ndarray, weight: np.ndarray, residual: np.ndarray | None, eps: float) -> np.ndarray:
    """The bound for every output.

    Parameters
    ----------
    x
        float32 [rows, n].
    weight
        float32 [n].
    residual
        float32 [rows, n], or None.
    eps
        A float32.

    Returns
    -------
    float64 array [rows, n]
    """
    wide, w, n = x.astype(np.float64), weight.astype(np.float64), x.shape[1]
    mean = np.square(wide).mean(axis=1, keepdims=True)
    y = wide / np.sqrt(mean + eps) * w
    limit = np.abs(y) * ((1 + scale(mean, eps, n)) * (1 + U) ** 2 - 1) + _TINY * (np.abs(w) * (1 + U) + 1)
    size = np.abs(y)
    if residual is not None:
        a = residual.astype(np.float64)
        limit = limit + U * (np.abs(a + y) + limit)
        size = size + np.abs(a)
    return np.asarray((limit + (n + 8) * _FP64 * size) * WIDENED)
