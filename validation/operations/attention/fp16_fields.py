"""The binary16 numbers of a pool: scales, or the values themselves of FP16 planes, as bits to read and replace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strata.kernels.pool import Pool
from validation.operations.attention.pools import Inputs
from validation.operations.kv_pack.reference import Q4_BYTES

SIGN = 0x8000
#: Exponent fields: of subnormals and zeros, of infinities and NaN.
SUBNORMAL, SPECIAL = 0, 31
_FRACTION_BITS = 10


def halves(pool: Pool, plane: str) -> np.ndarray:
    """uint16 [pages, kv, page_size, n], a copy: 256 values, or 4 (INT8) or 8 (Q4_0) scales, of rows of `k` or `v`."""
    data, scale = getattr(pool, plane), getattr(pool, f"{plane}_scale")
    if scale is not None:
        return np.array(scale).view(np.uint16)
    if data.dtype == np.float16:
        return np.array(data).view(np.uint16)
    pair = data.reshape(*data.shape[:-1], -1, Q4_BYTES)[..., :2].astype(np.uint16)
    return np.asarray(pair[..., 0] | pair[..., 1] << 8, dtype=np.uint16)


def with_halves(pool: Pool, plane: str, bits: np.ndarray) -> Pool:
    """The pool with other numbers in the place of `halves(pool, plane)`; codes stay."""
    data, scale = getattr(pool, plane), getattr(pool, f"{plane}_scale")
    if scale is not None:
        scale = bits.view(np.float16)
    elif data.dtype == np.float16:
        data = bits.view(np.float16)
    else:
        data = data.copy()
        blocks = data.reshape(*data.shape[:-1], -1, Q4_BYTES)
        blocks[..., 0], blocks[..., 1] = bits & 0xFF, bits >> 8
    if plane == "k":
        return replace(pool, k=data, k_scale=scale)
    return replace(pool, v=data, v_scale=scale)


def exponents(bits: np.ndarray) -> np.ndarray:
    """int64 exponent fields, 0..31."""
    return (bits >> _FRACTION_BITS & 31).astype(np.int64)


def negated(bits: np.ndarray) -> np.ndarray:
    """Every sign flipped, of zeros and NaN too."""
    return bits ^ np.uint16(SIGN)


def shifted(bits: np.ndarray, power: int) -> np.ndarray:
    """Normal numbers times 2**power, which must stay normal; zeros, subnormals and specials as they are."""
    field = exponents(bits)
    normal = (field != SUBNORMAL) & (field != SPECIAL)
    return np.where(normal, bits.astype(np.int64) + (power << _FRACTION_BITS), bits).astype(np.uint16)


def in_use(inputs: Inputs) -> np.ndarray:
    """bool [pages, page_size]: the slots that some query's list reaches."""
    pool = inputs.pool
    used = np.zeros((pool.k.shape[0], pool.page_size), dtype=bool)
    for query, width in enumerate(inputs.widths.tolist()):
        page, slot = slots(inputs, query, width)
        used[page, slot] = True
    return used


def slots(inputs: Inputs, query: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 physical page and slot of the resident cells among the first `width` ids of a query, in list order."""
    cells = inputs.ids[query, :width].astype(np.int64)
    page = inputs.pool.table[cells // inputs.pool.page_size].astype(np.int64)
    here = page >= 0
    return page[here], (cells % inputs.pool.page_size)[here]
