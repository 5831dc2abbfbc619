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
from validation.operations.attention.selection import WIDTH
from validation.operations.attention.terms import Terms
from validation.operations.kv_pack.pool_values import values as values
from validation.operations.kv_pack.reference import HEAD_DIM, Q4_ZERO, q4_0_scales

SOFTMAX_SCALE = 1.0 / 16.0


@dataclass(frozen=True)
class Reference:
    """FP64 results on some queries.

    Parameters
    ----------
    queries
        int64 [s], which ones.
    out
        float64 [s, heads, 256].
    magnitude
        float64 [s, heads, 256], sum_c w[c] |V[c]|, what errors of the sum are relative to.
    rounded
        Like `out` with every V rounded to FP16 first, in mode k8v4; None in others.
    """

    queries: np.ndarray
    out: np.ndarray
    magnitude: np.ndarray
    rounded: np.ndarray | None = None


def resident(pool: Pool, ids: np.ndarray) -> np.ndarray:
    """The ids whose page is resident, in their order.

    Parameters
    ----------
    pool
        Keys and values.
    ids
        int32, logical cells.

    Returns
    -------
    int64 array
    """
    cells = ids.astype(np.int64)
    return cells[pool.table[cells // pool.page_size] >= 0]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Stable softmax over the last axis.

    Parameters
    ----------
    scores
        float64 [..., n].

    Returns
    -------
    float64 array
        Of the shape of the scores.

    References
    ----------
    P. Blanchard, D. J. Higham, N. J. Higham, "Accurately Computing the Log-Sum-Exp and Softmax Functions", IMA Journal
    of Numerical Analysis 41 (4), 2021.
    """
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def terms(q: np.ndarray, pool: Pool, ids: np.ndarray, width: int) -> Terms:
    """What one query's outputs are made of.

    Parameters
    ----------
    q
        float32 [heads, 256].
    pool
        Keys and values.
    ids
        int32 [cap], logical cells.
    width
        How many of the ids are read.
    """
    cells = resident(pool, ids[:width])
    k, v = values(pool, cells)
    grouped = q.astype(np.float64).reshape(pool.n_head_kv, -1, HEAD_DIM)
    keys = k.transpose(1, 2, 0)
    return Terms(
        scores=grouped @ keys * SOFTMAX_SCALE,
        products=np.abs(grouped) @ np.abs(keys) * SOFTMAX_SCALE,
        keys=np.abs(k).sum(axis=-1).T * SOFTMAX_SCALE,
        largest_q=np.abs(grouped).max(axis=-1),
        v=v.transpose(1, 0, 2),
        largest_v=_largest_v(pool, cells),
        q=grouped,
        k=keys,
        place=np.flatnonzero(pool.table[ids[:width].astype(np.int64) // pool.page_size] >= 0),
    )


def _largest_v(pool: Pool, cells: np.ndarray) -> np.ndarray:
    """float64 [kv]: the largest |scale| of V over the cells, times the largest code of its format."""
    if len(cells) == 0:
        return np.zeros(pool.n_head_kv)
    pages, slot = pool.table[cells // pool.page_size].astype(np.int64), cells % pool.page_size
    if pool.v_scale is not None:
        size = np.abs(pool.v_scale[pages, :, slot].astype(np.float64)) * -np.iinfo(np.int8).min
    elif pool.v.dtype == np.uint8:
        size = np.abs(q4_0_scales(pool.v[pages, :, slot]).astype(np.float64)) * Q4_ZERO
    else:
        size = np.abs(pool.v[pages, :, slot].astype(np.float64))
    return np.asarray(size.max(axis=(0, 2)))


def attend(
    q: np.ndarray, pool: Pool, ids: np.ndarray, steps: np.ndarray, queries: Sequence[int] | np.ndarray
) -> Reference:
    """The reference on some queries.

    Parameters
    ----------
    q
        float32 [n_q, heads, 256].
    pool
        Keys and values.
    ids
        int32 [n_q, cap], logical cells.
    steps
        int32 [n_q, 4], of which entry 3 is the width.
    queries
        Indices into q.
    """
    chosen = np.asarray(queries, dtype=np.int64)
    shape = (len(chosen), *q.shape[1:])
    out, magnitude = np.zeros(shape), np.zeros(shape)
    rounded = np.zeros(shape) if pool.mode == "k8v4" else None
    with np.errstate(over="ignore", invalid="ignore"):
        for index, query in enumerate(chosen.tolist()):
            of = terms(q[query], pool, ids[query], int(steps[query, WIDTH]))
            if of.scores.shape[-1] == 0:
                continue
            weights = softmax(of.scores)
            out[index] = (weights @ of.v).reshape(shape[1:])
            magnitude[index] = (weights @ np.abs(of.v)).reshape(shape[1:])
            if rounded is not None:
                rounded[index] = (weights @ of.v.astype(np.float16).astype(np.float64)).reshape(shape[1:])
    return Reference(chosen, out, magnitude, rounded)
