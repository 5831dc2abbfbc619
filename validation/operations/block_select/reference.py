"""Scores in FP64, from the mathematics: the sum over heads of max(0, q . key)."""

from __future__ import annotations

import numpy as np


def dots(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """float64 [queries, heads, blocks]: every head with every key.

    Parameters
    ----------
    q
        float32 [queries, heads, dims].
    keys
        float32 [blocks, dims].
    """
    return np.asarray(q.astype(np.float64) @ keys.astype(np.float64).T)


def scores(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """float64 [queries, blocks]; of rows that are not finite it says nothing."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(dots(q, keys), 0.0).sum(axis=1))
