"""Checks in common use on block selection: queries and keys uniform in [-1, 1], contexts of whole tiles, and of the
selection the share of cells that it has in common with the right one."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK, DIMS, HEADS
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.block_select import lengths, reference
from validation.operations.block_select.scorers import SCORERS

QUERIES, BLOCKS, TOP = 32, 64, 128


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    stream = stream_of(seed)
    q, keys = uniform(stream.child("q"), (QUERIES, HEADS, DIMS)), uniform(stream.child("keys"), (BLOCKS, DIMS))
    steps = lengths.steps(np.full(QUERIES, BLOCKS * BLOCK), np.full(QUERIES, TOP))
    return judge(SCORERS[path.operation].run(executor, path, q, keys, steps).scores, reference.scores(q, keys))


CHECKS = Conventional(_run)
