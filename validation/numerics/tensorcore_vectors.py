"""Vectors made by hand that tell hypotheses about a tensor core apart, each in one dot product.

The first thing to run on a card that nobody here has measured: the answers name its row in
docs/arithmetic.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_Q = 2.0**-12


@dataclass(frozen=True)
class Vector:
    """The sum of a[i] b[i] plus c; every value is exact in its format.

    Parameters
    ----------
    name
        What it tells apart.
    a, b
        Values of binary16; zeros at the end are not written.
    c
        A value of binary32.
    """

    name: str
    a: Sequence[float]
    b: Sequence[float]
    c: float = 0.0


#: For k of 8 and more.
VECTORS = (
    Vector("1*1, c = -(1-2^-24)", [1], [1], -(1 - 2.0**-24)),
    Vector("1 + two 2^-24", [1, _Q, _Q], [1, _Q, _Q]),
    Vector("1 + four 2^-25", [1] + [_Q] * 4, [1] + [_Q / 2] * 4),
    Vector("1 + seven 2^-26, c = 2^-26", [1] + [_Q] * 7, [1] + [_Q / 4] * 7, 2.0**-26),
    Vector("1 at k0, 2^-24 at k1 and k4", [1, _Q, 0, 0, _Q], [1, _Q, 0, 0, _Q]),
    Vector("1 at k0, -1 at k4, 1.5*2^-24 at k1", [1, _Q, 0, 0, -1], [1, 1.5 * _Q, 0, 0, 1]),
    Vector("1 at k4, 2^-24 at k0 and k5", [_Q, 0, 0, 0, 1, _Q], [_Q, 0, 0, 0, 1, _Q]),
    Vector("1.5*1.5 + 2^-23 + two 2^-24", [1.5, _Q, _Q, _Q], [1.5, 2 * _Q, _Q, _Q]),
    Vector("2.25*1 + 2^-23 + two 2^-24", [2.25, _Q, _Q, _Q], [1, 2 * _Q, _Q, _Q]),
    Vector("1 - 2^-27", [1, -_Q], [1, _Q / 8]),
    Vector("1 + 1 + three 2^-24", [1, 1, _Q, _Q, _Q], [1, 1, _Q, _Q, _Q]),
    Vector("four 1/2, c = 2^24", [1] * 4, [0.5] * 4, 2.0**24),
    Vector("eight 1/4, c = 2^24", [1] * 8, [0.25] * 8, 2.0**24),
    Vector("1, 2^-25, 2^-26, c = -1", [1, _Q, _Q], [1, _Q / 2, _Q / 4], -1.0),
    Vector("subnormal a: (1 + 1023) * 2^-24", [2.0**-24, 1023 * 2.0**-24], [1, 1]),
    Vector("subnormal a: 2^-24 * 2^15, c = 2^-31", [2.0**-24], [2.0**15], 2.0**-31),
    Vector("0*65504 + 2^-24, c = 2^-46", [0, 2.0**-14], [65504, 2.0**-10], 2.0**-46),
    Vector("four 2^-24, c = 1 - 2^-24", [0.5] * 4, [2.0**-23] * 4, 1 - 2.0**-24),
    Vector("four 2^-24, c = 1", [0.5] * 4, [2.0**-23] * 4, 1.0),
    Vector("all products -0, c = -0", [-0.0] * 16, [1.0] * 16, -0.0),
)
#: For k of 16: steps of 8 against one of 16.
VECTORS_K16 = (
    Vector(
        "1 at k0, -1 at k8, 2^-24 at k1 and k9",
        [1, _Q] + [0] * 6 + [-1, _Q],
        [1, _Q] + [0] * 6 + [1, _Q],
    ),
    Vector("1 at k0, 2^-24 at k1 and k8", [1, _Q] + [0] * 6 + [_Q], [1, _Q] + [0] * 6 + [_Q]),
)


def vectors(k: int) -> tuple[Vector, ...]:
    """The vectors that an instruction of k products can take."""
    return VECTORS + (VECTORS_K16 if k >= 16 else ())


def vector_operands(chosen: Sequence[Vector], k: int) -> tuple[Array, Array, Array]:
    """Operands of vectors, cut or filled with zeros.

    Parameters
    ----------
    chosen
        The vectors, n of them.
    k
        Products of each.

    Returns
    -------
    (float16 array [n, k], float16 array [n, k], float32 array [n])
        a, b and c.
    """

    def filled(values: Sequence[float]) -> list[float]:
        return (list(values) + [0.0] * k)[:k]

    a = np.array([filled(v.a) for v in chosen]).astype(np.float16)
    b = np.array([filled(v.b) for v in chosen]).astype(np.float16)
    return a, b, np.array([v.c for v in chosen]).astype(np.float32)
