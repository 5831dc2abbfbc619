"""The last of so many elements that every array has more than 2**33 of them, a block's end and a part of four last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import pointwise
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.gated.case import ElementCase
from validation.operations.gated.inputs import build
from validation.operations.gated.launched import ELEMENTS

#: Elements before the last ones, whole blocks: offsets need more than 32 bits in elements too.
_BEFORE = 1 << 33


def parts(case: ElementCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The elements of a case behind 2**33 others, in a buffer of their own and over each operand."""
    places = (None, *ELEMENTS[path.operation].operands)
    return [
        Part(_name(over), lambda over=over: _far(case, path, executor, over))  # type: ignore[misc]
        for over in places
    ]


def _name(over: str | None) -> str:
    return "far" if over is None else f"far over {over}"


def _far(case: ElementCase, path: Path, executor: LanesExecutor, over: str | None) -> Check:
    one, given = ELEMENTS[path.operation], build(case)
    near = one.run(executor, path, given, None).out.reshape(-1)
    count = _BEFORE + near.size
    held = {}
    for name in one.operands:
        held[name] = Mapped((count,), np.float32, name)
        held[name].view()[_BEFORE:] = given.arrays[name].reshape(-1)
    out = Mapped((count,), np.float32, "out") if over is None else held[over]
    first = _BEFORE // (pointwise.VECTOR * pointwise.THREADS)
    arguments = one.arguments(held, out, count, given.cap)
    executor.launch_end(one.kernel(path), pointwise.grid(count), arguments, first)
    return same(_name(over), [("outputs", out.view()[_BEFORE:].copy(), near)], [*held.values(), out])
