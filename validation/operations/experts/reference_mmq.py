"""The bits of the MMQ-style baseline, by the formulas of strata/kernels/expert_mmq.py, straight from their definition.

Dots are exact.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from validation.numerics.fma import NAN, Array, Fma, canonical, exact, gridded, units
from validation.operations.experts import reference
from validation.operations.experts.reference import BLOCK, LARGEST, TWO_DOTS, Codes, Weights, lines, slabs


def round_away(x: Array) -> Array:
    """The nearest integers, ties away from zero.

    Parameters
    ----------
    x
        float32, of any shape.

    Returns
    -------
    float32 array
        Of the shape of x.
    """
    whole = np.trunc(x)
    rest = x - whole  # exact
    return np.asarray(whole + (rest >= np.float32(0.5)) - (rest <= np.float32(-0.5)))


def quantise(x: Array) -> Codes:
    """Codes of rows.

    Parameters
    ----------
    x
        float32 [rows, k], k a multiple of 32.
    """
    blocks = x.reshape(len(x), -1, BLOCK)
    lost = ~np.isfinite(blocks).all(axis=-1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        amax = np.where(lost, np.float32(0), np.abs(blocks).max(axis=-1))
        inverse = np.float32(LARGEST) / amax
        live = np.isfinite(inverse)
        held = np.where(live[..., None], blocks, np.float32(0))
        codes = round_away(held * np.where(live, inverse, np.float32(0))[..., None])
        scale = np.where(live, np.float32(1) / inverse, np.float32(0))
    return Codes(codes.astype(np.int8).reshape(x.shape), np.where(lost, NAN.view(np.float32), scale), int(lost.sum()))


def product(w: Weights, x: Codes) -> Array:
    """The bits of the product.

    Parameters
    ----------
    w
        The matrix.
    x
        Codes of the rows.

    Returns
    -------
    float32 array [rows of x, rows of w]
    """
    each = w.per_block
    left, right = lines(x.q, BLOCK // each), w.columns
    scales = w.scale.T[:, None, :]
    total = np.zeros((len(x.q), len(w.q)), np.float32)
    add, inside = Fma(total.shape, gridded(w.units, units(x.scale))), exact(w.units, TWO_DOTS)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for part in slabs(x.q.shape[1] // BLOCK, total.size):
            own = slice(each * part.start, each * part.stop)
            dot, scale = left[own] @ right[own], scales[own]
            scaled = dot[::each] * scale[::each]
            if each > 1:
                Fma(scaled.shape, True, inside)(dot[1::each], scale[1::each], scaled, out=scaled)
            for block, one in zip(range(part.start, part.stop), scaled, strict=True):
                add(one, x.scale[:, block, None], total, out=total)
        return canonical(total)


#: The bits of one expert on quantised tokens, see `reference.expert`.
expert = partial(reference.expert, product=product, quantise=quantise)
