"""Checks in common use on operations on elements: uniform in [-1, 1], and under a cap of 1."""

from __future__ import annotations

from typing import Any

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.gated.inputs import Inputs
from validation.operations.gated.launched import ELEMENTS

ROWS, COLUMNS = 16, 256


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    one, stream = ELEMENTS[path.operation], stream_of(seed)
    given = Inputs({name: uniform(stream.child(name), (ROWS, COLUMNS)) for name in one.operands}, 1.0)
    return judge(one.run(executor, path, given, None).out, one.reference(path.mode, given))


CHECKS = Conventional(_run, flavor="checked")
