"""Checks in common use on dense products: rows uniform in [-1, 1], and weights of one sign of scale.

A product of quantised rows is not held against allclose: near zero it is off by more than that asks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.linear import blocks, reference
from validation.operations.linear.inputs import Inputs
from validation.operations.linear.kernels import MULTIPLIERS

ROWS, OUTPUTS, WIDTH = 16, 64, 512


def _run(second: tuple[str, ...], path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    stream = stream_of(seed)
    matrix = blocks.matrix(stream.child("matrix"), "bell", path.mode, OUTPUTS, WIDTH)
    x = uniform(stream.child("x"), (ROWS, WIDTH))
    got = MULTIPLIERS[path.operation].run(executor, path, Inputs(path.mode, matrix, x)).outputs["out"]
    said = judge(got, reference.product(reference.exact(path.mode, matrix), x))
    return {name: value for name, value in said.items() if name.startswith("nmse") or name in second}


def of(operation: str) -> Conventional:
    """What they ask of one of the operations."""
    second = ("allclose_passes",) if operation == "linear_f16" else ()
    return Conventional(partial(_run, second), second)
