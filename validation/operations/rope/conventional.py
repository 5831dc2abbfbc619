"""Checks in common use on rope: heads uniform in [-1, 1], at the first positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.engine import rope_tables
from strata.executors.base import Executor
from strata.kernels import rope
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.rope import reference
from validation.operations.rope.inputs import BASES

ROWS, HEADS, DIMS = 16, 4, 64


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    x = uniform(stream_of(seed).child("x"), (ROWS, HEADS, DIMS))
    cos, sin = rope_tables.tables(BASES[0], DIMS // 2, ROWS)
    steps = np.zeros((ROWS, rope.WORDS), np.int32)
    steps[:, 0] = np.arange(ROWS)
    due = reference.turn(x, *reference.angles(steps[:, 0], DIMS // 2, BASES[0]))
    return judge(rope.run(executor, x, steps, cos, sin).out, due)


CHECKS = Conventional(_run, flavor="checked")
