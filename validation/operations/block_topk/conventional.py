"""Checks in common use on the top of block selection: plain scores, whole blocks, and the cells as a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import block_topk
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.block_select import lengths
from validation.operations.block_select.choice import choose

QUERIES, BLOCKS, TOP = 8, 256, 512


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    scores = uniform(stream_of(seed).child("scores"), (QUERIES, BLOCKS))
    steps = lengths.steps(np.full(QUERIES, BLOCKS * BLOCK), np.full(QUERIES, TOP))
    sides = []
    for ids in (block_topk.run(executor, scores, steps).ids, choose(scores, steps, TOP)):
        mask = np.zeros((QUERIES, BLOCKS * BLOCK))
        np.put_along_axis(mask, np.clip(ids, 0, mask.shape[1] - 1).astype(np.int64), 1.0, axis=1)
        sides.append(mask)
    return judge(sides[0], sides[1])


CHECKS = Conventional(_run, flavor="checked")
