"""What the router must give: the exact choice, FP64 weights, and the very bits of its FP32 weights.

The choice is by logit, of equal ones by smaller id: sorting, no arithmetic. A NaN takes part as the smallest finite
float32, infinities as the outermost finite ones. A weight is the softmax over the chosen logits, since the softmax
over all differs from it by a factor that the renormalisation takes out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from validation.numerics.exp2 import exp2

LARGEST = np.finfo(np.float32).max
#: log2(e) as the float32 of strata/kernels/router.py.
LOG2_E = np.uint32(0x3FB8AA3B).view(np.float32)
#: What the sum of the chosen softmax values is raised to; never reached with at most 1024 experts.
LEAST = np.float32(2.0**-14)
_LANES = 32


class Routed(NamedTuple):
    """Experts of tokens.

    Parameters
    ----------
    ids
        int32 [T, k].
    weights
        float64 [T, k].
    logits
        float32 [T, k], those of the ids, finite.
    """

    ids: np.ndarray
    weights: np.ndarray
    logits: np.ndarray


def held(logits: np.ndarray) -> np.ndarray:
    """Logits as they take part: finite. They are float32 of any shape, and so is the result."""
    return np.clip(np.where(np.isnan(logits), -LARGEST, logits), -LARGEST, LARGEST).astype(np.float32)


def route(logits: np.ndarray, ranks: int) -> Routed:
    """The experts of each token, and their weights in FP64.

    Parameters
    ----------
    logits
        float32 [T, E].
    ranks
        Experts of a token, k.
    """
    x = held(logits)
    ids = np.argsort(-x, axis=1, kind="stable")[:, :ranks]
    chosen = np.take_along_axis(x, ids, axis=1)
    wide = chosen.astype(np.float64)
    p = np.exp(wide - wide[:, :1])
    return Routed(ids.astype(np.int32), p / p.sum(axis=1, keepdims=True), chosen)


def weight_bits(logits: np.ndarray, ranks: int) -> np.ndarray:
    """The weights bit for bit, by the formulas of strata/kernels/router.py.

    Parameters
    ----------
    logits
        float32 [T, E].
    ranks
        Experts of a token, k.

    Returns
    -------
    float32 array [T, k]
    """
    x = held(logits)
    tokens, experts = x.shape
    maximum = x.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        p = exp2((x - maximum) * LOG2_E)
        turns = -(-experts // _LANES)
        padded = np.zeros((tokens, turns * _LANES), np.float32)
        padded[:, :experts] = p
        lane = np.zeros((tokens, _LANES), np.float32)
        for turn in range(turns):
            lane = lane + padded[:, turn * _LANES : (turn + 1) * _LANES]
        while lane.shape[1] > 1:
            half = lane.shape[1] // 2
            lane = lane[:, :half] + lane[:, half:]
        softmax = np.take_along_axis(p, route(logits, ranks).ids.astype(np.int64), axis=1) / lane
        total = np.add.accumulate(softmax, axis=1, dtype=np.float32)[:, -1:]
        return np.asarray(softmax / np.maximum(total, LEAST))
