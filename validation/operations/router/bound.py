"""How far the router's FP32 weights may be from the softmax over the chosen logits. Its choice has no error at all.

u = 2^-24. With t = (x - m) log2(e), |t| known, the kernel's exponent is t (1 + n), where n gathers a subtraction, a
product and the constant: |n| <= N = (1 + u)^2 (1 + c) - 1, c the relative error of log2(e) as float32. So

    p' = p (1 + e),    |e| <= 2^(|t| N) (1 + 0.83 * 2 u) - 1          (0.83 ulp of include/exp2.cuh)

The softmax values are s' = p' / total' (1 + d), |d| <= u: the sum over all experts, whatever its rounding, is one
number and cancels. The sum of the k chosen adds in rank order, k - 1 roundings, and a last division one more:

    |w' / w - 1| <= (1 + e) (1 + u)^2 / ((1 - E) (1 - u)^k) - 1,      E = sum e p / sum p over the chosen

Where numbers become subnormal: p below 2^-126 is flushed to 0 (twice that covers the error of its exponent), and s
and w round to multiples of 2^-149, s being divided by a sum of at least 1/experts. Every one of them moves w by no
more than itself, as every w <= 1, once in the numerator and k times in the sum.
"""

from __future__ import annotations

import numpy as np

from validation.numerics.roundoff import WIDENED, U
from validation.operations.router.reference import LOG2_E, Routed

EXP2_ULPS = 0.83
#: log2(e) to FP64, whose own error is far below that of the float32.
_LOG2_E = 1.4426950408889634
EXPONENT = (1 + U) ** 2 * (1 + abs(float(LOG2_E) / _LOG2_E - 1)) - 1
#: Beyond this exponent a weight is below what the absolute term covers.
_LARGEST = 200.0


def weights(routed: Routed, experts: int) -> np.ndarray:
    """The bound for every weight.

    Parameters
    ----------
    routed
        What the reference chose.
    experts
        How many experts it was chosen from.

    Returns
    -------
    float64 array [T, k]
    """
    x = routed.logits.astype(np.float64)
    ranks = x.shape[1]
    t = np.minimum((x[:, :1] - x) * _LOG2_E, _LARGEST)
    e = np.exp2(t * EXPONENT) * (1 + EXP2_ULPS * 2 * U) - 1
    together = (e * routed.weights).sum(axis=1, keepdims=True)
    relative = (1 + e) * (1 + U) ** 2 / ((1 - together) * (1 - U) ** ranks) - 1
    absolute = (ranks + 1) * (2.0**-125 + experts * 2.0**-149)
    return np.asarray((routed.weights * relative + absolute) * WIDENED)
