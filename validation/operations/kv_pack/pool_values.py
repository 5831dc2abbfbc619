"""The values of cells of a pool, by what its formats mean."""

from __future__ import annotations

import numpy as np

from strata.kernels.pool import Pool
from validation.operations.kv_pack.reference import unpack_int8, unpack_q4_0


def values(pool: Pool, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 K and V [cells, n_head_kv, 256] of logical cells, all of which must be resident.

    Cell c of KV head j is row `(table[c // page_size] * n_head_kv + j) * page_size + c % page_size`
    of the pool, that is element [table[c // page_size], j, c % page_size].
    """
    pages = pool.table[cells // pool.page_size].astype(np.int64)
    if (pages < 0).any():
        raise ValueError("a cell of an absent page has no value")
    slot = cells % pool.page_size

    def plane(data: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
        rows = data[pages, :, slot]
        if scale is not None:
            return unpack_int8(rows, scale[pages, :, slot])
        return unpack_q4_0(rows) if data.dtype == np.uint8 else rows.astype(np.float64)

    return plane(pool.k, pool.k_scale), plane(pool.v, pool.v_scale)
