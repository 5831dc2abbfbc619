"""Checks in common use on RMSNorm: rows and weights uniform in [-1, 1], and an eps of a model."""

from __future__ import annotations

from typing import Any

from strata.executors.base import Executor
from strata.kernels import rms_norm
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.rms_norm import reference

ROWS, COLUMNS, EPS = 16, 256, 2.0**-20


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    stream = stream_of(seed)
    x, weight = uniform(stream.child("x"), (ROWS, COLUMNS)), uniform(stream.child("weight"), (COLUMNS,))
    residual = uniform(stream.child("residual"), (ROWS, COLUMNS)) if path.mode == "residual" else None
    got = rms_norm.run(executor, path, x, weight, EPS, residual).out
    return judge(got, reference.norm(x, weight, residual, EPS))


CHECKS = Conventional(_run, flavor="checked")
