"""What RMSNorm must give: FP64 from the mathematics, and the very bits of the FP32 one."""

from __future__ import annotations

import numpy as np

from validation.numerics.fma import Fma, plain

#: Columns that a warp takes at a time, and those of a lane.
_TURN, _LANE = 128, 4


def norm(x: np.ndarray, weight: np.ndarray, residual: np.ndarray | None, eps: float) -> np.ndarray:
    """residual + x / sqrt(mean of x^2 + eps) * weight, in FP64.

    Parameters
    ----------
    x
        float32 [rows, n].
    weight
        float32 [n].
    residual
        float32 [rows, n], or None.
    eps
        A float32.

    Returns
    -------
    float64 array [rows, n]
    """
    wide = x.astype(np.float64)
    out = wide / np.sqrt(np.square(wide).mean(axis=1, keepdims=True) + eps) * weight.astype(np.float64)
    return np.asarray(out if residual is None else residual.astype(np.float64) + out)


def squares(x: np.ndarray) -> np.ndarray:
    """The sum of squares of each row, bit for bit: of each lane in order, and of lanes by halves.

    Parameters
    ----------
    x
        float32 [rows, n].

    Returns
    -------
    float32 array [rows]
    """
    rows, n = x.shape
    turns = -(-n // _TURN)
    padded = np.zeros((rows, turns * _TURN), np.float32)
    padded[:, :n] = x
    by_lane = np.ascontiguousarray(padded.reshape(rows, turns, _TURN // _LANE, _LANE).transpose(1, 3, 0, 2))
    total = np.zeros((rows, _TURN // _LANE), np.float32)
    step = Fma(total.shape)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for turn in by_lane:
            for value in turn:
                step(value, value, total, total)
        while total.shape[1] > 1:
            half = total.shape[1] // 2
            total = total[:, :half] + total[:, half:]
    return np.asarray(total[:, 0])


def norm_bits(x: np.ndarray, weight: np.ndarray, residual: np.ndarray | None, eps: float) -> np.ndarray:
    """The same bit for bit, by the formulas of strata/kernels/rms_norm.py; every NaN is 7fffffff.

    Parameters
    ----------
    x, weight, residual, eps
        As of `norm`.

    Returns
    -------
    float32 array [rows, n]
    """
    total = squares(x)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        root = np.sqrt(total / np.float32(x.shape[1]) + np.float32(eps))
        scale = np.where(np.isfinite(total), np.float32(1) / root, np.float32(np.nan))
        out = x * scale[:, None] * weight
        return plain(out if residual is None else residual + out)


def lost(x: np.ndarray) -> int:
    """How many rows have a sum of squares that is not finite.

    Parameters
    ----------
    x
        float32 [rows, n].
    """
    return int((~np.isfinite(squares(x))).sum())
