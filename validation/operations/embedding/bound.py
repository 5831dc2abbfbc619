"""How far an embedding may be from the exact one.

u = 2^-24. The product of a scale and a code is exact in FP32. A format with an offset m rounds scale code - m once, and
every format the product with the factor, which may be subnormal and then off by half of 2^-149 instead:

    |out' - out| <= ((1 + u)^(1 + o) - 1) |out| + 2^-150,    o = 1 with an offset, else 0

A difference below 2^-126 is exact, both numbers being multiples of 2^-149.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002, section 2.1.
"""

from __future__ import annotations

import numpy as np

from validation.numerics.roundoff import WIDENED, U


def embedded(exact: np.ndarray, offset: bool) -> np.ndarray:
    """The bound for every value.

    Parameters
    ----------
    exact
        float64, the exact embeddings.
    offset
        Whether their format has an offset.

    Returns
    -------
    float64 array
        Of the shape of `exact`.
    """
    return np.asarray((((1 + U) ** (1 + offset) - 1) * np.abs(exact) + 2.0**-150) * WIDENED)
