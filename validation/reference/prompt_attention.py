"""FP64 attention over selected cells of a paged pool, from the definition.

For query i, query head h and KV head j = h // group, over the cells c of the query's list whose
page is resident:

    s[c] = (q[i, h] . K[c, j]) / 16        w = softmax(s)        out[i, h] = sum_c w[c] V[c, j]

and zeros when no cell is left. K and V are the exact values that the pool's bytes stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.kernels.pool import Pool
from validation.reference.kv_pack import HEAD_DIM, unpack_int8, unpack_q4_0
from validation.selection import WIDTH

SOFTMAX_SCALE = 1.0 / 16.0


@dataclass(frozen=True)
class Reference:
    """FP64 results on some queries.

    queries: int64 [s], which ones; out: float64 [s, n_head, 256];
    magnitude: float64 [s, n_head, 256], sum_c w[c] |V[c]|, what errors of the sum are relative to;
    rounded: like `out` with every V rounded to FP16 first (mode k8v4 only, else None).
    """

    queries: np.ndarray
    out: np.ndarray
    magnitude: np.ndarray
    rounded: np.ndarray | None = None


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


def resident(pool: Pool, ids: np.ndarray) -> np.ndarray:
    """int64: the ids whose page is resident, in their order."""
    cells = ids.astype(np.int64)
    return cells[pool.table[cells // pool.page_size] >= 0]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Stable float64 softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def attend(
    q: np.ndarray, pool: Pool, ids: np.ndarray, steps: np.ndarray, queries: Sequence[int] | np.ndarray
) -> Reference:
    """The reference on `queries` (indices into q).

    q: float32 [n_q, n_head, 256]; ids: int32 [n_q, cap]; steps: int32 [n_q, 4], entry 3 the width.
    """
    chosen = np.asarray(queries, dtype=np.int64)
    shape = (len(chosen), *q.shape[1:])
    out, magnitude = np.zeros(shape), np.zeros(shape)
    rounded = np.zeros(shape) if pool.mode == "k8v4" else None
    for index, query in enumerate(chosen.tolist()):
        cells = resident(pool, ids[query, : int(steps[query, WIDTH])])
        if len(cells) == 0:
            continue
        k, v = values(pool, cells)
        grouped = q[query].astype(np.float64).reshape(pool.n_head_kv, -1, HEAD_DIM)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = softmax(grouped @ k.transpose(1, 2, 0) * SOFTMAX_SCALE)
            by_head = v.transpose(1, 0, 2)
            out[index] = (weights @ by_head).reshape(shape[1:])
            magnitude[index] = (weights @ np.abs(by_head)).reshape(shape[1:])
            if rounded is not None:
                rounded[index] = (weights @ by_head.astype(np.float16).astype(np.float64)).reshape(shape[1:])
    return Reference(chosen, out, magnitude, rounded)
