"""Checks in common use on combining: rows uniform in [-1, 1], with a shared expert."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import combine
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.combine import reference

TOKENS, RANKS, COLUMNS = 16, 8, 256


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    stream = stream_of(seed)
    x = uniform(stream.child("rows"), (TOKENS, RANKS, COLUMNS))
    w = np.abs(uniform(stream.child("weights"), (TOKENS, RANKS))) / np.float32(RANKS)
    shared, gate = uniform(stream.child("shared"), (TOKENS, COLUMNS)), uniform(stream.child("gate"), (TOKENS,))
    return judge(combine.run(executor, x, w, shared, gate).out, reference.combine(x, w, shared, gate))


CHECKS = Conventional(_run, flavor="checked")
