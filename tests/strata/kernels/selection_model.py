"""Block selection in NumPy: the choice of cells by sorting them, and the bits of each scorer."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import block_select, block_select_warp, selection
from strata.kernels.paths import PATHS
from strata.kernels.selection import BLOCK, DIMS, HEADS, Result
from validation.core.random_streams import Stream
from validation.numerics.fma import fma
from validation.numerics.tensorcore import PRESETS, mma

#: Every path that makes scores, the baseline first.
SCORERS = [name for name, path in PATHS.items() if path.operation in ("block_select_warp", "block_select")]


def chosen(scores: np.ndarray, steps: np.ndarray, cap: int) -> np.ndarray:
    """int32 [n_q, cap]: the cells of each query by the definition, and `UNWRITTEN` behind them."""
    ids = np.full((len(steps), cap), selection.UNWRITTEN, np.uint32).view(np.int32)
    for row, score, (_, cells, blocks, width) in zip(ids, scores, steps.tolist(), strict=True):
        own = score[:blocks]
        order = sorted(range(blocks), key=lambda block: (np.isnan(own[block]), -own[block], block))
        whole = [BLOCK * block + i for block in order for i in range(BLOCK)]
        row[:width] = sorted([*range(BLOCK * blocks, cells), *whole][:width])
    return ids


def drawn(seed: int, queries: int, blocks: int, exponents: tuple[int, int] = (0, 0)) -> tuple[np.ndarray, np.ndarray]:
    """q and keys, with a power of two of its own for every row, of exponents from the first to the last."""
    stream = Stream.of(seed, "selection")
    q, keys = stream.child("q").normals((queries, HEADS, DIMS)), stream.child("keys").normals((blocks, DIMS))
    first, last = exponents
    for rows, name in ((q, "of q"), (keys, "of keys")):
        drawn = stream.child(name).below(last - first + 1, rows.shape[:-1]).astype(np.int32) + first
        rows[...] = np.ldexp(rows, drawn[..., None])
    return q, keys


def run(executor: Executor, name: str, q: np.ndarray, keys: np.ndarray, steps: np.ndarray, **how: Any) -> Result:
    """A path of `SCORERS`."""
    run_path = block_select.run if PATHS[name].operation == "block_select" else block_select_warp.run
    return run_path(executor, PATHS[name], q, keys, steps, **how)


def score_bits(name: str, q: np.ndarray, keys: np.ndarray, rule: str) -> np.ndarray:
    """uint32 [n_q, blocks]: the bits of a path's scores, on tensor cores by a rule such as `sm_90`."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        operation, _, tier = name.split("/")
        if operation == "block_select_warp":
            dots = _by_lanes(q, keys)
        elif tier == "simt":
            dots = _by_chains(q, keys)
        else:
            dots = _by_tensor_cores(q, keys, 8 if tier == "sm75" else 16, rule)
        score = np.zeros((len(q), len(keys)), np.float32)
        for head in range(HEADS):
            score = score + np.where((dots[:, head] > 0) | np.isnan(dots[:, head]), dots[:, head], np.float32(0))
    bits: np.ndarray = np.where(np.isnan(score), np.uint32(0x7FFFFFFF), score.view(np.uint32))
    return bits


def _by_lanes(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    x, y = q.reshape(len(q), HEADS, 1, 32, 4), keys.reshape(1, 1, len(keys), 32, 4)
    part = x[..., 0] * y[..., 0]
    for i in range(1, 4):
        part = fma(x[..., i], y[..., i], part)
    while part.shape[-1] > 1:
        half = part.shape[-1] // 2
        part = part[..., :half] + part[..., half:]
    dot: np.ndarray = part[..., 0]
    return dot


def _by_chains(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    dot = np.zeros((len(q), HEADS, len(keys)), np.float32)
    for i in range(DIMS):
        dot = fma(q[:, :, None, i], keys[None, None, :, i], dot)
    return dot


def _split(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """hi and lo, float16, and exponents of rows."""
    size = np.where(np.isfinite(rows), np.abs(rows), 0).max(axis=-1)
    exponent = np.where(size == 0, 0, np.maximum(np.frexp(size)[1], -100))
    x = np.ldexp(rows, 14 - exponent[..., None])
    hi = x.astype(np.float16)
    return hi, (x - hi.astype(np.float32)).astype(np.float16), exponent


def _by_tensor_cores(q: np.ndarray, keys: np.ndarray, k: int, rule: str) -> np.ndarray:
    (q_hi, q_lo, e_q), (k_hi, k_lo, e_k) = _split(q.reshape(-1, DIMS)), _split(keys)
    high = cross = np.zeros((len(q_hi), len(keys)), np.uint32)
    for first in range(0, DIMS, 16):
        steps = [slice(at, at + k) for at in range(first, first + 16, k)]
        for a, b in ((q_lo, k_hi), (q_hi, k_lo)):
            for step in steps:
                cross = mma(a[:, step], b[:, step].T, cross, PRESETS[rule])
        for step in steps:
            high = mma(q_hi[:, step], k_hi[:, step].T, high, PRESETS[rule])
    e = e_q[:, None] + e_k[None, :] - 28
    total = high.view(np.float32) + cross.view(np.float32)
    dot: np.ndarray = np.ldexp(np.ldexp(total, e >> 1), e - (e >> 1))
    return dot.reshape(len(q), HEADS, len(keys))
