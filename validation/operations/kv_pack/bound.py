"""How far the float32 Hadamard transform may be from the exact one. Packing itself has no bound: bytes are equal.

Every output is a signed sum of 256 terms formed by eight levels of additions, and a scale by 1/16
that is exact. Each addition is rounded to nearest with relative error at most u = 2**-24 (additions
of float32 are exact in the subnormal range), so whatever the order of the levels

    |y[i] - exact| <= ((1 + u)**8 - 1) sum_j |x[j]| / 16

(Higham, Accuracy and Stability of Numerical Algorithms, section 4.2, for a tree of height eight).
A scale by 1/16 before the additions may round where x / 16 is subnormal: 256 times half the smallest
subnormal more. The published program asked for 1e-5 of data of size 1, about forty times as much.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

import numpy as np

LEVELS = 8
DIMS = 256
UNIT = 2.0**-24
SMALLEST = 2.0**-149
SCALE = 1.0 / 16.0


def hadamard(x: np.ndarray) -> np.ndarray:
    """The bound for every output of the transform of rows.

    Parameters
    ----------
    x
        float32 [..., 256].

    Returns
    -------
    float64 array [..., 1]
    """
    total = np.abs(x.astype(np.float64)).sum(axis=-1, keepdims=True)
    return np.asarray(((1 + UNIT) ** LEVELS - 1) * total * SCALE + DIMS * SMALLEST / 2)
