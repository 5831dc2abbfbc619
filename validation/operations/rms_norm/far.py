"""RMSNorm of the last of nearly 2**31 rows, so that every array of rows has more than 2**32 elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import rms_norm
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.rms_norm.case import NormCase
from validation.operations.rms_norm.inputs import Inputs, build

#: Columns of the most rows, and elements of arrays whose rows are longer.
_NARROW, _ELEMENTS = 4, 1 << 33


def parts(case: NormCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last rows that there may be, of four columns; and the last of rows as long as the case has them."""
    most = rms_norm.MOST_ROWS
    near = Inputs(*_narrow(build(case, path.mode)))
    return [
        Part("far", lambda: _far("far", near, most, path, executor)),
        Part(
            "far elements",
            lambda: _far("far elements", build(case, path.mode), min(_ELEMENTS // case.n, most), path, executor),
        ),
    ]


def _narrow(data: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
    residual = None if data.residual is None else data.residual[:, :_NARROW]
    return data.x[:, :_NARROW].copy(), data.weight[:_NARROW].copy(), residual, data.eps


def _far(name: str, data: Inputs, rows: int, path: Path, executor: LanesExecutor) -> Check:
    """The rows of some inputs as the last of so many."""
    some, n = data.x.shape
    near = rms_norm.run(executor, path, data.x, data.weight, data.eps, data.residual)
    x, out = (Mapped((rows, n), np.float32, what) for what in ("x", "out"))
    x.view()[-some:] = data.x
    residual = None
    if data.residual is not None:
        residual = Mapped((rows, n), np.float32, "residual")
        residual.view()[-some:] = data.residual
    weight = Mapped.holding(data.weight, "weight", 0)
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    grid = -(-rows // rms_norm.WARPS)
    args = (x, weight, residual, out, lost, np.int32(rows), np.int32(n), np.float32(data.eps))
    executor.launch_end(rms_norm.kernel(), (grid, 1, 1), args, (rows - some) // rms_norm.WARPS)
    buffers = [one for one in (x, weight, residual, out, lost) if one is not None]
    return same(name, [("outputs", out.view()[-some:].copy(), near.out)], buffers)
