"""What the fused path would launch, found by its own host code."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.kernels import expert_fused
from strata.kernels.experts import Experts, Geometry, PlacedExperts, formats_of, layout
from strata.kernels.paths import Path
from validation.core.dry_run import DryRun
from validation.core.recordable import Launch
from validation.operations.experts.case import ExpertCase


def of_fused(path: Path, case: ExpertCase, multiprocessors: int | None) -> list[Launch]:
    """The launches of a fused path on a case, in order. Grids depend on sizes and multiprocessors, not on values."""
    gate_up, down = formats_of(path.mode)
    geometry = Geometry(case.n, case.ff)
    # One byte, one value and one id stand for all: views of the right shape that take no memory.
    blob = np.broadcast_to(np.uint8(0), layout(gate_up, down, geometry).nbytes)
    x = np.broadcast_to(np.float32(0), (case.tokens, case.n))
    ids = np.broadcast_to(np.int32(0), (case.tokens, case.top))
    stage: Any = DryRun(multiprocessors)
    nothing: Any = None
    held = PlacedExperts(Experts(gate_up, down, geometry, [blob] * case.experts), [nothing] * case.experts, nothing)
    expert_fused.prepare(stage, path, held, x, ids).launch()
    return list(stage.launches)
