"""What checks in common use say of the expert kernels: relative RMS 2e-3 with 3e-2 in the worst row, and NMSE <= 5e-4.

The first two limits are those of the published test of these kernels, against a model in FP64 that rounds x and h to
int8 as the kernels do; the third is that of a widespread backend test. One friendly case: positive scales, x uniform
in [-1, 1], every expert named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.experts import expected, inputs
from validation.operations.experts.arithmetic import FUSED
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.checks import relative
from validation.operations.experts.kernels import OPERATIONS
from validation.operations.experts.published import RMS_TO_ROUNDED, WORST_ROW_TO_ROUNDED

TOKENS, EXPERTS, TOP, N, FF = 16, 4, 2, 512, 192
#: What the published test holds to its limits. Integer scales that are cut, as of the decode kernel, exceed them.
LIMITED = ("expert_fused", "expert_mmq")


def rows(path: Path, executor: Executor, x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an expert path on plain experts, and what they must come to. x: float32 [TOKENS, N]."""
    case = ExpertCase("experts_plain", seed, TOKENS, EXPERTS, TOP, N, FF)
    ids = np.stack([np.arange(TOKENS) % EXPERTS, (np.arange(TOKENS) + 1) % EXPERTS], axis=1).astype(np.int32)
    data = replace(inputs.build(case, path.mode), x=x, ids=ids)
    got = OPERATIONS[path.operation].run(executor, path, data, None, False).out.reshape(TOKENS * TOP, N)
    return got, expected.model(data, np.arange(TOKENS * TOP), FUSED).rounded.value


def limits(got: np.ndarray, want: np.ndarray) -> dict[str, Any]:
    """Whether rows are within the limits of the published test: rows_passes."""
    with np.errstate(all="ignore"):
        said = relative("rounded", got, want)
    rms, worst = said["rms_to_rounded"], said["worst_row_to_rounded"]
    fine = rms is not None and worst is not None and rms <= RMS_TO_ROUNDED and worst <= WORST_ROW_TO_ROUNDED
    return {"rows_passes": bool(fine)}


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    x = uniform(stream_of(seed).child("x"), (TOKENS, N))
    got, want = rows(path, executor, x, seed)
    said = {name: value for name, value in judge(got, want).items() if name != "allclose_passes"}
    return said | (limits(got, want) if path.operation in LIMITED else {})


def of(operation: str) -> Conventional:
    """What they ask of one of the operations on experts."""
    return Conventional(_run, ("rows_passes",) if operation in LIMITED else (), "checked")
