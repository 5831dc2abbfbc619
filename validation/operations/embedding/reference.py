"""What embeddings must be: FP64 from the parts of blocks, and the very bits of FP32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.formats import FORMATS
from strata.kernels.embedding import HALVES
from validation.numerics.fma import canonical


class Parts(NamedTuple):
    """Values as their format has them: product less offset, both exact. float64 [rows, width]."""

    product: np.ndarray
    offset: np.ndarray


def parts(mode: str, rows: np.ndarray) -> Parts:
    """Some rows of a matrix, uint8 [rows, row bytes], in FP64, in which products of a scale and a code are exact."""
    if mode == HALVES:
        values = np.ascontiguousarray(rows).view("<f2").astype(np.float64)
        return Parts(values, np.zeros_like(values))
    form = FORMATS[mode]
    made = form.parts(rows.reshape(len(rows), -1, form.nbytes))

    def spread(each: np.ndarray) -> np.ndarray:
        return np.repeat(each.astype(np.float64), form.values // each.shape[-1], axis=-1).reshape(len(rows), -1)

    with np.errstate(invalid="ignore"):
        product = spread(made.scales) * made.codes.reshape(len(rows), -1)
    return Parts(product, np.zeros_like(product) if made.offsets is None else spread(made.offsets))


def embed(mode: str, rows: np.ndarray, factor: float) -> np.ndarray:
    """Rows of a matrix times a factor, in FP64.

    Parameters
    ----------
    mode, rows
        See `parts`.
    factor
        A float32.

    Returns
    -------
    float64 array [rows, width]
    """
    made = parts(mode, rows)
    return np.asarray((made.product - made.offset) * float(factor))


def embed_bits(mode: str, matrix: np.ndarray, ids: np.ndarray, factor: np.float32) -> np.ndarray:
    """The rows of ids bit for bit, by the formulas of strata/kernels/embedding.py; one NaN stands for all.

    Parameters
    ----------
    mode
        The format.
    matrix
        uint8 [vocab, row bytes].
    ids
        int32 [rows], of which some may be outside.
    factor
        float32.

    Returns
    -------
    float32 array [rows, width]
    """
    outside = (ids < 0) | (ids >= len(matrix))
    made = parts(mode, matrix[np.where(outside, 0, ids)])
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        value = made.product.astype(np.float32)
        if np.any(made.offset):
            value = value - made.offset.astype(np.float32)
        return canonical(np.where(outside[:, None], np.float32(np.nan), value * factor))
