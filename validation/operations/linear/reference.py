"""The product of rows with a matrix in FP64: what the numbers of both are, nothing quantised.

A weight is scale * code - offset without a rounding. A scale has at most 18 significant bits and a code 8, so FP64 has
their product exactly; where there is an offset, both are multiples of 2**-24 below 2**27, and so is their difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.formats import FORMATS
from validation.operations.linear.formats import HALVES


class Exact(NamedTuple):
    """The numbers of a matrix.

    Parameters
    ----------
    values
        float64 [outputs, width].
    mass
        float64 of that shape: |scale * code| + |offset|, what a value is the difference of.
    """

    values: np.ndarray
    mass: np.ndarray


def exact(mode: str, matrix: np.ndarray) -> Exact:
    """The numbers of a matrix, not finite where a scale or an offset is not.

    Parameters
    ----------
    mode
        A format of blocks, or `f16`.
    matrix
        uint8 [outputs, row bytes], of FP16 uint16 [outputs, width].
    """
    if mode == HALVES:
        values = matrix.view(np.float16).astype(np.float64)
        return Exact(values, np.abs(values))
    form, outputs = FORMATS[mode], len(matrix)
    found = form.parts(matrix.reshape(outputs, -1, form.nbytes))
    with np.errstate(invalid="ignore"):
        scales = found.scales.astype(np.float64)
        each = found.codes.size // scales.size
        products = scales.reshape(outputs, -1, 1) * found.codes.reshape(outputs, -1, each)
        products = products.reshape(outputs, -1)
        if found.offsets is None:
            return Exact(products, np.abs(products))
        each = found.codes.size // found.offsets.size
        offsets = np.repeat(found.offsets.astype(np.float64).reshape(outputs, -1), each, axis=1)
        return Exact(products - offsets, np.abs(products) + np.abs(offsets))


def product(w: Exact, x: np.ndarray) -> np.ndarray:
    """The product in FP64.

    Parameters
    ----------
    w
        A matrix, finite throughout.
    x
        float32 [rows, width], finite.

    Returns
    -------
    float64 array [rows, outputs]
    """
    return np.asarray(x.astype(np.float64) @ w.values.T)
